"""Where a compilation's time went, as a picture: torch's timed blocks over time, those inside others below them."""

from __future__ import annotations

from tilesight.capture.inductor.timeline import PHASES, Span, Timeline
from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import seconds_text
from tilesight.report.view_model import Fact, TimeBox, TimelinePicture

WIDTH, ROW = 1060.0, 22.0
SMALLEST = 1.5
"""Blocks narrower than this are left out of the picture; the JSON and Perfetto files hold them all."""
LETTER = 6.3
GAP = 12.0
"""Between two stretches of time with nothing in between: time that passed there is cut out."""


def timeline_picture(words: Catalogue, timeline: Timeline) -> TimelinePicture | None:
    """The picture; None where nothing was heard."""
    stretches = _stretches(timeline)
    total_us = sum(end - start for start, end in stretches)
    if not stretches or total_us <= 0:
        return None
    scale = (WIDTH - GAP * (len(stretches) - 1)) / total_us
    boxes = [box for span in timeline.spans if (box := _box(span, stretches, scale)) is not None]
    shown = {box.phase for box in boxes}
    return TimelinePicture(
        width=WIDTH,
        height=ROW * (1 + max(span.depth for span in timeline.spans)),
        boxes=tuple(boxes),
        legend=tuple((phase, words(f"phase_{phase}")) for phase in PHASES if phase in shown),
    )


def _stretches(timeline: Timeline) -> list[tuple[float, float]]:
    """Begin and end of each stretch of time that outermost blocks cover."""
    found: list[tuple[float, float]] = []
    for span in timeline.spans:
        if span.depth == 0:
            end_us = span.start_us + span.duration_us
            if found and span.start_us <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], end_us)
            else:
                found.append((span.start_us, end_us))
    return found


def _box(span: Span, stretches: list[tuple[float, float]], scale: float) -> TimeBox | None:
    x, passed_us = 0.0, 0.0
    for number, (start, end) in enumerate(stretches):
        if start <= span.start_us <= end:
            x = (passed_us + span.start_us - start) * scale + GAP * number
        passed_us += end - start
    width = span.duration_us * scale
    if width < SMALLEST:
        return None
    room = int((width - 6) / LETTER)
    text = span.name if len(span.name) <= room else f"{span.name[: room - 1]}…" if room > 3 else ""
    title = f"{span.name}: {seconds_text(span.duration_us / 1e6)}"
    return TimeBox(span.phase, x, span.depth * ROW, width, ROW - 2, text, title)


def timeline_facts(words: Catalogue, timeline: Timeline) -> tuple[Fact, ...]:
    """Seconds of each phase, and what each cache said."""
    seconds = timeline.phase_s()
    facts = [Fact(words(f"phase_{phase}"), seconds_text(seconds[phase])) for phase in PHASES if phase in seconds]
    if "inductor" in seconds and "kernels" not in seconds:
        facts.append(Fact(words("phase_kernels"), words("kernels_not_compiled")))
    for answer in dict.fromkeys((each.cache, each.state, each.saved_ms, each.reason) for each in timeline.caches):
        cache, state, saved_ms, reason = answer
        count = sum((each.cache, each.state) == (cache, state) for each in timeline.caches)
        more = [f"×{count}"] if count > 1 else []
        more += [words("cache_saved", time=seconds_text(saved_ms / 1e3))] if saved_ms else []
        facts.append(Fact(cache, ", ".join([state, *more, *([reason] if reason else [])])))
    return tuple(dict.fromkeys(facts))
