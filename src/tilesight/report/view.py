"""The door from records to what reports show."""

from __future__ import annotations

from tilesight.bench.model import BenchDiff, BenchRun
from tilesight.report.catalogue import Catalogue, Lang
from tilesight.report.serialize import Record
from tilesight.report.view_bench import bench_diff_view, bench_view
from tilesight.report.view_check import check_view
from tilesight.report.view_comparison import comparison_view, script_view
from tilesight.report.view_diff import diff_view
from tilesight.report.view_model import ReportView
from tilesight.report.view_observation import observation_view
from tilesight.report.view_observations import observations_view
from tilesight.report.view_trace import trace_view
from tilesight.roads.diff_model import ObservationDiff
from tilesight.roads.model import Check, Comparison, Observation, Observations, ScriptRun, Trace


def view(record: Record, lang: Lang = "en") -> ReportView:
    """Everything a report of the record shows, as finished texts and laid-out pictures.

    Bytes read "1.2 MB" (powers of 1000), figures that were not measured "not measured yet". Rendering
    is left to `report.terminal` and `report.html`.

    Args:    lang: `en` or `zh`, the language of the report's own words
    """
    words = Catalogue(lang)
    match record:
        case Observation():
            return observation_view(words, record)
        case Observations():
            return observations_view(words, record)
        case Trace():
            return trace_view(words, record)
        case Comparison():
            return comparison_view(words, record)
        case ScriptRun():
            return script_view(words, record)
        case Check():
            return check_view(words, record)
        case ObservationDiff():
            return diff_view(words, record)
        case BenchRun():
            return bench_view(words, record)
        case BenchDiff():
            return bench_diff_view(words, record)
