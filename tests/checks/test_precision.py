"""Narrow accumulation and tf32: found where it costs digits, with the figures that NumPy finds."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.engine.launching import launch_of
from tilesight.checks.finding import Finding
from tilesight.checks.precision import PrecisionCheck, relative_error
from tilesight.checks.replay import Replay
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false


def check(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> list[Finding]:
    launch = launch_of(kernel, grid, arguments)
    lines, first = inspect.getsourcelines(kernel.fn)
    launch = replace(launch, file=__file__, first_line=first, source="".join(lines))
    module, options = parse_module(launch.ttir), ExecutionOptions()
    replay = Replay.of(module, launch, options)
    check = PrecisionCheck(replay)
    execute(module, replay.fresh(), check.listeners, options)
    return check.findings()


def marked(kernel: Any) -> list[int]:
    """The kernel's lines that end in `# narrow`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return [first + index for index, line in enumerate(lines) if line.rstrip().endswith("# narrow")]


def errors_of(finding: Finding) -> tuple[float, float]:
    """The two errors that a message names: as it is, and in float32."""
    found = re.search(r"off by (\S+) of its size against float64, by (\S+) in", finding.message)
    assert found is not None
    return float(found[1]), float(found[2])


@triton.jit
def matmul(a, b, c, N, K, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), TYPE)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
        total += tl.dot(left, right, out_dtype=TYPE)  # narrow
    tl.store(c + m[:, None] * N + n[None, :], total)


@triton.jit
def counted_matmul(a, b, c, counter, N, K, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    matmul(a, b, c, N, K, TYPE, BLOCK)
    tl.atomic_add(counter, 1)


@triton.jit
def matmul_cast_each_round(a, b, c, N, K, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), TYPE)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
        total = (total.to(tl.float32) + tl.dot(left, right, input_precision="ieee")).to(TYPE)  # narrow
    tl.store(c + m[:, None] * N + n[None, :], total)


@triton.jit
def matmul_tf32(a, b, c, N, K, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
        total += tl.dot(left, right)  # narrow
    tl.store(c + m[:, None] * N + n[None, :], total)


@triton.jit
def matmul_tf32_meant(a, b, c, N, K, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
        total = tl.dot(
            left,
            right,
            total,
            input_precision=PRECISION,
        )
    tl.store(c + m[:, None] * N + n[None, :], total)


@triton.jit
def added_up(x, columns, row, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), TYPE)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + c, mask=c < columns, other=0.0)  # narrow
    return total


@triton.jit
def sum_of_row(x, columns, row, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    return tl.sum(added_up(x, columns, row, TYPE, BLOCK).to(tl.float32), 0)


@triton.jit
def row_means(x, out, columns, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row, sum_of_row(x, columns, row, TYPE, BLOCK) / columns)


@triton.jit
def row_sums(x, out, columns, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * columns + c, mask=c < columns, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(values, 0))  # narrow


@triton.jit
def row_sums_wide(x, out, columns, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * columns + c, mask=c < columns, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(values.to(tl.float32), 0))


@triton.jit
def running_mean(x, out, rows, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), tl.bfloat16)
    for row in range(rows):
        value = tl.load(x + row * BLOCK + c)
        mean += ((value - mean) / (row + 1)).to(tl.bfloat16)  # narrow
    tl.store(out + c, mean)


@triton.jit
def unrolled(x, out, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float16)
    for row in tl.static_range(24):
        total += tl.load(x + row * BLOCK + c)  # narrow
    tl.store(out + c, total)


@triton.jit
def online_sum_of_exponentials(x, out, columns, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """The statistics of an online softmax, the sum in a type of its own."""
    row = tl.program_id(0)
    largest = tl.full((BLOCK,), -1e4, tl.float32)
    total = tl.zeros((BLOCK,), TYPE)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + c, mask=c < columns, other=-1e4).to(tl.float32)
        now = tl.maximum(largest, values)
        total = (total * tl.exp(largest - now) + tl.exp(values - now)).to(TYPE)  # narrow
        largest = now
    top = tl.max(largest, 0)
    tl.store(out + row, top + tl.log(tl.sum(total.to(tl.float32) * tl.exp(largest - top), 0)))


