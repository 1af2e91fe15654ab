"""Records as plain dictionaries: the JSON that commands print, whose keys are a contract.

A figure that was not measured is null, never 0. NaN and infinities, which JSON has no words for,
become the texts "nan", "inf" and "-inf".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import cast

from tilesight.bench.model import BenchCase, BenchDiff, BenchRun, Measured
from tilesight.bench.statistics import quantiles
from tilesight.capture.inductor.timeline import Timeline
from tilesight.checks.finding import Finding, page_of
from tilesight.ledger.model import AccessRow
from tilesight.roads.diff_model import Figure, ObservationDiff
from tilesight.roads.model import (
    Check,
    Comparison,
    Exported,
    Graph,
    Kernel,
    Observation,
    Observations,
    Provider,
    ScriptRun,
    Trace,
)

Record = Observation | Observations | Trace | Comparison | ScriptRun | Check | ObservationDiff | BenchRun | BenchDiff
Json = dict[str, object]


def to_dict(record: Record) -> Json:
    """The record under the keys of the command-line contract; safe for `json.dumps`.

    Args:    record: what `observe`, `trace`, `compare`, `run` or `check` returned
    Returns: a new dict; keys always come in the same order
    """
    match record:
        case Observation():
            return _observation(record)
        case Observations():
            return _observations(record)
        case Trace():
            return _trace(record)
        case Comparison():
            return _comparison(record)
        case ScriptRun():
            return _script_run(record)
        case Check():
            return _check(record)
        case ObservationDiff():
            return _diff(record)
        case BenchRun():
            return _bench(record)
        case BenchDiff():
            return _bench_diff(record)


def _bench(run: BenchRun) -> Json:
    return {
        "number": run.number,
        "environment": plain(run.environment),
        "cases": [_bench_case(case) for case in run.cases],
        "notes": list(run.notes),
    }


def _bench_case(case: BenchCase) -> Json:
    return {
        "operator": case.operator,
        "shape": list(case.shape),
        "dtype": case.dtype,
        "ideal_bytes": case.ideal_bytes,
        "flops": case.flops,
        "providers": {each.provider: _measured(case, each) for each in case.measured},
    }


def _measured(case: BenchCase, measured: Measured) -> Json:
    timing = measured.timing
    low, middle, high = (None, None, None) if timing is None else quantiles(timing.device_s)
    return {
        "ok": measured.ok,
        "checks": [plain(check) for check in measured.checks],
        "reason": measured.reason,
        "p10_s": low,
        "p50_s": middle,
        "p90_s": high,
        "gb_per_s": None if timing is None else case.gb_per_s(timing),
        "tflop_per_s": None if timing is None else case.tflop_per_s(timing),
        "host_s": None if timing is None else timing.host_median_s,
        "timing": plain(timing),
    }


def _bench_diff(diff: BenchDiff) -> Json:
    return {
        "before": {"number": diff.before.number, "environment": plain(diff.before.environment)},
        "after": {"number": diff.after.number, "environment": plain(diff.after.environment)},
        "changes": [plain(change) for change in diff.changes],
        "only_before": list(diff.only_before),
        "only_after": list(diff.only_after),
    }


def traces_to_dict(traces: Sequence[Trace]) -> Json:
    """What `trace --json` prints: the first launch's keys, every launch under `launches`.

    `findings` at the top holds the findings of all launches, so that none is missed.
    """
    findings = [_finding(finding) for trace in traces for finding in trace.findings]
    return {**_trace(traces[0]), "findings": findings, "launches": [_trace(trace) for trace in traces]}


def plain(value: object) -> object:
    """The value with only JSON's types in it; what JSON has no type for becomes its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return str(value)


def _observation(seen: Observation) -> Json:
    return {
        "subject": seen.subject,
        "inputs": list(seen.inputs),
        "target": seen.target,
        "torch": seen.torch or None,
        "triton": seen.triton or None,
        "graph": _graph(seen.graph),
        "breaks": plain(seen.breaks),
        "failures": plain(seen.failures),
        "kernels": [_kernel(kernel) for kernel in seen.kernels],
        "ledger": plain(seen.ledger),
        "not_fused": plain(seen.not_fused),
        "compile": plain(seen.compile),
        "output_code": list(seen.output_code),
        "notes": list(seen.notes),
        "recompiles": list(seen.recompiles),
        "guards": list(seen.guards),
        "links": plain(seen.links),
        "exported": [_exported(each) for each in seen.exported],
        "timeline": _timeline(seen.timeline),
    }


