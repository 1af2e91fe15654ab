"""Matrix products of the hand-written library on a GPU: every table's plans, large shapes, against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.test_kernels_library import draw
from tests.kernels_library.against_float64 import assert_near_float64
from tilesight.kernels import matmul, matmul_launch
from tilesight.kernels.matmul_plan import BITS_8, BITS_16, FLOAT32, FLOAT64, TF32, MatmulPlan

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
SIZES = [
    *((0, 8, 8), (8, 0, 8), (1, 1, 1), (3, 5, 7), (1, 4096, 4096), (17, 5000, 33), (64, 64, 64), (100, 1000, 777)),
    *((128, 65536, 128), (16, 100_000, 48), (2048, 2048, 2048), (4096, 1024, 4104), (1000, 4096, 30_000)),
]
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "swiglu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "geglu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
}


def assert_near(got: torch.Tensor, exact: torch.Tensor, magnitude: torch.Tensor, k: int, inside: float) -> None:
    """Within a rounding to the result's dtype and one of `inside` for √K additions, eight times over."""
    bound = 8 * (torch.finfo(got.dtype).eps * exact.abs() + inside * max(1, k) ** 0.5 * magnitude)
    worst = ((got.double() - exact).abs() - bound).max().item() if got.numel() else 0
    assert got.shape == exact.shape and worst <= 0, worst


