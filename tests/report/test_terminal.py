"""The terminal report: 100 columns, plain in a pipe, the figures in it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report import samples
from tilesight.report.catalogue import Lang
from tilesight.report.terminal import print_report, report_text


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", samples.RECORDS)
def test_a_piped_report_is_plain_and_fits(name: str, lang: Lang) -> None:
    text = report_text(samples.RECORDS[name], lang)
    assert "\x1b" not in text
    assert all(cell_len(line) <= 100 for line in text.splitlines())
    assert not set(text) & set("│┃┏━╭┌─┐└┘╰")
    assert all(line == line.rstrip() for line in text.splitlines())


def test_colour_on_a_terminal() -> None:
    file = io.StringIO()
    print_report(samples.broken_trace(), "en", Console(file=file, force_terminal=True, width=100))
    assert "\x1b[" in file.getvalue()


def test_parts_stand_in_the_margin() -> None:
    lines = report_text(samples.comparison()).splitlines()
    assert "  16  pid           offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)" in lines
    assert "  28  store         tl.store(out_ptr0 + (x0), tmp4, xmask)" in lines


def test_a_faulty_line_is_marked_without_colour_too() -> None:
    text = report_text(samples.broken_trace())
    assert "  20 !store" in text
    assert "out-of-bounds  04c_triton_fused_add_relu.py:20" in text
    assert "Repair  add mask=offsets < n to the store" in text


def test_bytes_bars_and_tail() -> None:
    text = report_text(samples.comparison())
    assert "eager     2.0 MB  " + "#" * 40 in text
    assert "hand      1.2 MB  " + "#" * 24 + "\n" in text
    assert "[pid=0] [pid=1] [pid=2] [pid=3] … 90 more … [pid=94]" in text
    assert "672 lanes on, 352 lanes masked off" in text


def test_what_is_unknown_is_said() -> None:
    text = report_text(samples.attention())
    assert "not measured yet: requested, touched, DRAM, FLOPs" in text
    assert "eager     not measured yet" in text


def test_long_lists_are_cut_with_a_word() -> None:
    many = replace(samples.attention(), not_fused=samples.attention().not_fused * 30)
    assert "… 10 more (--html or --json shows them all)" in report_text(many)
    several = tuple(replace(samples.kernel(), name=f"kernel_{number}") for number in range(5))
    text = report_text(replace(samples.observation(), kernels=several))
    assert "5 generated kernels: --html shows their sources" in text


def test_brackets_in_user_text_are_not_markup() -> None:
    record = replace(samples.observation(), notes=("see [bold]x[/bold] and [link=a]",), subject="f[red]")
    text = report_text(record)
    assert "see [bold]x[/bold] and [link=a]" in text
    assert "f[red]" in text
