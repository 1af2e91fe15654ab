"""One operator of torch's database, compiled for the target and run on the engine, against eager in float64."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

import tilesight
from benchmarks.yardsticks.outcomes import LaunchCounter, describe_failure, time_limit
from tilesight.capture.enable import OutOfBoundsWarning
from tilesight.capture.inductor.compile import torch_compile
from tilesight.capture.inductor.on_engine import CompiledOnEngine
from tilesight.capture.numerics import judge
from tilesight.errors import InputError
from tilesight.targets import target

SAMPLES_LOOKED_AT = 10
STANDARD_ERRORS = 6.0
FEWEST_FOR_STATISTICS = 100
UNDEFINED_VALUES = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
FAILURES = ("wrong", "not run", "refused")


@dataclass
class Direction:
    """Forward or backward of one operator, its samples together.

    Args:
        verdict: right, wrong, random (shape, type and statistics agree), not run, refused (by
            torch.compile, on any device) or none (the operator has no such direction)
        launches: kernels that the engine executed
        reason: why it is wrong or was not run
    """

    verdict: str = "none"
    launches: int = 0
    max_error: float = 0.0
    tolerance: float = 0.0
    reason: str = ""

    def fail(self, verdict: str, reason: str) -> None:
        """Keep the first failure of all samples."""
        if self.verdict not in FAILURES:
            self.verdict, self.reason = verdict, reason

    def pass_(self, verdict: str) -> None:
        if self.verdict == "none":
            self.verdict = verdict


@dataclass
class OperatorCheck:
    """What became of one operator in one dtype."""

    name: str
    variant: str
    dtype: str
    samples: int = 0
    generated: int = 0
    seconds: float = 0.0
    forward: Direction = field(default_factory=Direction)
    backward: Direction = field(default_factory=Direction)
    notes: list[str] = field(default_factory=list[str])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Results:
    """The outputs of one call and the gradients of its inputs, real numbers only."""

    outputs: list[torch.Tensor]
    gradients: list[torch.Tensor]


def check_operator(operator: Any, dtype: torch.dtype, samples: int, limit_s: float) -> OperatorCheck:
    """Compile, run and judge the largest of an operator's first samples, within a time limit for all.

    Args: operator: an OpInfo of torch's operator database
    """
    check = OperatorCheck(operator.name, operator.variant_test_name, str(dtype).removeprefix("torch."))
    started = time.perf_counter()
    counter = LaunchCounter()
    session = tilesight.enable(compile_for="h200")
    session.observers.append(counter)
    try:
        with time_limit(limit_s), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", OutOfBoundsWarning)
            for sample in choose_samples(operator, dtype, samples):
                _check_sample(check, operator.op, sample, counter)
                check.samples += 1
    except Exception as error:  # a failure of any kind, here or in torch, is what is counted
        check.forward.fail("not run", describe_failure(error))
    finally:
        tilesight.disable()
        torch._dynamo.reset()
    check.seconds = round(time.perf_counter() - started, 2)
    return check


def choose_samples(operator: Any, dtype: torch.dtype, count: int) -> list[Any]:
    """The `count` largest of the first samples, with gradients where the operator has them in this dtype."""
    trains = operator.supports_autograd and dtype in operator.backward_dtypes
    torch.manual_seed(0)
    found = list(islice(operator.sample_inputs("cpu", dtype, requires_grad=trains), SAMPLES_LOOKED_AT))
    return sorted(found, key=lambda sample: -_elements(sample))[:count]


def _elements(sample: Any) -> int:
    return sum(each.numel() for each in _tensors((sample.input, sample.args, sample.kwargs)))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)]


def _check_sample(check: OperatorCheck, function: Callable[..., Any], sample: Any, counter: LaunchCounter) -> None:
    eager = run_sample(function, sample)
    again = run_sample(function, sample, seed=1)
    is_random = _differ(eager.outputs, again.outputs)
    reference = _reference(function, sample, eager)
    compiled = CompiledOnEngine(function, target("h200"), mode=None, dynamic=False)
    before = counter.launches
    marks: list[int] = []
    forward: list[torch.Tensor] = []

    def note_forward(outputs: list[torch.Tensor]) -> None:
        marks.append(counter.launches)
        forward.extend(outputs)

    try:
        results = run_sample(compiled, sample, after_forward=note_forward)
    except Exception as error:
        failed = check.backward if marks else check.forward
        failed.fail(*_explain(error, function, sample))
        if not marks:
            return
        results = Results(forward, [])
    finally:
        _count(check, compiled, counter, before, marks)
    undefined = check.name in UNDEFINED_VALUES
    sides = [(check.forward, results.outputs, reference.outputs, eager.outputs)]
    if eager.gradients:
        sides.append((check.backward, results.gradients, reference.gradients, eager.gradients))
    for direction, got, expected, own in sides:
        if direction.verdict not in FAILURES:
            _judge(direction, got, expected, own, is_random=is_random or undefined)


def _explain(error: Exception, function: Callable[..., Any], sample: Any) -> tuple[str, str]:
    """(verdict, reason); `refused` where torch.compile itself traces no such graph, whatever the device."""
    if isinstance(error, OutOfBoundsWarning):
        return "wrong", describe_failure(error)
    torch._dynamo.reset()
    try:
        run_sample(torch_compile(function, backend="aot_eager", dynamic=False), sample)
    except Exception as own:
        return "refused", f"torch.compile with aot_eager too: {describe_failure(own)}"
    return "not run", describe_failure(error)


def _differ(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Two runs with different seeds gave different values, or different shapes."""
    pairs = list(zip(first, second, strict=True))
    return any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def _count(
    check: OperatorCheck, compiled: CompiledOnEngine, counter: LaunchCounter, before: int, marks: Sequence[int]
) -> None:
    middle = marks[0] if marks else counter.launches
    check.forward.launches += middle - before
    check.backward.launches += counter.launches - middle
    names = {kernel.name for graph in compiled.graphs for region in graph.regions for kernel in region.kernels}
    check.generated += len(names)
    if missing := names - counter.kernels:
        check.notes.append(f"generated, not launched: {', '.join(sorted(missing))}")