def _timeline(timeline: Timeline) -> Json:
    """Seconds by phase, torch's timed blocks, what the caches said."""
    return {
        "phases": plain(timeline.phase_s()),
        "spans": [plain(span) for span in timeline.spans],
        "caches": [plain(answer) for answer in timeline.caches],
    }


def _exported(file: Exported) -> Json:
    """Without the text, which lies in the file."""
    return {"kernel": file.kernel, "file": file.file, "against": file.against, "reason": file.reason}


def _observations(seen: Observations) -> Json:
    """The first graph's keys, every graph under `regions`; all breaks and notes at the top, so that none is missed."""
    regions = [_observation(region) for region in seen.regions]
    breaks = [each for region in seen.regions for each in region.breaks]
    notes = list(dict.fromkeys((*seen.notes, *(note for region in seen.regions for note in region.notes))))
    return {**regions[0], "subject": seen.subject, "breaks": plain(breaks), "notes": notes, "regions": regions}


def _graph(graph: Graph) -> Json:
    return {
        "ops": plain(graph.ops),
        "fx": plain(graph.fx),
        "inputs": plain(graph.inputs),
        "outputs": list(graph.outputs),
    }


def _kernel(kernel: Kernel) -> Json:
    return {field.name: plain(getattr(kernel, field.name)) for field in fields(kernel)}


def _trace(trace: Trace) -> Json:
    rows = trace.traffic.rows
    return {
        "kernel": trace.kernel,
        "file": trace.file,
        "first_line": trace.first_line,
        "grid": list(trace.grid),
        "programs": trace.programs,
        "constexprs": plain(trace.constexprs),
        "options": plain(trace.options),
        "tensors": plain(trace.tensors),
        "loads": [_access(row) for row in rows if row.kind == "load"],
        "stores": [_access(row) for row in rows if row.kind == "store"],
        "atomics": [_access(row) for row in rows if row.kind not in ("load", "store")],
        "bytes": plain(trace.traffic.bytes),
        "findings": [_finding(finding) for finding in trace.findings],
        "tiles": plain(trace.tiles),
        "source": trace.source,
        "parts": plain(trace.parts),
        "executed_on": trace.executed_on,
        "not_executed": trace.not_executed,
    }


def _access(row: AccessRow) -> Json:
    entries = {field.name: plain(getattr(row, field.name)) for field in fields(row) if field.name != "kind"}
    return entries if row.kind in ("load", "store") else {"kind": row.kind, **entries}


def _finding(finding: Finding) -> Json:
    entries = {field.name: plain(getattr(finding, field.name)) for field in fields(finding)}
    return {**entries, "page": page_of(finding.kind)}


def _comparison(comparison: Comparison) -> Json:
    return {
        "case": comparison.case,
        "inputs": list(comparison.inputs),
        "target": comparison.target,
        "ideal_bytes": comparison.ideal_bytes,
        "providers": {provider.name: _provider(provider) for provider in comparison.providers},
        "pairs": plain(comparison.pairs),
        "observation": _observation(comparison.observation),
        "hand": [_trace(trace) for trace in comparison.hand],
    }


def _provider(provider: Provider) -> Json:
    return {field.name: plain(getattr(provider, field.name)) for field in fields(provider) if field.name != "name"}


def _script_run(run: ScriptRun) -> Json:
    return {
        "script": run.script,
        "exit": run.exit,
        "launches": [_trace(trace) for trace in run.launches],
        "regions": [_observation(region) for region in run.regions],
        "notes": list(run.notes),
    }


def _check(check: Check) -> Json:
    return {
        "subject": check.subject,
        "target": check.target,
        "ok": check.ok,
        "smallest_failing": check.smallest_failing,
        "cases": plain(check.cases),
        "findings": [_finding(finding) for finding in check.findings],
        "launches": check.launches,
        "notes": list(check.notes),
    }


def _diff(diff: ObservationDiff) -> Json:
    return {
        "before": diff.before,
        "after": diff.after,
        "same": diff.is_same,
        "settings": _figures(diff.settings),
        "figures": _figures(diff.figures),
        "kernels": [
            {
                "before": kernel.before,
                "after": kernel.after,
                "status": kernel.status,
                "figures": _figures(kernel.figures),
                "source": list(kernel.source),
            }
            for kernel in diff.kernels
        ],
        "lists": {each.key: {"removed": list(each.removed), "added": list(each.added)} for each in diff.lists},
    }


def _figures(figures: Sequence[Figure]) -> Json:
    return {figure.key: {"before": plain(figure.before), "after": plain(figure.after)} for figure in figures}
