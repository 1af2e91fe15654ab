"""The three parts are found in hand-written and in generated kernels."""

from __future__ import annotations

import textwrap

from tilesight.capture.parts import Parts, body_lines, find_parts

HAND = textwrap.dedent('''\
    @triton.jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        """A docstring is no statement."""
        pid = tl.program_id(0)
        offsets = pid * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)
    ''')


def test_vector_add() -> None:
    assert find_parts(HAND) == Parts(program_id=(4, 5), load=(7, 8), store=(9,), mask=(6,))
    assert body_lines(HAND) == (4, 5, 6, 7, 8, 9)


def test_mask_written_inline_belongs_to_the_access_too() -> None:
    source = HAND.replace("mask = offsets < n\n    x", "x").replace("mask=mask", "mask=offsets < n")
    parts = find_parts(source)
    assert parts.mask == parts.load + parts.store == (6, 7, 8)


def test_an_index_that_was_loaded_is_no_offset_line() -> None:
    source = textwrap.dedent("""\
        def gather(i_ptr, x_ptr, out_ptr):
            lanes = tl.arange(0, 64)
            index = tl.load(i_ptr + lanes)
            doubled = index * 2
            tl.store(out_ptr + lanes, tl.load(x_ptr + doubled))
        """)
    assert find_parts(source) == Parts(program_id=(2,), load=(3, 5), store=(5,), mask=())


def test_a_loop_variable_that_moves_the_tile_counts() -> None:
    source = textwrap.dedent("""\
        def walk(x_ptr, out_ptr, n):
            for start in range(0, n, 64):
                lanes = start + tl.arange(0, 64)
                tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, lanes < n), lanes < n)
        """)
    parts = find_parts(source)
    assert (parts.program_id, parts.load, parts.store) == ((2, 3), (4,), (4,))


def test_no_kernel_has_no_parts() -> None:
    assert find_parts("x = 1\n") == Parts()
    assert body_lines("x = 1\n") == ()


def test_the_named_kernel_is_chosen() -> None:
    two = HAND + "\n\ndef other(p):\n    tl.store(p, 1)\n"
    assert find_parts(two, "other").store == (13,)