def _reference(function: Callable[..., Any], sample: Any, eager: Results) -> Results:
    """Eager in float64; what eager itself gives where it has no float64 or another shape there."""
    try:
        wide = run_sample(function, sample, widen=True)
    except Exception:  # such as a dtype argument that float64 inputs contradict
        return eager
    same = [t.shape for t in wide.outputs] == [t.shape for t in eager.outputs]
    return wide if same and len(wide.gradients) == len(eager.gradients) else eager


def run_sample(
    function: Callable[..., Any],
    sample: Any,
    *,
    widen: bool = False,
    seed: int = 0,
    after_forward: Callable[[list[torch.Tensor]], None] = lambda outputs: None,
) -> Results:
    """One call on copies of the sample's tensors, and the gradients for a fixed random cotangent."""
    value, args, kwargs = tree_map(lambda each: _copied(each, widen=widen), (sample.input, sample.args, sample.kwargs))
    torch.manual_seed(seed)
    result = function(value, *args, **kwargs)
    outputs = [_real(each) for each in _tensors(result) if each.layout == torch.strided]
    after_forward(outputs)
    processed = _tensors(sample.output_process_fn_grad(result))
    leaves = [each for each in _tensors((value, args, kwargs)) if each.requires_grad]
    roots = [each for each in processed if each.requires_grad]
    gradients: list[torch.Tensor] = []
    if leaves and roots:
        generator = torch.Generator().manual_seed(7)
        cotangents = [_cotangent(root, generator) for root in roots]
        found = torch.autograd.grad(roots, leaves, cotangents, allow_unused=True)
        pairs: Any = zip(leaves, found, strict=True)  # allow_unused: a gradient may be None
        gradients = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in pairs]
    return Results(outputs, [_real(each) for each in gradients])


def _copied(value: Any, *, widen: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copied = value.detach().clone()
    if widen and value.is_floating_point():
        copied = copied.to(torch.float64)
    return copied.requires_grad_(value.requires_grad)


def _cotangent(root: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values that every floating-point type holds exactly, so that each run gets the same ones."""
    values = torch.randint(-8, 9, root.shape, generator=generator) / 8
    return values.to(root.dtype)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _judge(
    direction: Direction,
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    eager: Sequence[torch.Tensor],
    *,
    is_random: bool,
) -> None:
    forms = [[(tuple(t.shape), _kind(t.dtype)) for t in side] for side in (got, eager)]
    if forms[0] != forms[1]:
        direction.fail("wrong", f"shapes and types {forms[0]} where eager gives {forms[1]}")
        return
    if is_random:
        is_alike = all(_is_alike(a, b) for a, b in zip(got, eager, strict=True))
        direction.pass_("random") if is_alike else direction.fail("wrong", "statistics differ from eager's")
        return
    for one, reference, own in zip(got, expected, eager, strict=True):
        _judge_tensor(direction, one, reference, own)
    direction.pass_("right")


def _kind(dtype: torch.dtype) -> str:
    """A GPU keeps the statistics of a norm in float32 where the CPU's eager has bfloat16."""
    return "float" if dtype.is_floating_point else str(dtype)


def _judge_tensor(direction: Direction, got: torch.Tensor, reference: torch.Tensor, eager: torch.Tensor) -> None:
    """Right within the published tolerance, or within twice eager's own error where that is more."""
    try:
        own = judge([eager], [reference])
    except InputError:
        own = None
    if own is None or math.isinf(own.max_error):
        reference, allowed = eager, 0.0
    else:
        allowed = 2 * own.max_error
    verdict = judge([got], [reference])
    tolerance = max(verdict.tolerance, allowed)
    if verdict.max_error > tolerance:
        direction.fail("wrong", f"error {verdict.max_error:.2e} exceeds {tolerance:.2e}")
    if verdict.max_error >= direction.max_error:
        direction.max_error, direction.tolerance = verdict.max_error, tolerance


def _is_alike(got: torch.Tensor, eager: torch.Tensor) -> bool:
    """Means lie within a few standard errors of each other, where there is enough to tell."""
    a, b = got.to(torch.float64), eager.to(torch.float64)
    if a.numel() < FEWEST_FOR_STATISTICS:
        return True
    spread = math.sqrt(float(a.var() + b.var()) / a.numel())
    return bool((a.mean() - b.mean()).abs() <= STANDARD_ERRORS * spread + 1e-6)
