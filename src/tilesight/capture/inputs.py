"""Inputs from a short text such as `f32[100000],i64[8]`: fake for capture, real for execution."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from tilesight.capture.tensors import dtype_name
from tilesight.errors import InputError

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "b1": torch.bool, "bool": torch.bool,
}  # fmt: skip
_SHORT = {dtype_name(dtype): short for short, dtype in reversed(DTYPES.items())}
_ITEM = re.compile(r"\s*(\w+)\s*\[\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\](?:\s*<\s*(\d+)\s*)?\s*")
FORM = 'a list such as "f32[100000],i64[8]<1000" (dtype[shape], and <limit for integers)'


@dataclass(frozen=True)
class TensorSpec:
    """One tensor input: shape and strides in elements, a torch dtype, and integers' upper limit.

    `limit` bounds random integers: `i64[8]<1000` holds 0 to 999, as class targets need.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...] | None = None
    limit: int | None = None

    def __str__(self) -> str:
        return f"{_SHORT.get(dtype_name(self.dtype), dtype_name(self.dtype))}[{','.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def parse_inputs(text: str) -> tuple[TensorSpec, ...]:
    """The tensor inputs that a text names.

    Raises: InputError: at the first place that does not parse, or for an unknown dtype
    """
    specs: list[TensorSpec] = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise InputError(f"cannot read {text[position:]!r}", where="--inputs", expected=FORM)
        specs.append(_spec(*match.groups()))
        position = match.end()
        if position < len(text):
            if text[position] != "," or not text[position + 1 :].strip():
                raise InputError(f"cannot read {text[position:]!r}", where="--inputs", expected=FORM)
            position += 1
    if not specs:
        raise InputError("no inputs", where="--inputs", expected=FORM)
    return tuple(specs)


def _spec(dtype: str, dims: str, limit: str | None) -> TensorSpec:
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}", where="--inputs", expected=f"one of {', '.join(DTYPES)}")
    shape = tuple(int(dim) for dim in dims.split(",") if dim.strip())
    return TensorSpec(shape, DTYPES[dtype], limit=int(limit) if limit else None)


def spec_of(value: Any) -> Any:
    """The TensorSpec of a tensor; any other value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    limit = None if value.dtype.is_floating_point or value.is_meta or value.numel() == 0 else int(value.max()) + 1
    return TensorSpec(tuple(value.shape), value.dtype, tuple(value.stride()), limit)


def fake_mode() -> Any:
    """A FakeTensorMode that accepts real constants beside fake tensors."""
    fake: Any = import_module("torch._subclasses.fake_tensor")
    return fake.FakeTensorMode(allow_non_fake_inputs=True)


def fake_tensor(mode: Any, spec: TensorSpec) -> Any:
    """A tensor on a pretended `cuda:0` that has no memory."""
    fake: Any = import_module("torch._subclasses.fake_tensor")
    meta = torch.empty(spec.shape, dtype=spec.dtype, device="meta")
    if spec.strides is not None:
        meta = torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device="meta")
    return fake.FakeTensor(mode, meta, torch.device("cuda:0"))


def real_tensor(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """A CPU tensor of random data: normal for floats, 0 ≤ i < limit (default 2) for integers."""
    if spec.dtype.is_floating_point:
        values = torch.randn(spec.shape, generator=generator, dtype=torch.float32).to(spec.dtype)
    else:
        values = torch.randint(0, spec.limit or 2, spec.shape, generator=generator).to(spec.dtype)
    if spec.strides is None:
        return values
    return torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype).copy_(values)


def fake_inputs(mode: Any, values: Sequence[Any]) -> list[Any]:
    """The same inputs as fake tensors; values that are no TensorSpec stay."""
    return [fake_tensor(mode, value) if isinstance(value, TensorSpec) else value for value in values]


def real_inputs(values: Sequence[Any], seed: int = 0) -> list[Any]:
    """The same inputs as CPU tensors of random data, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [real_tensor(value, generator) if isinstance(value, TensorSpec) else value for value in values]
