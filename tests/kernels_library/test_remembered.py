"""Calls that are done again from what was written down: the same bits as the whole call, or the whole call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.kernels_library.against_float64 import draw
from tilesight import kernels
from tilesight.capture.launches import EngineSession
from tilesight.kernels import remembered

Tensors = list[torch.Tensor]
F32, BF16 = torch.float32, torch.bfloat16


class Again:
    """Counts the calls that were done again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        again = remembered._Call.again  # pyright: ignore[reportPrivateUsage]

        def counted(call: Any, tensors: Tensors) -> Any:
            self.count += 1
            return again(call, tensors)

        monkeypatch.setattr(remembered._Call, "again", counted)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Iterator[Again]:
    monkeypatch.setattr(remembered, "is_cpu_remembered", True)
    with EngineSession(is_pinned=True):
        yield Again(monkeypatch)


def whole(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call itself, whatever is remembered."""
    remembered.is_cpu_remembered = False
    try:
        return function(*args, **kwargs)
    finally:
        remembered.is_cpu_remembered = True


def rows(seed: int, *shape: int) -> torch.Tensor:
    return draw(shape or (5, 70), F32, seed)


def heads(seed: int, length: int = 20) -> torch.Tensor:
    return draw((1, 2, length, 16), F32, seed)


CALLS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "add": lambda n: (rows(n), rows(n + 1)),
    "add_relu": lambda n: (rows(n), rows(n + 1, 70)),
    "softmax": lambda n: (rows(n), -1),
    "log_softmax": lambda n: (rows(n, 3, 4, 9),),
    "rms_norm": lambda n: (rows(n), [70], rows(n + 1, 70), 1e-5),
    "add_rms_norm": lambda n: (rows(n), rows(n + 1), rows(n + 2, 70), 1e-6),
    "layer_norm": lambda n: (rows(n), (70,), rows(n + 1, 70), rows(n + 2, 70)),
    "swiglu": lambda n: (rows(n), rows(n + 1)),
    "geglu": lambda n: (rows(n), rows(n + 1), "tanh"),
    "rope": lambda n: (heads(n), rows(n + 1, 20, 16), rows(n + 2, 20, 16)),
    "sum": lambda n: (rows(n), 0),
    "max": lambda n: (rows(n), 1),
    "argmax": lambda n: (rows(n), 0, True),
    "cumsum": lambda n: (rows(n), 1),
    "embedding": lambda n: (torch.arange(n, n + 9), rows(n, 30, 12)),
    "transpose": lambda n: (rows(n), 0, 1),
    "matmul": lambda n: (draw((20, 24), BF16, n), draw((24, 40), BF16, n + 1)),
    "attention": lambda n: (heads(n), heads(n + 1), heads(n + 2), None, 0.0, True),
    "decode_attention": lambda n: (
        draw((2, 4, 16), F32, n), draw((4, 16, 2, 16), F32, n + 1), draw((4, 16, 2, 16), F32, n + 2),
        torch.tensor([[n % 4, 1], [2, 3]], dtype=torch.int32), torch.tensor([20, 32 - n], dtype=torch.int32),
    ),
}  # fmt: skip


LOOKED_INTO = ("embedding", "decode_attention")
"""Their indices are checked on the CPU, so there each call is a whole one."""


@pytest.mark.parametrize("name", CALLS)
def test_the_third_call_is_done_again_with_the_same_bits(name: str, again: Again) -> None:
    function, inputs = getattr(kernels, name), CALLS[name]
    for seed, count in ((1, 0), (2, 0), (3, 1), (4, 2)):
        result = function(*inputs(seed))
        assert again.count == (0 if name in LOOKED_INTO else count)
        torch.testing.assert_close(result, whole(function, *inputs(seed)), rtol=0, atol=0, equal_nan=True)


def test_a_result_of_a_named_tuple_stays_one(again: Again) -> None:
    for seed in (1, 2, 3):
        found = kernels.max(rows(seed), 1)
        assert type(found) is torch.return_types.max
        torch.testing.assert_close(found.values, rows(seed).amax(1))
    assert again.count == 1


def calls(function: Callable[..., Any], *inputs: tuple[Any, ...]) -> None:
    """Each call's result is that of the whole call."""
    for args in inputs:
        torch.testing.assert_close(function(*args), whole(function, *args), rtol=0, atol=0)


def test_an_argument_that_was_given_twice_says_nothing_of_two(again: Again) -> None:
    """Written down with one address for both, the sum of two would be twice the first."""
    x, y = rows(1), rows(2)
    calls(kernels.add, (x, x), (x, x), (x, y), (x, x), (x, y), (y, x), (y, y))
    assert again.count == 3


@pytest.mark.parametrize(
    ("name", "inputs", "is_again"),
    [
        ("copied to dense rows", lambda n: (rows(n, 70, 5).t().unsqueeze(0).expand(2, 5, 70)[..., ::2],), False),
        ("moved axis", lambda n: (rows(n, 4, 5, 6), 1), False),
        ("converted", lambda n: (rows(n).bfloat16(), -1, F32), False),
        ("strided rows", lambda n: (rows(n, 5, 140)[:, :70],), True),
        ("no element", lambda n: (rows(n)[:0],), False),
        ("long rows in kept memory", lambda n: (rows(n, 2, 5000),), False),
    ],
)  # fmt: skip
def test_what_is_copied_or_kept_is_not_done_again(name: str, inputs: Any, is_again: bool, again: Again) -> None:
    calls(kernels.softmax, *(inputs(seed) for seed in (1, 2, 3, 4)))
    assert (again.count > 0) == is_again


def test_other_strides_alignments_and_dtypes_are_other_calls(again: Again) -> None:
    line = rows(1, 400)
    views = [line[:350].view(5, 70), line[1:351].view(5, 70), line.bfloat16()[:350].view(5, 70), line[:350].view(70, 5)]
    calls(kernels.softmax, *((each,) for each in views * 4))
    assert again.count == 2 * len(views)


def test_numbers_that_are_equal_and_differ(again: Again) -> None:
    zero = torch.full((4,), -0.0)
    for other in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 0, 0):
        result = kernels.add(zero, zero, alpha=other)
        assert torch.equal(torch.signbit(result), torch.signbit(zero + zero * other)), other
    integers = torch.arange(4)
    for alpha in (1, True, 1, True, 1):
        torch.testing.assert_close(kernels.add(integers, integers, alpha=alpha), 2 * integers)
    for _ in range(3):
        assert kernels.add(zero, zero, alpha=float("nan")).isnan().all()


