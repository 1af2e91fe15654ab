"""Locations: aliases in any order, names, call sites, fused and unknown places."""

from __future__ import annotations

import pytest

from tilesight.ir import UNKNOWN, Location, Operation, parse_module, print_module
from tilesight.ir.lexer import TtirSyntaxError

ALIASES = """
#loc = loc("kernel.py":3:0)
#loc1 = loc(unknown)
#loc2 = loc("standard.py":291:36)
#loc3 = loc("kernel.py":7:20)
#loc4 = loc("total"(#loc3))
#loc5 = loc(callsite(#loc2 at #loc4))
#loc6 = loc("standard.py":263:15)
#loc7 = loc(callsite(#loc6 at #loc5))
#loc8 = loc(callsite(#loc1 at #loc3))
#loc9 = loc("outer"("inner"(#loc3)))
#loc10 = loc(fused<"meta">[#loc1, #loc3, #loc2])
#loc11 = loc("kernel.py":4:1 to 4:9)
#loc12 = loc("only a name")
#loc13 = loc(callsite(#loc5 at #loc11))
"""


def located(reference: str) -> Operation:
    text = f"module {{\n  tt.func public @k() {{\n    tt.return loc({reference})\n  }}\n}}\n{ALIASES}"
    module = parse_module(text)
    again = parse_module(print_module(module)).kernel.body.entry.operations[0]
    operation = module.kernel.body.entry.operations[0]
    assert again.location == operation.location
    return operation


KERNEL_LINE = Location("kernel.py", 7, 20)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#loc3", KERNEL_LINE),
        ("#loc1", UNKNOWN),
        ("unknown", UNKNOWN),
        ('"a.py":1:2', Location("a.py", 1, 2)),
        ('"say \\"hi\\"\\5C.py":1:2', Location('say "hi"\\.py', 1, 2)),
        ("#loc4", Location("kernel.py", 7, 20, "total")),
        ("#loc9", Location("kernel.py", 7, 20, "outer")),
        ("#loc10", KERNEL_LINE),
        ("#loc11", Location("kernel.py", 4, 1)),
        ("#loc12", Location(name="only a name")),
        ("#loc8", Location(callers=(KERNEL_LINE,))),
        ("#loc5", Location("standard.py", 291, 36, callers=(Location("kernel.py", 7, 20, "total"),))),
        (
            "#loc7",
            Location(
                "standard.py",
                263,
                15,
                callers=(Location("standard.py", 291, 36), Location("kernel.py", 7, 20, "total")),
            ),
        ),
        (
            "#loc13",
            Location(
                "standard.py",
                291,
                36,
                callers=(Location("kernel.py", 7, 20, "total"), Location("kernel.py", 4, 1)),
            ),
        ),
        ('callsite("f.py":1:1 at "g.py":2:2)', Location("f.py", 1, 1, callers=(Location("g.py", 2, 2),))),
    ],
)
def test_location(reference: str, expected: Location) -> None:
    assert located(reference).location == expected


def test_kernel_frame_is_the_outermost_known_line() -> None:
    assert located("#loc7").location.kernel_frame == Location("kernel.py", 7, 20, "total")
    assert located("#loc8").location.kernel_frame == KERNEL_LINE


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tt.return loc(#loc99)", "location #loc99; expected an alias that is defined"),
        ("tt.return loc(#self)", "does not contain itself"),
        ('tt.return loc("a.py":x:1)', "expected a line number"),
        ("tt.return loc(somewhere)", "expected a location: `#alias`"),
        ("tt.return loc(callsite(#loc1 of #loc2))", "expected `at`"),
    ],
)
def test_broken_location(line: str, message: str) -> None:
    text = f'module {{\n  tt.func public @k() {{\n    {line}\n  }}\n}}\n{ALIASES}#self = loc("x"(#self))\n'
    with pytest.raises(TtirSyntaxError, match=r"<ttir>:\d+:\d+: ") as caught:
        parse_module(text)
    assert message in str(caught.value)
