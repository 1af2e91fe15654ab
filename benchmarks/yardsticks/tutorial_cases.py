"""What is run of each of Triton's tutorials, and the mathematics it is held against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from benchmarks.yardsticks.outcomes import NotRunError

Check = Callable[[Any], tuple[Any, list[Tensor]]]

HALF_ATTENTION = 1e-2
"""The tutorial's own tolerance: scores and probabilities are rounded to float16 between the two products."""


@dataclass(frozen=True)
class TutorialCase:
    """One launch: `check` takes the loaded module and gives outputs and the float64 reference."""

    name: str
    direction: str
    dtype: str
    check: Check
    tolerance: float | None = None


@dataclass(frozen=True)
class Tutorial:
    """A file, the names to load from it, and definitions of it that are replaced."""

    file: str
    roots: tuple[str, ...]
    cases: Sequence[TutorialCase]
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _add(tutorial: Any) -> tuple[Any, list[Tensor]]:
    x, y = torch.rand(98432), torch.rand(98432)
    return tutorial.add(x, y), [x.double() + y.double()]


def _softmax(tutorial: Any) -> tuple[Any, list[Tensor]]:
    """The kernel with the grid that its launcher would work out from occupancy: 132 programs loop over the rows."""
    x = torch.randn(1823, 781)
    out = torch.empty_like(x)
    options = {"BLOCK_SIZE": 1024, "num_stages": 4, "num_warps": 8}
    tutorial.softmax_kernel[(132, 1, 1)](out, x, x.stride(0), out.stride(0), *x.shape, **options)
    return out, [torch.softmax(x.double(), 1)]


def _softmax_launcher(tutorial: Any) -> tuple[Any, list[Tensor]]:
    x = torch.randn(1823, 781)
    try:
        return tutorial.softmax(x), [torch.softmax(x.double(), 1)]
    except ZeroDivisionError as error:
        raise NotRunError(
            "the launcher divides by the registers and shared memory of the compiled kernel; the engine stops"
            " at TTIR and has neither (its kernel runs, see softmax_kernel)"
        ) from error


def _matmul(dtype: torch.dtype, activation: str) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        a, b = (torch.randn(512, 512, dtype=torch.float16) for _ in range(2))
        if dtype == torch.float8_e5m2:
            b = b.T
        a, b = a.to(dtype), b.to(dtype)
        expected = a.double() @ b.double()
        if activation:
            expected = F.leaky_relu(expected, 0.01)
        return tutorial.matmul(a, b, activation), [expected]

    return check


def _dropout(tutorial: Any) -> tuple[Any, list[Tensor]]:
    x, keep = torch.randn(5000), torch.rand(5000) > 0.5
    return tutorial.dropout(x, x_keep=keep.to(torch.int32), p=0.5), [torch.where(keep, x.double() / 0.5, 0.0)]


def _seeded_dropout(tutorial: Any) -> tuple[Any, list[Tensor]]:
    x = torch.randn(5000)
    kept = torch.from_numpy(philox_uniform(123, 5000) > 0.3)
    return tutorial.seeded_dropout(x, p=0.3, seed=123), [torch.where(kept, x.double() / 0.7, 0.0)]


