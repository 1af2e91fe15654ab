"""The `tt` dialect: Triton's own operations.

Attribute names follow the text: `axis` of tt.get_program_id (0, 1, 2 for x, y, z),
`cacheModifier` and `evictionPolicy` (words such as `cs`, `evict_first`), `isVolatile` (bool),
`boundaryCheck` (tuple of dimensions), `padding` (1 zero, 2 NaN), `atomic_rmw_op`, `sem`, `scope`,
`inputPrecision`, `rounding`, `propagateNan`, `a_elem_type` and `b_elem_type` of tt.dot_scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilesight.ir.assembly import OperationFormat, Segments
from tilesight.ir.assembly_elements import assembly, same_type_as
from tilesight.ir.module import Attribute
from tilesight.ir.types import PointerType, TensorType, Type, element_type

CACHE = "key:cacheModifier|evictionPolicy"
SAME_SHAPE_CASTS = ["splat", "broadcast", "expand_dims", "trans", "bitcast", "int_to_ptr", "ptr_to_int"]


def loaded_type(pointer: Type) -> Type | None:
    """What a load through this pointer, tile of pointers or block pointer gives."""
    if isinstance(pointer, PointerType):
        return pointer.pointee
    if isinstance(pointer, TensorType) and isinstance(pointer.element, PointerType):
        return replace(pointer, element=pointer.element.pointee)
    return None


def _load_result(segments: Segments, attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    pointer = segments["ptr"][0].type
    return (loaded_type(pointer) or pointer,)


def _unsplat_result(segments: Segments, attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (element_type(segments["src"][0].type),)


CONTROL: dict[str, OperationFormat] = {
    "tt.return": assembly("{} [? %srcs* : types(srcs) ]?"),
    "tt.call": assembly("symbol:callee ( %args* ) {} : functional"),
    "tt.get_program_id": assembly("enum:axis=x|y|z {} : type(result)"),
    "tt.get_num_programs": assembly("enum:axis=x|y|z {} : type(result)"),
    "tt.print": assembly("text:prefix {} [? : %args* : types(args) ]?"),
    "tt.assert": assembly("%condition , text:message {} : type(condition)"),
}

SHAPES: dict[str, OperationFormat] = {
    **{f"tt.{name}": assembly("%src {} : type(src) -> type(result)") for name in SAME_SHAPE_CASTS},
    "tt.make_range": assembly("{} : type(result)"),
    "tt.unsplat": assembly("%src {} : type(src)", _unsplat_result),
    "tt.reshape": assembly("%src flag:allow_reorder flag:efficient_layout {} : type(src) -> type(result)"),
    "tt.cat": assembly("%lhs , %rhs {} : type(lhs) -> type(result)"),
    "tt.join": assembly("%lhs , %rhs {} : type(lhs) -> type(result)"),
    "tt.split": assembly("%src {} : type(src) -> twice(result)"),
    "tt.gather": assembly("%src [ %indices ] {} : functional"),
    "tt.fp_to_fp": assembly("%src {} [? , key:rounding ]? : type(src) -> type(result)"),
}

MEMORY: dict[str, OperationFormat] = {
    "tt.addptr": assembly("%ptr , %offset {} : type(ptr) , type(offset)", same_type_as("ptr")),
    "tt.load": assembly(f"%ptr [? , %mask [? , %other ]? ]? {CACHE} {{}} : type(ptr)", _load_result),
    "tt.store": assembly(f"%ptr , %value [? , %mask ]? {CACHE} {{}} : type(ptr)"),
    "tt.atomic_rmw": assembly(
        "word:atomic_rmw_op , word:sem , word:scope , %ptr , %value [? , %mask ]? {} : functional"
    ),
    "tt.atomic_cas": assembly("word:sem , word:scope , %ptr , %compare , %value {} : functional"),
    "tt.make_tensor_ptr": assembly(
        "%base , [ %shape* ] , [ %strides* ] , [ %offsets* ] {} : pointer(result)",
    ),
    "tt.advance": assembly("%ptr , [ %offsets* ] {} : pointer(result)"),
    "tt.make_tensor_descriptor": assembly(
        "%base , [ %shape* ] , [ %strides* ] {} : pointer(base) , descriptor(result)"
    ),
    "tt.descriptor_load": assembly(f"%descriptor [ %indices* ] {CACHE} {{}} : type(descriptor) -> type(result)"),
    "tt.descriptor_store": assembly(
        "%descriptor [ %indices* ] , %value {} : type(descriptor) , type(value)",
        operands="descriptor value indices*",
    ),
    "tt.descriptor_reduce": assembly(
        "word:kind , %descriptor [ %indices* ] , %value {} : type(descriptor) , type(value)",
        operands="descriptor value indices*",
    ),
    "tt.descriptor_gather": assembly("%descriptor [ %x_offsets , %y_offset ] {} : functional"),
    "tt.descriptor_scatter": assembly(
        "%descriptor [ %x_offsets , %y_offset ] , %value {} "
        ": type(descriptor) , type(x_offsets) , type(y_offset) , type(value)"
    ),
}

ARITHMETIC: dict[str, OperationFormat] = {
    "tt.clampf": assembly("%x , %min , %max , key:propagateNan {} : type(result)"),
    "tt.mulhiui": assembly("%x , %y {} : type(result)"),
    "tt.precise_sqrt": assembly("%x {} : type(result)"),
    "tt.precise_divf": assembly("%x , %y {} : type(result)"),
    "tt.dot": assembly("%a , %b , %c [? , key:inputPrecision ]? {} : type(a) * type(b) -> type(result)"),
    "tt.dot_scaled": assembly(
        "%a [? scale %a_scale ]? , %b [? scale %b_scale ]? , %c "
        "lhs = word:a_elem_type rhs = word:b_elem_type {} "
        ": type(a) [? , type(a_scale) ]? * type(b) [? , type(b_scale) ]? -> type(result)",
        operands="a b c a_scale? b_scale?",
    ),
    "tt.histogram": assembly("%src [? , %mask ]? {} : type(src) -> type(result)"),
    "tt.extern_elementwise": assembly("%srcs* {} : functional"),
    "tt.elementwise_inline_asm": assembly("text:asm_string {} [? %args* : types(args) ]? -> types(results)"),
}

REGIONS: dict[str, OperationFormat] = {
    "tt.reduce": OperationFormat("srcs*"),
    "tt.scan": OperationFormat("srcs*"),
    "tt.map_elementwise": OperationFormat("srcs*"),
    "tt.reduce.return": assembly("%values* {} : types(values)"),
    "tt.scan.return": assembly("%values* {} : types(values)"),
    "tt.map_elementwise.return": assembly("%values* {} : types(values)"),
}

FORMATS: dict[str, OperationFormat] = {**CONTROL, **SHAPES, **MEMORY, **ARITHMETIC, **REGIONS}
