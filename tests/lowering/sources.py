"""Sources as Triton hands them to a driver, made from a kernel's signature."""

from __future__ import annotations

from typing import Any

from triton.compiler import ASTSource


def source_of(kernel: Any, types: dict[str, str], constants: dict[str, Any], *, is_aligned: bool = True) -> Any:
    """An ASTSource whose pointers and integers 16 divides, unless `is_aligned` says no.

    Args:
        types: parameter → Triton's name of its type
        constants: constexpr parameter → value
    """
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    places = [(index,) for index, name in enumerate(kernel.arg_names) if name in types]
    attributes = {place: [["tt.divisibility", 16]] for place in places} if is_aligned else {}
    return ASTSource(kernel, signature, constants, attributes)  # pyright: ignore[reportArgumentType]