def assert_product(got: torch.Tensor, a: torch.Tensor, b: torch.Tensor, inside: float | None = None) -> None:
    """The product of `a` and `b`; its sums rounded as those of float32 are, or float64 for float64."""
    least = 2**-53 if a.dtype == torch.float64 else 2**-24
    a, b = a.to(torch.float64), b.to(torch.float64)
    assert_near(got, a @ b, a.abs() @ b.abs(), a.shape[-1], least if inside is None else inside)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, k, columns = sizes
    a, b = draw((rows, k), dtype), draw((k, columns), dtype, 1)
    assert_product(matmul(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("batches", [1, 3])
def test_layouts(batches: int, turned: tuple[bool, bool], dtype: torch.dtype) -> None:
    """Either axis dense, with descriptors (large, aligned) and without (a stride that is no multiple of 16 bytes)."""
    for rows, k, columns in ((1536, 1032, 1544), (1025, 1031, 1033)):
        a = draw((batches, k, rows) if turned[0] else (batches, rows, k), dtype)
        b = draw((batches, columns, k) if turned[1] else (batches, k, columns), dtype, 1)
        a, b = a.transpose(1, 2) if turned[0] else a, b.transpose(1, 2) if turned[1] else b
        assert_product(matmul(a, b), a, b)
        assert_product(matmul(a[0], b), a[0], b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [5, 300, 4096])
def test_epilogues_and_gradients(rows: int, activation: str, dtype: torch.dtype) -> None:
    k, columns = 512, 1024
    wide = 2 * columns if activation in ("swiglu", "geglu") else columns
    inputs = [
        draw((rows, k), dtype) / 8,
        draw((k, wide), dtype, 1),
        draw((wide,), dtype, 2),
        draw((rows, columns), dtype, 3),
    ]

    def hand(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return matmul(x, w, bias=bias, activation=activation, residual=residual, scale=0.5)

    def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS[activation](0.5 * (x @ w) + bias) + residual

    assert_near_float64(hand, reference, inputs, grads=[draw((rows, columns), dtype, 7)])


TABLES = {
    "bf16": (torch.bfloat16, "highest", BITS_16),
    "fp8": (torch.float8_e4m3fn, "highest", BITS_8),
    "tf32": (torch.float32, "high", TF32),
    "fp32": (torch.float32, "highest", FLOAT32),
    "fp64": (torch.float64, "highest", FLOAT64),
}


@pytest.mark.parametrize("is_gated", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_every_plan_of_a_table(table: str, is_gated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without descriptors, persistent or not, K shared or not, everything behind the product at once."""
    dtype, precision, plans = TABLES[table]
    rows, k, columns = 392, 1040, 528
    a, b = draw((rows, k), torch.float32).to(dtype), draw((columns, k), torch.float32, 1).to(dtype).t()
    out = torch.bfloat16 if dtype.itemsize < 4 else dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    width = columns // 2 if is_gated else columns
    bias, residual = draw((columns,), out, 2), draw((rows, width), out, 3)
    scale = draw((rows, 1), torch.float32, 4).to(wide).abs(), torch.full((1,), 0.05, device="cuda", dtype=wide)
    z = a.to(torch.float64) @ b.to(torch.float64) * scale[0] * scale[1] + bias.double()
    exact = ACTIVATIONS["swiglu" if is_gated else "gelu"](z) + residual.double()
    before = torch.get_float32_matmul_precision()
    tolerance = {"bf16": 2e-2, "fp8": 2e-2, "tf32": 2e-2, "fp32": 1e-3, "fp64": 1e-10}[table]
    try:
        torch.set_float32_matmul_precision(precision)
        for plan in ways(plans):
            monkeypatch.setattr(matmul_launch, "plan_of", lambda a, b, plan=plan: plan)
            got = matmul(a, b, bias=bias, activation="swiglu" if is_gated else "gelu", residual=residual, scale=scale)
            torch.testing.assert_close(
                got.double(), exact, rtol=tolerance, atol=tolerance, msg=lambda m, p=plan: f"{p}\n{m}"
            )
    finally:
        torch.set_float32_matmul_precision(before)


def ways(plans: tuple[MatmulPlan, ...]) -> list[MatmulPlan]:
    """Each plan, and its variants."""
    found: list[MatmulPlan] = []
    for plan in plans:
        found += [plan, replace(plan, is_persistent=not plan.is_persistent), replace(plan, splits=3, subtiles=1)]
        if plan not in (*FLOAT32, *FLOAT64):
            found += [replace(plan, is_tma=True), replace(plan, is_tma=True, splits=2, subtiles=1)]
    return found


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("sizes", [(1, 16, 16), (50, 1000, 70), (16, 8192, 4096), (2048, 4096, 1024)], ids=str)
def test_float8(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Sums that leave the tensor cores' 14 bits after every tile of K."""
    rows, k, columns = sizes
    a, b = draw((rows, k), torch.float32).to(dtype), draw((columns, k), torch.float32, 1).to(dtype).t()
    for right in (b, b.contiguous()):
        assert_product(matmul(a, right, out_dtype=torch.float32), a, b, 2**-13 / k**0.5)
    scales = torch.tensor(0.5, device="cuda"), torch.tensor(3.0, device="cuda")
    if dtype == torch.float8_e4m3fn and rows % 16 == k % 16 == columns % 16 == 0:
        wanted = torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16)  # pyright: ignore[reportPrivateImportUsage]
        torch.testing.assert_close(matmul(a, b, scale=scales), wanted, rtol=2e-2, atol=0.5)


def test_the_same_a_hundred_times() -> None:
    """Shared K too is summed in one order."""
    for rows, k, columns in ((64, 65536, 64), (2048, 2048, 2048)):
        a, b = draw((rows, k), torch.bfloat16), draw((k, columns), torch.bfloat16, 1)
        first = matmul(a, b)
        assert int(sum((matmul(a, b) != first).any().long() for _ in range(100))) == 0


def test_a_cuda_graph_replays() -> None:
    a, b = draw((2048, 1024), torch.bfloat16), draw((1024, 2048), torch.bfloat16, 1)
    matmul(a, b, activation="gelu")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = matmul(a, b, activation="gelu")
    for seed in range(3):
        a.copy_(draw((2048, 1024), torch.bfloat16, seed))
        graph.replay()
        torch.testing.assert_close(y.double(), F.gelu(a.double() @ b.double()), rtol=1e-2, atol=1e-2)


def test_offsets_over_32_bits() -> None:
    """A row more than 2³¹ elements behind the first, and a stride with which a tile's own offsets overflow."""
    a = torch.zeros(70_000, 32_768, device="cuda", dtype=torch.bfloat16)
    a[-1] = 1
    b = draw((32_768, 16), torch.bfloat16, 1)
    assert_product(matmul(a[-3:], b), a[-3:], b)
    assert_product(matmul(a, b)[-3:], a[-3:], b)
    far = a.view(-1)[: 128 * 17_000_000].view(128, 17_000_000)[:, :64]
    far.copy_(draw((128, 64), torch.bfloat16, 2))
    assert_product(matmul(far, b[:64]), far, b[:64])


def test_compiled_without_a_graph_break() -> None:
    a, b = draw((512, 256), torch.bfloat16).requires_grad_(), draw((256, 512), torch.bfloat16, 1)
    compiled = torch.compile(lambda x: matmul(x * 2, b, activation="silu") + 1, fullgraph=True)
    torch.testing.assert_close(compiled(a), F.silu((a * 2) @ b) + 1, rtol=2e-2, atol=2e-2)
    compiled(a).float().square().sum().backward()
    assert a.grad is not None and bool(a.grad.isfinite().all())