@triton.jit
def largest_norm(x, out, columns, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """An atomic maximum of floats is one of their bits."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), TYPE)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + c, mask=c < columns, other=0.0)
        total += (values * values).to(TYPE)  # narrow
    tl.atomic_max(out, tl.sum(total.to(tl.float32), 0))


@triton.jit
def multiplied(left, right):
    return tl.dot(left, right)  # narrow


@triton.jit
def matmul_tf32_in_a_helper(a, b, c, N, K, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
        total += multiplied(left, right)
    tl.store(c + m[:, None] * N + n[None, :], total)


@triton.jit
def attention(q, k, v, out, S, TYPE: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Weights are cast to f16 for the tensor cores, as they must be, and the output is accumulated in TYPE."""
    m, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    queries = tl.load(q + m[:, None] * D + d[None, :])
    largest, total = tl.full((BLOCK,), -1e4, tl.float32), tl.zeros((BLOCK,), tl.float32)
    result = tl.zeros((BLOCK, D), TYPE)
    for start in range(0, S, BLOCK):
        n = start + tl.arange(0, BLOCK)
        scores = tl.dot(queries, tl.load(k + n[None, :] * D + d[:, None])) * 0.125
        now = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        shrink = tl.exp(largest - now)
        total = total * shrink + tl.sum(weights, 1)
        added = tl.dot(weights.to(tl.float16), tl.load(v + n[:, None] * D + d[None, :]))
        result = (result * shrink[:, None] + added).to(TYPE)  # narrow
        largest = now
    tl.store(out + m[:, None] * D + d[None, :], result / total[:, None])


def factors(K: int, type_: torch.dtype) -> dict[str, Any]:
    torch.manual_seed(1)
    a, b = torch.randn(64, K).to(type_), torch.randn(K, 32).to(type_)
    return {"a": a, "b": b, "N": 32, "K": K, "BLOCK": 32}


def product_error(given: dict[str, Any], rounded: type[np.floating[Any]]) -> float:
    """The error of a product whose sum is rounded after every 32 terms, as NumPy makes it."""
    a, b = given["a"].double().numpy(), given["b"].double().numpy()
    total = np.zeros((a.shape[0], b.shape[1]), rounded)
    for start in range(0, a.shape[1], 32):
        total = (total.astype(np.float64) + a[:, start : start + 32] @ b[start : start + 32]).astype(rounded)
    exact = a @ b
    return float(np.max(np.abs(total - exact) / (np.abs(exact) + np.sqrt(np.mean(exact**2)))))


@pytest.mark.parametrize("kernel", [matmul, matmul_cast_each_round], ids=lambda kernel: kernel.__name__)
def test_a_product_accumulated_in_float16(kernel: Any) -> None:
    given = factors(512, torch.float16)
    (finding,) = check(kernel, (2,), c=torch.zeros(64, 32).half(), TYPE=tl.float16, **given)
    assert (finding.kind, finding.level, finding.tensor, finding.file) == ("precision", "warning", "c", __file__)
    assert [finding.line] == marked(kernel)
    found, better = errors_of(finding)
    assert found == pytest.approx(product_error(given, np.float16), rel=0.05)
    assert better < 2e-6


def test_the_same_product_in_float32_is_quiet() -> None:
    given = factors(512, torch.float16)
    assert check(matmul, (2,), c=torch.zeros(64, 32).half(), TYPE=tl.float32, **given) == []


def test_too_few_terms_to_matter_are_quiet() -> None:
    given = factors(32, torch.float16)
    assert check(matmul, (2,), c=torch.zeros(64, 32).half(), TYPE=tl.float16, **given) == []


def tf32(array: torch.Tensor) -> np.ndarray[Any, Any]:
    """The upper 19 bits of each float32, as tensor cores read them."""
    return (array.numpy().view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def test_tf32_by_default() -> None:
    given = factors(256, torch.float32)
    (finding,) = check(matmul_tf32, (2,), c=torch.zeros(64, 32), **given)
    assert [finding.line] == marked(matmul_tf32)
    exact, cut = given["a"].double().numpy() @ given["b"].double().numpy(), tf32(given["a"]) @ tf32(given["b"])
    expected = np.max(np.abs(cut - exact) / (np.abs(exact) + np.sqrt(np.mean(exact**2))))
    found, better = errors_of(finding)
    assert found == pytest.approx(expected, rel=0.05)
    assert better < 2e-6
    assert 'input_precision="ieee"' in finding.hint


def test_tf32_of_numbers_that_fit_it_is_quiet() -> None:
    given = factors(256, torch.bfloat16)
    given |= {"a": given["a"].float(), "b": given["b"].float()}
    assert check(matmul_tf32, (2,), c=torch.zeros(64, 32), **given) == []


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_a_precision_that_keeps_the_digits_is_quiet(precision: str) -> None:
    given = factors(256, torch.float32)
    assert check(matmul_tf32_meant, (2,), c=torch.zeros(64, 32), PRECISION=precision, **given) == []


def test_tf32_that_is_asked_for_is_a_note() -> None:
    given = factors(256, torch.float32)
    (found,) = check(matmul_tf32_meant, (2,), c=torch.zeros(64, 32), PRECISION="tf32", **given)
    assert (found.level, found.hint) == ("note", "nothing, where the loss is meant")
    assert found.message.startswith("float32 operands are multiplied in tf32 as asked, which keeps 10 bits")


def test_a_helper_is_named_at_its_own_line() -> None:
    torch.manual_seed(2)
    x = torch.randn(8, 3000).bfloat16()
    (finding,) = check(row_means, (8,), x=x, out=torch.zeros(8), columns=3000, TYPE=tl.bfloat16, BLOCK=64)
    assert [finding.line] == marked(added_up)
    assert "total is accumulated in bfloat16 over a loop" in finding.message
    assert check(row_means, (8,), x=x, out=torch.zeros(8), columns=3000, TYPE=tl.float32, BLOCK=64) == []


@pytest.mark.parametrize(("type_", "name"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")])
def test_a_sum_in_a_narrow_type(type_: torch.dtype, name: str) -> None:
    torch.manual_seed(3)
    x = torch.randn(8, 4000).to(type_)
    (finding,) = check(row_sums, (8,), x=x, out=torch.zeros(8), columns=4000, BLOCK=4096)
    assert [finding.line] == marked(row_sums)
    assert f"values is summed in {name}" in finding.message
    assert check(row_sums_wide, (8,), x=x, out=torch.zeros(8), columns=4000, BLOCK=4096) == []


def test_a_running_mean() -> None:
    torch.manual_seed(4)
    x = torch.randn(300, 32).bfloat16() + 5
    (finding,) = check(running_mean, (1,), x=x, out=torch.zeros(32).bfloat16(), rows=300, BLOCK=32)
    assert [finding.line] == marked(running_mean)


def test_a_loop_that_is_unrolled() -> None:
    torch.manual_seed(5)
    x = torch.randn(24, 64).half()
    (finding,) = check(unrolled, (1,), x=x, out=torch.zeros(64).half(), BLOCK=64)
    assert [finding.line] == marked(unrolled)


def test_the_sum_of_an_online_softmax() -> None:
    torch.manual_seed(6)
    x = torch.randn(8, 2000).half()
    (finding,) = check(
        online_sum_of_exponentials, (8,), x=x, out=torch.zeros(8), columns=2000, TYPE=tl.float16, BLOCK=16
    )
    assert [finding.line] == marked(online_sum_of_exponentials)
    assert (
        check(online_sum_of_exponentials, (8,), x=x, out=torch.zeros(8), columns=2000, TYPE=tl.float32, BLOCK=16) == []
    )


def test_tf32_in_a_helper_of_the_same_file() -> None:
    (finding,) = check(matmul_tf32_in_a_helper, (2,), c=torch.zeros(64, 32), **factors(256, torch.float32))
    assert [finding.line] == marked(multiplied)


def test_what_an_atomic_maximum_is_given() -> None:
    torch.manual_seed(7)
    given = {"x": torch.randn(8, 2000), "out": torch.zeros(1), "columns": 2000, "BLOCK": 32}
    (finding,) = check(largest_norm, (8,), TYPE=tl.float16, **given)
    assert [finding.line] == marked(largest_norm)
    assert check(largest_norm, (8,), TYPE=tl.float32, **given) == []


def test_a_cast_that_is_meant_hides_no_accumulator_and_is_none() -> None:
    torch.manual_seed(8)
    q, k, v = (torch.randn(512, 64).half() for _ in range(3))
    given = {"q": q, "k": k, "v": v, "out": torch.zeros(512, 64), "S": 512, "D": 64, "BLOCK": 32}
    (finding,) = check(attention, (16,), TYPE=tl.float16, **given)
    assert [finding.line] == marked(attention)
    assert check(attention, (16,), TYPE=tl.float32, **given) == []


def test_listening_to_the_launch_measures_what_running_it_again_does() -> None:
    """What adds to memory is not listened to, but run again."""
    given = {**factors(512, torch.float16), "TYPE": tl.float16}
    (heard,) = check(matmul, (2,), c=torch.zeros(64, 32).half(), **given)
    counter = torch.zeros(1, dtype=torch.int32)
    (run_again,) = check(counted_matmul, (2,), c=torch.zeros(64, 32).half(), counter=counter, **given)
    assert heard.message == run_again.message


def test_the_tensors_are_left_as_they_were() -> None:
    given, c = factors(512, torch.float16), torch.full((64, 32), 7.0).half()
    check(matmul, (2,), c=c, TYPE=tl.float16, **given)
    assert (c == 7).all()


def test_the_relative_error() -> None:
    got, wanted = np.array([3.0, np.inf, 1.0, 5.0]), np.array([4.0, 1.0, np.nan, 3.0])
    size = np.sqrt((16 + 9) / 2)
    assert relative_error(got, wanted) == pytest.approx(max(1 / (4 + size), 2 / (3 + size)))
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
