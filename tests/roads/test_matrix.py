"""The parts of the correctness matrix: shapes, texts, layouts, refusals, shrinking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tilesight import Case
from tilesight.errors import InputError
from tilesight.roads.failures import is_refusal
from tilesight.roads.layouts import LAYOUTS
from tilesight.roads.matrix_inputs import Cell, make_tensors, own_cell, parse_dtypes, parse_shapes
from tilesight.roads.shapes import MOST_ELEMENTS, MOST_ROUNDS, MOST_SHAPES, Symbols, block_sizes, plan_sizes
from tilesight.roads.shrink import MOST_RUNS, shrink_sizes

FIVE_SYMBOLS = ((2, 3, 4), (5, 6))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking ends by its runs, however busy the machine is."""
    monkeypatch.setattr("tilesight.roads.shrink.MOST_SECONDS", 600.0)


def shapes_of(symbols: Symbols, *blocks: int) -> list[tuple[tuple[int, ...], ...]]:
    return [symbols.with_sizes(sizes) for sizes in plan_sizes(symbols, blocks)]


def test_one_size_is_tried_where_kernels_break() -> None:
    lengths = [shape[0] for (shape,) in shapes_of(Symbols(((1000,),)), 64)]
    assert lengths == [0, 1, 7, 63, 64, 65, 97, 129, 257, 1000, 1009, 65_537]


def test_a_size_that_is_summed_over_is_large_up_to_so_many_blocks() -> None:
    symbols = Symbols(((64, 48), (48, 80)))
    bounded, free = (plan_sizes(symbols, (16, 32), summed) for summed in ({48}, ()))
    assert max(sizes[48] for sizes in bounded) == 4_099 < MOST_ROUNDS * 16 < 16_411
    assert [max(sizes[size] for sizes in bounded) for size in (64, 80)] == [65_537, 65_537]
    assert max(sizes[48] for sizes in free) == 65_537


def test_equal_sizes_vary_together_and_others_alone() -> None:
    shapes = shapes_of(Symbols(((128, 256), (256,))), 32)
    assert all(matrix[1] == vector[0] for matrix, vector in shapes)
    for lone in (0, 1, 7, 31, 32, 33, 65, 97, 257, 1009):
        assert ((lone, 256), (256,)) in shapes
        assert ((128, lone), (lone,)) in shapes
    assert ((1, 1), (1,)) in shapes and ((1, 33), (33,)) in shapes


def test_sizes_of_one_stay() -> None:
    assert {shapes[1] for shapes in shapes_of(Symbols(((50, 1), (1, 1))), 16)} == {(1, 1)}


@pytest.mark.parametrize("shapes", [FIVE_SYMBOLS, ((100_000,),), ((16_384, 1024),), ((512, 512), (512, 512)), ((),)])
def test_a_plan_is_short_ascending_bounded_and_has_the_cases_own(shapes: tuple[tuple[int, ...], ...]) -> None:
    symbols = Symbols(shapes)
    planned = shapes_of(symbols, 16, 64, 1024)
    elements = [sum(torch.Size(shape).numel() for shape in each) for each in planned]
    assert shapes in planned
    assert len(planned) == len(set(planned)) <= MOST_SHAPES
    assert elements == sorted(elements)
    own = sum(torch.Size(shape).numel() for shape in shapes)
    assert max(elements) <= max(own, 4 * MOST_ELEMENTS)


def test_a_limit_follows_its_size_and_nothing_is_below_zero() -> None:
    symbols = Symbols(((8, 50), (8,)), (None, 50))
    sizes = plan_sizes(symbols, (16,))
    limits = {symbols.with_sizes(each)[0]: symbols.limits_with(each)[1] for each in sizes}
    assert limits[8, 97] == 97
    assert (8, 0) not in limits and (0, 50) in limits