def philox_uniform(seed: int, count: int) -> NDArray[np.float64]:
    """Philox 4×32-10 of the counters 0 … count − 1, first word, as uniform numbers in [0, 1).

    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011), table 2 and §5.2; a
    word is folded to 31 bits and scaled by just under 2⁻³¹, as triton/language/random.py documents.
    """
    multipliers = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    words = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        first, second = words[0] * multipliers[0], words[2] * multipliers[1]
        words = [
            (second >> shift) ^ words[1] ^ np.uint64(keys[0]),
            second & low,
            (first >> shift) ^ words[3] ^ np.uint64(keys[1]),
            first & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    signed = words[0].astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


def _layer_norm(direction: str, rows: int, columns: int) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        data = [-2.3 + 0.5 * torch.randn(rows, columns), torch.rand(columns), torch.rand(columns)]
        mine = [each.half().requires_grad_() for each in data]
        wide = [each.detach().double().requires_grad_() for each in mine]
        seed = (0.1 * torch.randn(rows, columns)).half()
        out = tutorial.LayerNorm.apply(mine[0], (columns,), mine[1], mine[2], 1e-5)
        expected = F.layer_norm(wide[0], (columns,), wide[1], wide[2], 1e-5)
        if direction == "forward":
            return out.detach(), [expected.detach()]
        return torch.autograd.grad(out, mine, seed), list(torch.autograd.grad(expected, wide, seed.double()))

    return check


def _attention(direction: str, causal: bool, dtype: torch.dtype = torch.float16) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        # V's descriptor for fp8 is one head long: later heads lie outside it and are zeros.
        heads = 1 if dtype == torch.float8_e5m2 else 2
        shape, scale = (heads, heads, 256, 64), 0.5
        mine = [(0.5 * torch.randn(shape)).half().requires_grad_() for _ in range(3)]
        if dtype == torch.float8_e5m2:
            # The kernel reads V transposed where it is fp8.
            q, k, v = (each.detach().to(dtype) for each in mine)
            mine = [q, k, v.mT.contiguous().mT]
        wide = [each.detach().double().requires_grad_() for each in mine]
        scores = wide[0] @ wide[1].mT * scale
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        expected = torch.softmax(scores, -1) @ wide[2]
        out = tutorial.attention(*mine, causal, scale, False)
        if direction == "forward":
            return out.detach().to(torch.float16), [expected.detach()]
        seed = torch.randn(shape).half()
        return torch.autograd.grad(out, mine, seed), list(torch.autograd.grad(expected, wide, seed.double()))

    return check


def _arc_sine(tutorial: Any) -> tuple[Any, list[Tensor]]:
    x = torch.rand(98432)
    out = torch.zeros_like(x)
    tutorial.asin_kernel[(97,)](x, out, x.numel(), BLOCK_SIZE=1024)
    return out, [torch.asin(x.double())]


def _grouped(launcher: str, transposed: bool) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        sizes = (512, 256, 384, 128)
        left = [torch.rand(size, size, dtype=torch.float16) for size in sizes]
        right = [torch.rand(size, size, dtype=torch.float16) for size in sizes]
        expected = [a.double() @ b.double() for a, b in zip(left, right, strict=True)]
        given = [b.T.contiguous() for b in right] if transposed else right
        return getattr(tutorial, launcher)(left, given), expected

    return check


def _persistent(launcher: str, dtype: torch.dtype, *options: bool) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        """Sizes that leave part of a 128×128×64 tile over on every side."""
        a = torch.randn(400, 352, dtype=torch.float16).to(dtype)
        b = torch.randn(304, 352, dtype=torch.float16).to(dtype)
        out = getattr(tutorial, launcher)(a, b if options else b.T, *options)
        expected = a.double() @ b.double().T
        # float8 holds what it can: torch's own rounding of the exact product is the reference.
        return out.to(torch.float16), [expected if dtype == torch.float16 else expected.to(dtype).double()]

    return check


def _block_scaled(kind: str) -> Check:
    """The tutorial's own inputs where it can make them; its initialiser fails for mxfp4 and mixed."""
    size = (256, 512, 512)

    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        results = tutorial.initialize_block_scaled(*size, kind, compute_reference=True)
        (a, a_scale, b, b_scale, rep_m, rep_n, rep_k, configs, reference) = results[:9]
        repeats = (rep_m, rep_n, rep_k, configs)
        out = tutorial.block_scaled_matmul(a, a_scale, b, b_scale, torch.float16, *size, *repeats)
        return out, [reference.double()]

    def check_mx(tutorial: Any) -> tuple[Any, list[Tensor]]:
        rows, columns, depth = size
        a, exact_a = (_fp4 if kind == "mxfp4" else _fp8)(rows, depth)
        b, exact_b = _fp4(columns, depth)
        scales = [torch.randint(124, 130, (extent, depth // 32), dtype=torch.uint8) for extent in (rows, columns)]
        factors = [torch.exp2(each.double() - 127).repeat_interleave(32, 1) for each in scales]
        depth_tile = 256 if kind == "mxfp4" else 128
        per_byte = 2 if kind == "mxfp4" else 1
        configs = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": depth_tile, "num_stages": 4}
        configs |= {"ELEM_PER_BYTE_A": per_byte, "ELEM_PER_BYTE_B": 2, "VEC_SIZE": 32}
        described = [
            TensorDescriptor.from_tensor(a, [128, depth_tile // per_byte]),
            TensorDescriptor.from_tensor(_packed_scales(scales[0]), [1, 1, depth_tile // 128, 2, 256]),
            TensorDescriptor.from_tensor(b, [256, depth_tile // 2]),
            TensorDescriptor.from_tensor(_packed_scales(scales[1]), [1, 2, depth_tile // 128, 2, 256]),
        ]
        repeats = (1, 2, depth_tile // 128, configs)
        out = tutorial.block_scaled_matmul(*described, torch.float32, *size, *repeats)
        return out, [(exact_a * factors[0]) @ (exact_b * factors[1]).T]

    return check if kind in ("nvfp4", "mxfp8") else check_mx


FP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
"""Magnitudes of e2m1 by their three bits (OCP Microscaling Formats 1.0, §5.3.3)."""


def _fp4(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Random e2m1 numbers, two in a byte with the first in the low half, and their values."""
    codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
    values = FP4_VALUES[(codes & 7).long()] * torch.where(codes > 7, -1.0, 1.0)
    return codes[:, ::2] | (codes[:, 1::2] << 4), values


def _fp8(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    numbers = torch.randn(rows, columns).to(torch.float8_e4m3fn)
    return numbers, numbers.double()


def _packed_scales(scales: Tensor) -> Tensor:
    """[rows, K / 32] scales in the order that the tensor core reads: 128 rows by 4 scales as 32 × 16 bytes."""
    rows, groups = scales.shape
    blocks = scales.reshape(rows // 128, 4, 32, groups // 4, 4).permute(0, 3, 2, 1, 4)
    return blocks.reshape(1, rows // 128, groups // 4, 2, 256).contiguous()


def _dependent_launch(uses_pdl: bool) -> Check:
    def check(tutorial: Any) -> tuple[Any, list[Tensor]]:
        if uses_pdl:
            raise NotRunError("griddepcontrol is inline PTX and orders two grids on a GPU")
        x, y = torch.rand(10_000), torch.rand(10_000)
        return tutorial.add(x, y, launch_pdl=uses_pdl), [x.double() + y.double()]

    return check


HALF, FP8 = torch.float16, torch.float8_e4m3fn
FP8_STEP = 0.13
"""One unit in the last place of float8_e4m3fn is an eighth: a sum that lies between two values may go to either."""

ATTENTION_CASES = [
    *(
        TutorialCase(f"attention{' causal' * causal}", way, "float16", _attention(way, causal), HALF_ATTENTION)
        for causal in (False, True)
        for way in ("forward", "backward")
    ),
    TutorialCase("attention", "forward", "float8_e5m2", _attention("forward", False, torch.float8_e5m2), 0.25),
]

TUTORIALS = (
    Tutorial("01-vector-add.py", ("add",), [TutorialCase("add", "forward", "float32", _add)]),
    Tutorial(
        "02-fused-softmax.py",
        ("softmax", "softmax_kernel"),
        [
            TutorialCase("softmax_kernel", "forward", "float32", _softmax),
            TutorialCase("softmax", "forward", "float32", _softmax_launcher),
        ],
    ),
    Tutorial(
        "03-matrix-multiplication.py",
        ("matmul",),
        [
            TutorialCase("matmul", "forward", "float16", _matmul(HALF, "")),
            TutorialCase("matmul leaky_relu", "forward", "float16", _matmul(HALF, "leaky_relu")),
            TutorialCase("matmul", "forward", "float8_e5m2", _matmul(torch.float8_e5m2, "")),
        ],
    ),
    Tutorial(
        "04-low-memory-dropout.py",
        ("dropout", "seeded_dropout"),
        [
            TutorialCase("dropout", "forward", "float32", _dropout),
            TutorialCase("seeded_dropout", "forward", "float32", _seeded_dropout),
        ],
    ),
    Tutorial(
        "05-layer-norm.py",
        ("LayerNorm",),
        [
            TutorialCase(f"LayerNorm {rows}×{columns}", way, "float16", _layer_norm(way, rows, columns))
            for rows, columns in ((1151, 1000), (300, 8192))
            for way in ("forward", "backward")
        ],
        {"HAS_APEX": False},
    ),
    Tutorial("06-fused-attention.py", ("attention",), ATTENTION_CASES),
    Tutorial(
        "06-fused-attention.py",
        ("attention",),
        [
            TutorialCase(
                f"{case.name}, descriptors made in the kernel", case.direction, case.dtype, case.check, case.tolerance
            )
            for case in ATTENTION_CASES
        ],
        {"supports_host_descriptor": lambda: False},
    ),
    Tutorial("07-extern-functions.py", ("asin_kernel",), [TutorialCase("asin", "forward", "float32", _arc_sine)]),
    Tutorial(
        "08-grouped-gemm.py",
        ("group_gemm_fn", "group_gemm_tma_fn"),
        [
            TutorialCase("group_gemm_fn", "forward", "float16", _grouped("group_gemm_fn", False)),
            TutorialCase("group_gemm_tma_fn", "forward", "float16", _grouped("group_gemm_tma_fn", True)),
        ],
    ),
    Tutorial(
        "09-persistent-matmul.py",
        ("matmul", "matmul_persistent", "matmul_tma", "matmul_tma_persistent", "matmul_descriptor_persistent"),
        [
            TutorialCase(
                f"{launcher}{' warp-specialised' * any(options)}",
                "forward",
                str(dtype).removeprefix("torch."),
                _persistent(launcher, dtype, *options),
                None if dtype == HALF else FP8_STEP,
            )
            for launcher, options in (
                ("matmul", ()),
                ("matmul_persistent", ()),
                ("matmul_tma", (False,)),
                ("matmul_tma_persistent", (False,)),
                ("matmul_descriptor_persistent", (False,)),
                ("matmul_descriptor_persistent", (True,)),
            )
            for dtype in (HALF, FP8)
        ],
    ),
    Tutorial(
        "10-block-scaled-matmul.py",
        ("initialize_block_scaled", "block_scaled_matmul"),
        [
            TutorialCase(f"block_scaled_matmul {kind}", "forward", kind, _block_scaled(kind))
            for kind in ("nvfp4", "mxfp4", "mxfp8", "mixed")
        ],
    ),
    Tutorial(
        "11-programmatic-dependent-launch.py",
        ("add",),
        [
            TutorialCase("add without dependent launch", "forward", "float32", _dependent_launch(False)),
            TutorialCase("add with dependent launch", "forward", "float32", _dependent_launch(True)),
        ],
    ),
)
