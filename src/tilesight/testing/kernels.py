"""A check of a kernel that raises, with a readable list of what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilesight.checks.kinds import KINDS
from tilesight.checks.wording import counted
from tilesight.errors import InputError

if TYPE_CHECKING:
    from tilesight.capture.case import Case
    from tilesight.engine import ExecutionOptions
    from tilesight.roads.model import Check, CheckedCase, CheckedFinding

SHOWN = 8
"""Findings, and cases, that a failure lists."""
CONTIGUOUS = "contiguous"


def check_kernel(
    subject: Case | Callable[[], Any],
    *,
    shapes: str | Sequence[str] | None = None,
    dtypes: str | Sequence[str] | None = None,
    allow: Collection[str] = (),
    scale_to: int | None = None,
    target: str = "h200",
    seed: int = 0,
    options: ExecutionOptions | None = None,
) -> Check:
    """The Check of a case, or of a function without arguments that launches; nothing is wrong with it.

    Args:
        subject: a tilesight.Case, or the function
        shapes, dtypes: in place of the planned ones, as `tilesight check --shapes` and `--dtypes`
        allow: kinds of findings that are no failure, such as "precision"
        scale_to, target, seed: as the options of `tilesight check`
        options: the engine's, with its loop_limit and memory_cap_bytes
    Raises:  AssertionError: with what is wrong, where, and how to repair it
             InputError: for an unknown kind, or texts that can't be read
    """
    __tracebackhide__ = True
    unknown = sorted(set(allow) - set(KINDS))
    if unknown:
        raise InputError(f"allow={unknown}", expected=f"some of {', '.join(KINDS)}")
    checks = import_module("tilesight.roads.check")
    found: Check = checks.check(
        subject, shapes=shapes, dtypes=dtypes, target=target, seed=seed, options=options, scale_to=scale_to
    )
    text = failure_text(found, allow)
    if text:
        raise AssertionError(text)
    return found


def failure_text(check: Check, allow: Collection[str] = ()) -> str:
    """What is wrong, as paragraphs; empty when nothing is, but for kinds that are allowed."""
    findings = [each for each in check.findings if each.level != "note" and each.kind not in allow]
    cases = [case for case in check.cases if case.ok is False and not _is_allowed(case, allow)]
    if not findings and not cases:
        return ""
    head = f"{check.subject}: {counted(len(findings), 'finding')}"
    if check.cases:
        head += f", {len(cases)} of {counted(len(check.cases), 'case')} wrong"
    smallest = [f"smallest failing case: {check.smallest_failing}"] if check.smallest_failing else []
    paragraphs = ["\n".join([head, *smallest]), *_shown([_finding(each) for each in findings])]
    if cases:
        paragraphs.append("\n".join(_shown([_case(case) for case in cases])))
    return "\n\n".join(paragraphs)


def _is_allowed(case: CheckedCase, allow: Collection[str]) -> bool:
    return "stride" in allow and case.strides != CONTIGUOUS


def _shown(items: list[str]) -> list[str]:
    more = [f"… {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return [*items[:SHOWN], *more]


def _finding(finding: CheckedFinding) -> str:
    lines = [f"{finding.kind}  {finding.file}:{finding.line}", finding.source, finding.message]
    lines += [f"repair: {finding.hint}", f"smallest case: {finding.case}" if finding.case else ""]
    return "\n    ".join(line for line in lines if line)


def _case(case: CheckedCase) -> str:
    name = case.inputs if case.strides in ("", CONTIGUOUS) else f"{case.inputs} {case.strides}"
    what = case.note or f"off by {case.error:.1e}, tolerance {case.tolerance:.0e}"
    return f"{name}: {what}" if name else what
