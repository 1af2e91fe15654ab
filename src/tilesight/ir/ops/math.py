"""The `math` dialect: elementwise functions whose operands and result have one type."""

from __future__ import annotations

from collections.abc import Mapping

from tilesight.ir.assembly import OperationFormat, Segments
from tilesight.ir.assembly_elements import assembly, boolean_like, same_type_as
from tilesight.ir.module import Attribute
from tilesight.ir.types import Type

FLOAT_UNARY = [
    "absf",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "round",
    "roundeven",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
PREDICATES = ["isfinite", "isinf", "isnan", "isnormal"]
INTEGER_UNARY = ["absi", "ctlz", "ctpop", "cttz"]
BINARY = ["atan2", "copysign", "powf"]


def _predicate(segments: Segments, attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (boolean_like(segments["operand"][0].type),)


FORMATS: dict[str, OperationFormat] = {
    **{f"math.{name}": assembly("%operand flags:fastmath {} : type(result)") for name in FLOAT_UNARY},
    **{f"math.{name}": assembly("%operand {} : type(result)") for name in INTEGER_UNARY},
    **{f"math.{name}": assembly("%lhs , %rhs flags:fastmath {} : type(result)") for name in BINARY},
    **{f"math.{name}": assembly("%operand flags:fastmath {} : type(operand)", _predicate) for name in PREDICATES},
    "math.ipowi": assembly("%lhs , %rhs {} : type(result)"),
    "math.fma": assembly("%a , %b , %c flags:fastmath {} : type(result)"),
    "math.fpowi": assembly("%lhs , %rhs flags:fastmath {} : type(lhs) , type(rhs)", same_type_as("lhs")),
    "math.clampf": assembly("%value to [ %min , %max ] flags:fastmath {} : type(result)"),
    "math.sincos": assembly("%operand flags:fastmath {} : twice(result)"),
}
