"""Several compiled graphs, from a log or a cache folder: what a report says of them together and one by one."""

from __future__ import annotations

from dataclasses import replace

from tilesight.report.catalogue import Catalogue
from tilesight.report.view_model import Card, ReportView
from tilesight.report.view_observation import observation_view
from tilesight.roads.model import Observations


def observations_view(words: Catalogue, seen: Observations) -> ReportView:
    """The report of a log or a folder: a summary, then each graph in its own section."""
    children = [
        replace(
            observation_view(words, region, f"r{number}"), title=words("region", number=number, name=region.subject)
        )
        for number, region in enumerate(seen.regions, start=1)
    ]
    return ReportView(
        kind="observe",
        lang=words.lang,
        title=seen.subject,
        subtitle=words("observations"),
        facts=(),
        cards=_cards(words, seen),
        notes=seen.notes,
        children=tuple(children),
    )


def _cards(words: Catalogue, seen: Observations) -> tuple[Card, ...]:
    kernels = [kernel for region in seen.regions for kernel in region.kernels]
    breaks = [each for region in seen.regions for each in region.breaks]
    recompiles = [each for region in seen.regions for each in region.recompiles]
    return (
        Card("card_regions", words("card_regions"), str(len(seen.regions))),
        Card("card_kernels", words("card_kernels"), str(len(kernels))),
        Card("card_breaks", words("card_breaks"), str(len(breaks)), tone="bad" if breaks else "good"),
        Card("card_recompiles", words("card_recompiles"), str(len(recompiles)), tone="bad" if recompiles else "good"),
    )
