"""Type text → Type, such as `tensor<4x64x!tt.ptr<bf16>>`."""

from __future__ import annotations

import re
from functools import lru_cache

from tilesight.ir.types import (
    FLOAT_BITS,
    DescriptorType,
    FloatType,
    IndexType,
    IntegerType,
    PointerType,
    TensorType,
    Type,
)

_INTEGER = re.compile(r"[su]?i(\d+)\Z")
_SHAPED = re.compile(r"((?:\d+x)*)(.*)\Z", re.DOTALL)
_SCALARS = {"index", *FLOAT_BITS}


def is_scalar_type_word(word: str) -> bool:
    """Whether a bare word such as `i32`, `bf16` or `index` names a type."""
    return word in _SCALARS or _INTEGER.match(word) is not None


@lru_cache(maxsize=4096)
def parse_optional_type(text: str) -> Type | None:
    """The type that `text` spells in full, or None where it spells none that TTIR has."""
    if match := _INTEGER.match(text):
        return IntegerType(int(match[1]))
    if text in FLOAT_BITS:
        return FloatType(text)
    if text == "index":
        return IndexType()
    if not text.endswith(">"):
        return None
    if text.startswith("!tt.ptr<"):
        return _parse_pointer(text[len("!tt.ptr<") : -1])
    if text.startswith("tensor<"):
        return _parse_tensor(text[len("tensor<") : -1])
    if text.startswith("!tt.tensordesc<"):
        return _parse_descriptor(text[len("!tt.tensordesc<") : -1])
    return None


def _parse_pointer(body: str) -> Type | None:
    pointee_text, space = _split_argument(body)
    pointee = parse_optional_type(pointee_text)
    if pointee is None or (space and not space.isdecimal()):
        return None
    return PointerType(pointee, int(space or 1))


def _parse_tensor(body: str) -> TensorType | None:
    match = _SHAPED.match(body)
    if match is None:
        return None
    element_text, encoding = _split_argument(match[2])
    element = parse_optional_type(element_text)
    if element is None:
        return None
    shape = tuple(int(size) for size in match[1].split("x") if size)
    return TensorType(shape, element, encoding)


def _parse_descriptor(body: str) -> DescriptorType | None:
    """`tensor<AxBxf16>` up to Triton 3.7; the bare `AxBxf16` is read too."""
    block = parse_optional_type(body) if body.startswith("tensor<") else _parse_tensor(body)
    return DescriptorType(block) if isinstance(block, TensorType) else None


def _split_argument(body: str) -> tuple[str, str]:
    """Split at the first comma that lies outside every bracket."""
    depth = 0
    for position, character in enumerate(body):
        depth += (character in "<[({") - (character in ">])}")
        if character == "," and depth == 0:
            return body[:position].strip(), body[position + 1 :].strip()
    return body.strip(), ""
