"""The bench on a GPU: its clocks against each other and a known copy, what catches a missed launch, peers, JSON."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest
import torch

import tilesight.cli
from tests.gpu.drawn import draw
from tilesight.bench.clocks import Call, CudaClock, EventSampler, GraphSampler, elapsed_s
from tilesight.bench.model import NOT_INSTALLED, BenchCase, Measured
from tilesight.bench.numbers import count_kernels, peak_bytes
from tilesight.bench.operator_model import Draw, Operator
from tilesight.bench.operators import COPY, OPERATORS
from tilesight.bench.run import BenchOptions, bench, measure_case, roof_of
from tilesight.report.serialize import to_dict
from tilesight.targets import target_of_device

MODULES = {
    "liger": "liger_kernel", "flag_gems": "flag_gems", "quack": "quack", "flash_attn": "flash_attn", "flash": "torch",
    "cudnn": "torch",
}  # fmt: skip
BFLOAT16 = Draw(torch.bfloat16, "cuda")
SAMPLES = 21
SLEEP_CYCLES = 500_000
INSIDE_L2 = (1 << 21,)
"""8 MB of float32: in and out, a third of an H200's L2."""


pytestmark = pytest.mark.filterwarnings(
    "ignore:warmup, rep, and use_cuda_graph parameters are deprecated:DeprecationWarning"  # FlagGems' autotuners
)


def clock() -> CudaClock:
    return CudaClock(int(torch.cuda.get_device_properties(0).L2_cache_size))


def add_one(seed: int = 0, shape: tuple[int, ...] = INSIDE_L2) -> Call:
    x = draw(shape, torch.float32, seed)
    y = torch.empty_like(x)
    return lambda: torch.add(x, 1, out=y)


def by_name(case: BenchCase) -> dict[str, Measured]:
    return {each.provider: each for each in case.measured}


def test_a_copy_takes_what_the_memory_needs() -> None:
    """A large copy is neither faster than the datasheet nor slower than two thirds of it."""
    known = target_of_device(torch.cuda.get_device_name())
    if known is None:
        pytest.skip(f"no datasheet of {torch.cuda.get_device_name()}")
    rate = roof_of(BenchOptions())
    assert rate is not None and 0.66 * known.hbm_gb_per_s < rate < known.hbm_gb_per_s


def test_events_agree_with_many_copies_in_a_row() -> None:
    """One sample is one call: 20 copies between two events take 20 samples, within a tenth."""
    (x,) = COPY.inputs((1 << 12, 1 << 15), BFLOAT16)
    sampler = EventSampler(clock(), [lambda: x.clone()] * 2, 20e-6)
    one = median(sampler.sample() for _ in range(SAMPLES))
    many = median(elapsed_s(*[lambda: x.clone()] * 20) / 20 for _ in range(5))
    assert one == pytest.approx(many, rel=0.1)


def test_replay_is_shared_by_the_calls_of_a_graph() -> None:
    """A call of a few microseconds: its share of a graph is less than an event pair around it, and than with Python."""
    call = add_one(shape=(1000,))
    sampler = clock().prepare([call, add_one(1, (1000,))])
    assert isinstance(sampler, GraphSampler) and sampler.method == "graph"
    share = median(sampler.sample() for _ in range(SAMPLES))
    assert 0 < share < median(elapsed_s(call) for _ in range(SAMPLES))
    assert share < sampler.host()


def test_a_cleared_l2_is_colder() -> None:
    call = add_one()
    sampler = EventSampler(clock(), [call, call], 20e-6)
    cold = median(sampler.sample() for _ in range(SAMPLES))
    warm = median(_warm(call) for _ in range(SAMPLES))
    assert cold > 1.1 * warm, (cold, warm)


def _warm(call: Call) -> float:
    """Seconds of a second call, with the GPU kept busy by what touches no memory while it is put in the queue."""
    call()
    torch.cuda._sleep(SLEEP_CYCLES)  # pyright: ignore[reportPrivateUsage]
    return elapsed_s(call)


