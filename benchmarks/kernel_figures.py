"""Which operators are measured on a GPU, at which shapes, the headline first."""

from __future__ import annotations

from tilesight.bench.operator_model import COLUMNS, ROWS_GPU, Shape
from tilesight.bench.operators import OPERATORS

Figure = tuple[str, tuple[int, ...]]

HEADLINE: tuple[Figure, ...] = (
    ("add_relu", (1 << 28,)),
    ("softmax", (32768, 4096)),
    ("softmax", (1024, 131072)),
    ("rms_norm", (32768, 4096)),
    ("rms_norm", (1024, 131072)),
    ("add_rms_norm", (8192, 16384)),
    ("layer_norm", (16384, 8192)),
    ("rms_norm_backward", (16384, 8192)),
    ("layer_norm_backward", (16384, 8192)),
    ("swiglu", (32768, 4096)),
    ("rope", (4, 4096, 32, 128)),
    ("cross_entropy", (8192, 131072)),
    ("cross_entropy_both", (8192, 131072)),
    ("linear_cross_entropy_both", (8192, 4096, 131072)),
    ("linear_cross_entropy_products", (8192, 4096, 131072)),
    ("matmul", (4096, 4096, 4096)),
    ("matmul_swiglu", (4096, 4096, 4096)),
    ("attention", (4, 16, 4096, 128)),
    ("attention_causal", (1, 16, 16384, 128)),
    ("attention_backward", (4, 16, 4096, 128)),
    ("decode_attention", (64, 32, 4096, 128)),
)
"""In the README's table, in its order."""
SMALL: tuple[Figure, ...] = (
    ("add_relu", (100_000,)),
    ("softmax", (16, 1024)),
    ("rms_norm", (16, 4096)),
    ("swiglu", (16, 4096)),
)
"""So short that Python's way to the launch is what counts."""
WIDTHS = ("softmax", "rms_norm", "add_rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward")
"""Measured at every width."""


def figures() -> list[Figure]:
    """The headline; the small shapes; each other operator once; then every width, and what else an operator has."""
    firsts = [(name, tuple(each.gpu_shapes[0])) for name, each in OPERATORS.items() if each.gpu_shapes]
    known = {name for name, _ in HEADLINE}
    wanted = [*HEADLINE, *SMALL, *(each for each in firsts if each[0] not in known)]
    wanted += [(name, shape) for shape in _matrices() for name in WIDTHS]
    wanted += [
        (name, tuple(shape)) for name, each in OPERATORS.items() if name not in WIDTHS for shape in each.gpu_shapes
    ]
    return list(dict.fromkeys(wanted))


def _matrices() -> list[tuple[int, ...]]:
    shapes: list[Shape] = [(ROWS_GPU // columns, columns) for columns in COLUMNS]
    return [*(tuple(each) for each in shapes), (8, 131072)]


def small_figures() -> list[Figure]:
    """For a CPU: each operator at its smallest, on the engine."""
    return [(name, tuple(each.cpu_shapes[0])) for name, each in OPERATORS.items()]