def test_keywords_are_part_of_the_call(again: Again) -> None:
    x = rows(1)
    for _ in range(3):
        torch.testing.assert_close(kernels.softmax(x, dim=1), torch.softmax(x, 1))
        torch.testing.assert_close(kernels.max(input=x, dim=1).indices, x.argmax(1))
        torch.testing.assert_close(kernels.max(x, keepdim=True, dim=1).values, x.amax(1, True))
    assert again.count == 3


def test_a_gradient_is_recorded_all_the_same(again: Again) -> None:
    x = rows(1).requires_grad_()
    for _ in range(3):
        with torch.no_grad():
            assert not kernels.softmax(x).requires_grad
    assert again.count == 1
    y = kernels.softmax(x)
    (y * rows(2)).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.autograd.grad((torch.softmax(x, -1) * rows(2)).sum(), x)[0])
    assert again.count == 1


def test_who_looks_at_operators_sees_them(again: Again) -> None:
    x, a, b = rows(1), draw((16, 16), BF16, 1), draw((16, 16), BF16, 2)
    calls(kernels.softmax, (x,), (x,), (x,))
    calls(kernels.matmul, (a, b), (a, b), (a, b))
    count = again.count
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        kernels.softmax(x)
    assert "tilesight::softmax_forward" in {each.key for each in profile.key_averages()}
    with FlopCounterMode(display=False):
        kernels.matmul(a, b)
    torch.testing.assert_close(
        torch.vmap(kernels.softmax)(x.expand(2, 5, 70)), torch.softmax(x, -1).expand(2, 5, 70).contiguous()
    )
    with pytest.warns(DeprecationWarning):
        traced: Any = torch.jit.trace(kernels.softmax, (x,), check_trace=False)
    assert "tilesight::softmax_forward" in str(traced.graph)
    assert again.count == count


def test_a_view_that_negates_is_read_as_what_it_shows(again: Again) -> None:
    x = torch.complex(rows(1), rows(2))
    negative = x.conj().imag
    assert negative.is_neg()
    plain = x.imag
    assert plain.stride() == negative.stride()
    calls(kernels.cumsum, (plain, 0), (plain, 0), (plain, 0))
    torch.testing.assert_close(kernels.cumsum(negative, 0), negative.cumsum(0))


def test_the_precision_of_products_is_part_of_the_call(again: Again) -> None:
    a, b = draw((32, 64), F32, 1), draw((64, 32), F32, 2)
    exact = [kernels.matmul(a, b) for _ in range(3)]
    torch.set_float32_matmul_precision("high")
    try:
        rough = [kernels.matmul(a, b) for _ in range(3)]
    finally:
        torch.set_float32_matmul_precision("highest")
    assert again.count == 2
    assert all(torch.equal(each, exact[0]) for each in exact)
    assert all(torch.equal(each, rough[0]) for each in rough)
    wanted = a.double() @ b.double()
    assert (rough[0] - wanted).abs().max() > 20 * (exact[0] - wanted).abs().max()


def test_errors_are_those_of_the_whole_call(again: Again) -> None:
    x = rows(1)
    for _ in range(4):
        with pytest.raises(IndexError):
            kernels.softmax(x, 5)
        with pytest.raises(RuntimeError, match="normalized_shape"):
            kernels.rms_norm(x, [71])
        with pytest.raises(TypeError):
            kernels.softmax(torch.zeros(3, dtype=torch.int64))
    assert again.count == 0


def test_no_more_calls_are_remembered_than_fit(again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_REMEMBERED", 2)
    for columns in (3, 4, 5, 6, 3, 4, 5, 6):
        calls(kernels.softmax, *[(rows(columns, 2, columns),)] * 3)