def test_inputs_in_turn_are_colder_than_the_same_ones() -> None:
    """Inside a graph: sets of inputs that are three times L2 against one set."""
    sets = 3 * int(torch.cuda.get_device_properties(0).L2_cache_size) // (8 * INSIDE_L2[0]) + 1
    clocks, calls = clock(), [add_one(seed) for seed in range(sets)]
    samplers = [clocks.prepare(each) for each in (calls, calls[:1])]
    assert [sampler.method for sampler in samplers] == ["graph", "graph"]
    cold, warm = (median(sampler.sample() for _ in range(SAMPLES)) for sampler in samplers)
    assert cold > 1.1 * warm, (cold, warm)


def test_a_provider_that_launches_nothing_has_no_time() -> None:
    kept: list[torch.Tensor] = []

    def remembered(x: torch.Tensor) -> torch.Tensor:
        """Right once, and never computed again."""
        if not kept:
            kept.append(torch.softmax(x, -1))
        return kept[0]

    softmax = OPERATORS["softmax"]
    operator = Operator("softmax", softmax.inputs, softmax.eager, remembered)
    case = measure_case(operator, (512, 1024), BenchOptions(samples=3, providers=("eager", "hand")))
    hand, eager = by_name(case)["hand"], by_name(case)["eager"]
    assert hand.ok and hand.timing is None and hand.reason == "a call launched no kernel"
    assert eager.timing is not None and eager.timing.kernels == 1


def test_kernels_and_memory_of_a_call_are_counted() -> None:
    x = draw((1 << 20,), torch.float32)
    assert [count_kernels(call) for call in (lambda: None, lambda: x.clone(), lambda: (x + 1) * 2)] == [0, 1, 2]
    assert peak_bytes(lambda: None) == 0
    assert peak_bytes(lambda: x.clone()) == 4 << 20
    assert peak_bytes(lambda: (x + 1) * 2) == 8 << 20


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_right_and_timed(name: str) -> None:
    """At its small shape, eager and ours, in the dtype that a GPU is asked for."""
    operator = OPERATORS[name]
    case = measure_case(operator, operator.cpu_shapes[0], BenchOptions(samples=3, providers=("eager", "hand")))
    for measured in case.measured:
        assert measured.ok and measured.timing is not None, measured
        assert [check.ok for check in measured.checks] == [True, True, True], measured


@pytest.mark.parametrize(("name", "peer"), [(name, peer) for name, each in OPERATORS.items() for peer in each.peers])
def test_peers_are_found_where_they_are_installed(name: str, peer: str) -> None:
    """An installed peer's function is found, and it is timed or says why not; one that is missing is named so."""
    operator = OPERATORS[name]
    (measured,) = measure_case(operator, operator.cpu_shapes[0], BenchOptions(samples=1, providers=(peer,))).measured
    is_missing = measured.reason.startswith(NOT_INSTALLED)
    assert is_missing == (find_spec(MODULES[peer]) is None), measured
    assert measured.timing is not None or measured.reason, measured


def test_a_run_is_valid_json_under_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    options = BenchOptions(samples=3)
    run = bench([(OPERATORS["softmax"], (64, 1024)), (OPERATORS["add_relu"], (1000,))], options, heard=lambda _: None)
    found = json.loads(json.dumps(to_dict(run)))
    schema = Path(tilesight.cli.__file__).parent / "schemas" / "bench.json"
    jsonschema.validate(found, json.loads(schema.read_text(encoding="utf-8")))
    providers = found["cases"][0]["providers"]
    assert providers["eager"]["timing"]["peak_bytes"] == 2 * 64 * 1024
    assert all(providers[name]["ok"] for name in ("eager", "compiled", "compiled_max", "hand"))
    assert found["environment"]["is_gpu"] and found["cases"][1]["dtype"] == "float32"