@pytest.mark.parametrize(
    ("constexprs", "blocks"),
    [
        ([{"BLOCK": 1024}], (1024,)),
        ([{"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "STAGES": 2}], (16, 32, 64)),
        ([{"COLS": 1000, "EPS": 1e-5, "CAUSAL": True, "ACT": "relu", "X": None}], ()),
        ([{"A": 8, "B": 16, "C": 32, "D": 64}], (16, 32, 64)),
        ([], ()),
    ],
)
def test_block_sizes_are_the_powers_of_two_among_constexprs(
    constexprs: list[dict[str, object]], blocks: tuple[int, ...]
) -> None:
    assert block_sizes(constexprs) == blocks


def cell(inputs: str) -> Cell:
    return own_cell(Case(eager=lambda *x: x, inputs=inputs))  # pyright: ignore[reportUnknownLambdaType]


@pytest.mark.parametrize(
    ("inputs", "text", "expected"),
    [
        ("f32[128,256],f32[256]", "7,3", ["f32[7,3],f32[3]"]),
        ("f32[128,256],f32[256]", "7,3; 1,1 ;", ["f32[7,3],f32[3]", "f32[1,1],f32[1]"]),
        ("f32[128,256],f32[256]", "[7,3],[5]", ["f32[7,3],f32[5]"]),
        ("f32[128,256],f32[256]", "f16[7,3],f32[3]", ["f16[7,3],f32[3]"]),
        ("f32[8,50],i64[8]<50", "4,7", ["f32[4,7],i64[4]<7"]),
        ("f32[8,50],i64[8]<50", "[4,7],[4]", ["f32[4,7],i64[4]<7"]),
        ("f32[8,50],i64[8]<50", "[4,7],[4]<3", ["f32[4,7],i64[4]<3"]),
        ("f32[5,1],f32[5]", "9,1", ["f32[9,1],f32[9]"]),
        ("bf16[4]", "0", ["bf16[0]"]),
    ],
)
def test_shapes_are_read(inputs: str, text: str, expected: list[str]) -> None:
    assert [each.inputs for each in parse_shapes(text, cell(inputs))] == expected


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ("f32[128,256]", ""),
        ("f32[128,256]", "7"),
        ("f32[128,256]", "7,x"),
        ("f32[128,256]", "[7,3"),
        ("f32[128,256]", "[7,3],[3]"),
        ("f32[128,256]", "[7]"),
        ("f32[64,64]", "7,3"),
        ("f32[5,1]", "9,2"),
        ("f32[128,256]", "f31[7,3]"),
    ],
)
def test_shapes_that_say_nothing_clear_are_refused(inputs: str, text: str) -> None:
    with pytest.raises(InputError, match="--shapes"):
        parse_shapes(text, cell(inputs))


def test_dtypes_are_read() -> None:
    assert parse_dtypes("f32, bf16,f32") == [torch.float32, torch.bfloat16]
    for text in ("", "i32", "float"):
        with pytest.raises(InputError, match="--dtypes"):
            parse_dtypes(text)


STRIDES = {
    "transposed": (1, 4),
    "sliced [..., ::2]": (12, 2),
    "sliced [::2]": (12, 1),
    "with padded rows": (9, 1),
    "expanded (stride 0)": (0, 1),
    "offset by one element": (6, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_a_layout_keeps_the_values(layout: Any, dtype: torch.dtype) -> None:
    tensor = (torch.arange(24).view(4, 6) % 5).to(dtype)
    view = layout.lay_out(tensor)
    assert layout.applies((4, 6))
    assert (view.shape, view.stride(), view.dtype) == (tensor.shape, STRIDES[layout.name], dtype)
    expected = tensor[:1].expand(4, 6) if "expanded" in layout.name else tensor
    assert torch.equal(view, expected)
    assert (view.storage_offset() == 1) == ("offset" in layout.name)


def test_what_surrounds_a_view_is_not_what_is_in_it() -> None:
    tensor = torch.randn(4, 6)
    for layout in LAYOUTS:
        view = layout.lay_out(tensor)
        around = torch.empty(0).set_(view.untyped_storage())  # pyright: ignore[reportUnknownMemberType]
        gaps = around[~torch.isin(around, tensor)]
        assert len(gaps) == around.numel() - len(torch.unique(view))
        assert bool((gaps > 50).all())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (2, 3, 4)])
def test_a_layout_applies_where_it_can_be_made(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape)
    for layout in LAYOUTS:
        if layout.applies(shape):
            assert layout.lay_out(tensor).shape == shape


def test_inputs_are_the_same_for_the_same_seed() -> None:
    case = Case(eager=lambda x: x, inputs="f32[50]")  # pyright: ignore[reportUnknownLambdaType]
    own = own_cell(case)
    first, again, other = (make_tensors(case, own, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def raise_value_error() -> None:
    raise ValueError("no")


def assert_something() -> None:
    assert [] == [0], "no"


def convert() -> None:
    int("a")


def view_wrongly() -> None:
    torch.ones(3).view(2, 2)


def raise_key_error() -> None:
    raise KeyError("no")


def refuse_in_library() -> None:
    Case(eager=print).make_inputs()


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (raise_value_error, True),
        (assert_something, True),
        (convert, False),
        (view_wrongly, False),
        (raise_key_error, False),
        (refuse_in_library, False),
    ],
)
def test_a_refusal_is_raised_on_purpose(function: Callable[[], None], refused: bool) -> None:
    with pytest.raises(Exception) as caught:
        function()
    assert is_refusal(caught.value) is refused


@pytest.mark.parametrize(
    ("start", "fails"),
    [
        ({5: 1025}, lambda n: n > 1024),
        ({5: 1000}, lambda n: n % 64 != 0),
        ({5: 97}, lambda n: n >= 37),
        ({5: 0}, lambda n: True),
        ({5: 65_537}, lambda n: n > 300),
    ],
)
def test_one_size_shrinks_to_the_smallest_that_fails(start: dict[int, int], fails: Callable[[int], bool]) -> None:
    (symbol,) = start
    runs: list[int] = []

    def failing(sizes: dict[int, int]) -> bool:
        runs.append(sizes[symbol])
        return fails(sizes[symbol])

    found = shrink_sizes(start, failing)
    assert found == {symbol: next(n for n in range(start[symbol] + 1) if fails(n))}
    assert len(runs) <= MOST_RUNS


def test_two_sizes_shrink_one_after_the_other() -> None:
    found = shrink_sizes({8: 50, 9: 31}, lambda sizes: sizes[8] * sizes[9] > 40)
    assert found == {8: 2, 9: 21}


def test_what_fails_no_more_is_left_as_it_was() -> None:
    assert shrink_sizes({8: 50}, lambda sizes: False) == {8: 50}
