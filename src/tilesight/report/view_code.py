"""Kernels' sources with their parts marked, and the pairs of lines that do the same work."""

from __future__ import annotations

from collections.abc import Sequence

from tilesight.capture.parts import Parts
from tilesight.checks.finding import Finding
from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import grid_text, settings_text, short_source
from tilesight.report.view_model import Code, Pair, Source, SourceLine
from tilesight.roads.model import Kernel, LinePair, Trace


def traced_source(words: Catalogue, trace: Trace, prefix: str) -> Source:
    """A traced kernel as it stands in its file, numbered as there; a generated one without its heuristics."""
    generated = is_generated(trace)
    about = words("generated_kernel" if generated else "hand_kernel")
    place = f"{short_source(trace.file)}:{trace.first_line}" if trace.file else ""
    found = {finding.line - trace.first_line + 1: finding for finding in trace.findings}
    return Source(
        road="generated" if generated else "hand",
        title=trace.kernel,
        subtitle=" · ".join(part for part in (about, place) if part),
        lines=source_lines(trace.source, trace.parts, prefix, trace.first_line, found),
        folded=preamble_length(trace.source) if generated else 0,
    )


def is_generated(trace: Trace) -> bool:
    """Whether Inductor wrote the kernel: its launch heuristics stand before it."""
    return trace.source.lstrip().startswith("@triton_heuristics.")


def generated_source(words: Catalogue, kernel: Kernel, prefix: str) -> Source:
    """A kernel of the compiled road; its imports and launch heuristics are folded."""
    is_triton = bool(kernel.source)
    grid = f"{words('grid')} {grid_text(kernel.grid)}" if kernel.grid else ""
    about = words("generated_kernel" if is_triton else "extern_kernel")
    return Source(
        road="generated" if is_triton else "extern",
        title=kernel.name,
        subtitle=" · ".join(part for part in (about, grid, settings_text(kernel.config)) if part),
        lines=source_lines(kernel.source, kernel.parts, prefix, 1, {}),
        folded=preamble_length(kernel.source),
    )


def source_lines(
    text: str, parts: Parts, prefix: str, first_number: int, findings: dict[int, Finding]
) -> tuple[SourceLine, ...]:
    """The numbered lines of a source; blank lines at its end are left out.

    Args:
        prefix: of the lines' anchors, unique in the report
        first_number: number shown for the first line
        findings: by line within the text (1-based)
    """
    lines = text.rstrip().split("\n") if text.strip() else []
    return tuple(
        SourceLine(
            number=first_number + place - 1,
            text=line,
            anchor=f"{prefix}-{place}",
            parts=parts.of(place),
            finding=findings[place].kind if place in findings else "",
        )
        for place, line in enumerate(lines, start=1)
    )


def preamble_length(source: str) -> int:
    """How many lines stand before `@triton.jit`, if any does."""
    for place, line in enumerate(source.split("\n")):
        if line.strip().startswith("@triton.jit"):
            return place
    return 0


def code(words: Catalogue, hand: Sequence[Trace], kernels: Sequence[Kernel], prefix: str) -> Code:
    """The sources of both roads; a kernel launched several times is shown once."""
    traces: dict[str, Trace] = {}
    generated: dict[str, Kernel] = {}
    for trace in hand:
        if trace.source:
            traces.setdefault(f"{trace.file}:{trace.kernel}", trace)
    for kernel in kernels:
        if kernel.source:
            generated.setdefault(kernel.name, kernel)
    sources = [traced_source(words, t, f"{prefix}h{i}") for i, t in enumerate(traces.values())]
    return Code(
        hand=tuple(source for source in sources if source.road == "hand"),
        generated=(
            *(source for source in sources if source.road == "generated"),
            *(generated_source(words, k, f"{prefix}g{i}") for i, k in enumerate(generated.values())),
        ),
    )


def pairs(words: Catalogue, paired: Sequence[LinePair], shown: Code) -> tuple[Pair, ...]:
    """The paired lines, linked to the first source of each road, whose line numbers they count."""
    return tuple(_pair(words, pair, shown) for pair in paired)


def _pair(words: Catalogue, pair: LinePair, shown: Code) -> Pair:
    hand = _line(shown.hand, pair.hand_line)
    generated = _line(shown.generated, pair.generated_line)
    return Pair(
        part=pair.part,
        label=words(f"part_{pair.part}"),
        hand_number=hand.number if hand else pair.hand_line,
        hand=pair.hand,
        hand_link=hand.anchor if hand else "",
        generated_number=generated.number if generated else pair.generated_line,
        generated=pair.generated,
        generated_link=generated.anchor if generated else "",
    )


def _line(sources: Sequence[Source], place: int) -> SourceLine | None:
    """Line `place` (1-based within the text) of the first source."""
    if not sources or not 1 <= place <= len(sources[0].lines):
        return None
    return sources[0].lines[place - 1]
