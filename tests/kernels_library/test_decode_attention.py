"""Attention over a paged cache of the hand-written library, on the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import assert_no_finding, draw
from tilesight import Case, kernels
from tilesight.capture.numerics import judge
from tilesight.kernels.attention_plan import DecodePlan, plan_decode
from tilesight.kernels.decode_attention import launch_plan

decode_attention: Any = kernels.decode_attention
Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def given(
    heads: tuple[int, int], sizes: tuple[int, int], lengths: list[int], dtype: torch.dtype, page: int = 16
) -> Given:
    """Query, caches, table and lengths: the pages of each sequence lie anywhere; two numbers of the query and cache."""
    columns = max(1, -(-max(lengths) // page))
    pages = len(lengths) * columns + 2
    table = torch.randperm(pages, generator=torch.Generator().manual_seed(5))[: len(lengths) * columns]
    query = draw((len(lengths), heads[0], sizes[0]), dtype, 1)
    key = draw((pages, page, heads[1], sizes[0]), dtype, 2)
    value = draw((pages, page, heads[1], sizes[1]), dtype, 3)
    return query, key, value, table.reshape(len(lengths), columns).int(), torch.tensor(lengths, dtype=torch.int32)


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """torch's attention, sequence by sequence, over the tokens gathered from their pages."""
    found = []
    for number, length in enumerate(lengths.tolist()):
        k, v = (each[table[number].long()].flatten(0, 1)[:length].transpose(0, 1) for each in (key, value))
        found.append(F.scaled_dot_product_attention(query[number][:, None], k, v, enable_gqa=True)[:, 0])
    return torch.stack(found) if found else query.new_zeros((0, query.shape[1], value.shape[3]))


def assert_near(got: torch.Tensor, inputs: Given) -> None:
    query, key, value = (each.double() for each in inputs[:3])
    wanted = reference(query, key, value, *inputs[3:])
    verdict = judge(got, [wanted])
    assert got.dtype == inputs[0].dtype and verdict.ok, verdict


@pytest.mark.parametrize(
    ("dtype", "heads", "sizes", "lengths", "page"),
    [
        (torch.float32, (4, 4), (16, 16), [1, 17, 0], 16),
        (torch.bfloat16, (8, 2), (64, 64), [300, 129], 16),
        (torch.float16, (6, 2), (40, 24), [700, 5], 1),
        (torch.bfloat16, (20, 1), (128, 128), [513], 64),
        (torch.float32, (3, 1), (72, 256), [33, 900], 7),
    ],
    ids=str,
)
def test_numbers(
    dtype: torch.dtype, heads: tuple[int, int], sizes: tuple[int, int], lengths: list[int], page: int
) -> None:
    inputs = given(heads, sizes, lengths, dtype, page)
    assert_near(decode_attention(*inputs), inputs)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_parts_of_a_sequence(parts: int) -> None:
    """More parts than tiles of tokens leave some empty."""
    inputs = given((4, 2), (16, 16), [100, 33, 0], torch.float32)
    out = torch.empty(3, 4, 16)
    assert_near(run_plan(DecodePlan(16, 16, parts, 4, 2), out, inputs), inputs)


def run_plan(plan: DecodePlan, out: torch.Tensor, inputs: Given) -> torch.Tensor:
    """The launches on the engine."""
    import tilesight

    tilesight.enable()
    try:
        return launch_plan(plan, out, *inputs, 0.25)
    finally:
        tilesight.disable()


def test_few_long_sequences_are_shared_and_many_are_not() -> None:
    query = torch.zeros(1, 8, 128, dtype=torch.bfloat16)
    assert plan_decode(query, 128, 1, 8, 10_000).parts == 8
    assert plan_decode(query, 128, 1, 8, 300).parts == 1
    assert plan_decode(query.expand(64, 8, 128), 128, 8, 1, 10_000).parts == 1
    assert plan_decode(query, 128, 1, 8, 10_000).block_m == 16


def test_strides_empty_and_what_is_behind_the_length() -> None:
    query, key, value, table, lengths = given((2, 2), (16, 16), [20, 40], torch.float32)
    wide = torch.stack([key, value], -2)
    inputs = (query.transpose(0, 1).contiguous().transpose(0, 1), wide[..., 0, :], wide[..., 1, :], table, lengths)
    assert_near(decode_attention(*inputs), inputs)
    heads_first = tuple(each.transpose(1, 2).contiguous().transpose(1, 2) for each in (key, value))
    assert_near(
        decode_attention(query, *heads_first, table.long(), lengths.long()), (query, key, value, table, lengths)
    )
    assert decode_attention(query[:0], key, value, table[:0], lengths[:0]).shape == (0, 2, 16)
    assert decode_attention(query, key, value, table, lengths * 0).eq(0).all()
    value[table[0, 1], 4:] = float("nan")
    assert not decode_attention(query, key, value, table, lengths).isnan().any()
    value[table[0, 1], 3, 1, 2] = float("nan")
    assert decode_attention(query, key, value, table, lengths).isnan().nonzero().tolist() == [[0, 1, 2]]


def test_the_operator_passes_opcheck() -> None:
    torch.library.opcheck(
        torch.ops.tilesight.decode_attention.default, (*given((2, 1), (16, 8), [20, 3], torch.float32), 0.25)
    )


def test_compiled_whole() -> None:
    inputs = given((2, 1), (16, 16), [20, 3], torch.float32)

    def between(query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return decode_attention(query * 2, *others) + 1

    torch.compiler.reset()
    compiled = torch.compile(between, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), between(*inputs))


def test_bad_input() -> None:
    query, key, value, table, lengths = given((4, 2), (16, 16), [20, 3], torch.float32)
    with pytest.raises(IndexError, match="lengths must be 0 to 32, got"):
        decode_attention(query, key, value, table, lengths + 13)
    with pytest.raises(IndexError, match="must name pages 0 to 5, got 6"):
        decode_attention(query, key, value, table * 0 + 6, lengths)
    with pytest.raises(RuntimeError, match="must have one dtype"):
        decode_attention(query.half(), key, value, table, lengths)
    with pytest.raises(RuntimeError, match=r"expected query \[sequences, heads, head\]"):
        decode_attention(query[:, :3], key, value, table, lengths)
    with pytest.raises(RuntimeError, match="must be int32"):
        decode_attention(query, key, value, table.float(), lengths)
    with pytest.raises(TypeError, match=r"not torch\.float64"):
        decode_attention(query.double(), key.double(), value.double(), table, lengths)
    with pytest.raises(ValueError, match="scale above 0"):
        decode_attention(query, key, value, table, lengths, -1.0)
    with pytest.raises(RuntimeError, match="no gradient"):
        decode_attention(query.requires_grad_(), key, value, table, lengths)


def test_no_finding() -> None:
    """Of strided tensors dense copies are taken: what a kernel is compiled for is then always the same."""
    inputs = given((4, 2), (24, 24), [600, 70], torch.bfloat16)

    def hand(*tensors: torch.Tensor) -> torch.Tensor:
        return decode_attention(*(each.contiguous() for each in tensors))

    assert_no_finding(Case(eager=reference, hand=hand, inputs=lambda: inputs))
