"""Write docs/engine.md from docs/engine.md.in and the figures in benchmarks/results.

    python docs/make_engine_page.py

The template's lines `{{ name }}` are replaced by the tables made here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEMPLATE = ROOT / "docs" / "engine.md.in"
PAGE = ROOT / "docs" / "engine.md"

GROUPS = {
    "elementwise": "elementwise operations, casts and libdevice",
    "blocks": "reductions, scans, shapes, products, atomics",
    "kernels": "kernels as people write them",
    "hand-written": "the tests' first kernels",
    "generated": "kernels that Inductor generates",
}
SHOWN_WORST = 8


def result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def made_with(record: dict[str, Any]) -> str:
    """`2026-12-02, torch 2.13.0, Triton 3.7.1, 2 cores`: where a table's figures come from."""
    versions = record["versions"]
    machine = record.get("gpu") or f"{record['cores']} cores"
    return f"{record['date'][:10]}, torch {versions['torch']}, Triton {versions['triton']}, {machine}"


def speed() -> str:
    record = result("engine_vs_interpreter")
    rows = [
        (
            name,
            f"{case['interpreter_s']['median']:.2f}",
            f"{case['engine_first_s']['median']:.2f}",
            f"{case['engine_s']['median']:.3f}",
            f"{case['ratio']:.0f}x",
            f"{case['ratio_with_compilation']:.0f}x",
            f"{max(sample['working_bytes'] for sample in case['samples']['engine']) / 1e6:.0f}",
        )
        for name, case in record["cases"].items()
    ]
    head = [
        "launch",
        "interpreter, s",
        "engine, first, s",
        "engine, s",
        "ratio",
        "ratio with compilation",
        "memory, MB",
    ]
    return f"{table(head, rows)}\n\n{made_with(record)}; `{record['command']}`"


def numbers() -> str:
    record = result("engine_vs_gpu")
    rows: list[Sequence[object]] = []
    for group, title in GROUPS.items():
        worst = record["worst_ulps"].get(group, {})
        if worst:
            within = sum(ulps is not None and ulps <= 2 for ulps in worst.values())
            rows.append((title, len(worst), sum(ulps == 0 for ulps in worst.values()), within))
    head = ["compared", "how many", "equal to the last bit", "within 2 units in the last place"]
    return f"{table(head, rows)}\n\n{made_with(record)}; `{record['command']}`"


def largest_differences() -> str:
    worst = result("engine_vs_gpu")["worst_ulps"]["elementwise"]
    ordered = sorted(worst.items(), key=lambda item: (item[1] is not None, -(item[1] or 0)))
    rows = [(name, "not finite on one side" if ulps is None else f"{ulps:.0f}") for name, ulps in ordered]
    return table(["operation", "units in the last place"], rows[:SHOWN_WORST])


def language_tests() -> str:
    record = result("triton_language")
    totals = record["totals"]
    rows = [(side, *(totals[side].get(word, 0) for word in ("passed", "failed", "skipped"))) for side in totals]
    return f"{table(['side', 'passed', 'failed', 'skipped'], rows)}\n\n{made_with(record)}; `{record['command']}`"


def language_reasons() -> str:
    record = result("triton_language")
    rows = [
        (
            each["outcome"],
            each["reason"].removeprefix("Skipped: "),
            each["tests"],
            f"`{each['example'].rsplit('/', 1)[-1]}`",
        )
        for each in record["engine_reasons"]
    ]
    return table(["outcome", "reason", "tests", "example"], rows)


def libraries() -> str:
    rows: list[Sequence[object]] = []
    for name, title in {"tutorials": "Triton's tutorials", "liger": "Liger-Kernel", "flag_gems": "FlagGems"}.items():
        record = result(name)
        version = record["versions"].get({"liger": "liger-kernel", "flag_gems": "flag-gems"}.get(name, ""), "")
        rows.append(
            (
                f"{title} {version}".strip(),
                f"{record['operators_right']} of {record['operators_run']}",
                f"{record['cases_right']} of {record['cases_run']}",
                record["cases"] - record["cases_run"],
            )
        )
    return (
        table(["what", "operators right", "cases right", "cases not run"], rows) + f"\n\n{made_with(result('liger'))}"
    )


def library_reasons() -> str:
    rows: list[Sequence[object]] = []
    for name in ("tutorials", "liger", "flag_gems"):
        reasons = sorted(result(name)["reasons"].items(), key=lambda item: -item[1])
        rows += [(name, text.replace("|", "\\|"), count) for text, count in reasons]
    return table(["where", "reason", "cases"], rows)


def generated() -> str:
    record = result("inductor_operators")
    rows = [
        (word, *(verdicts.get(key, 0) for key in ("right", "random", "wrong", "not run", "none")))
        for word, verdicts in record["verdicts"].items()
    ]
    head = ["direction and dtype", "right", "random", "wrong", "not run", "no such direction"]
    totals = (
        f"{record['functions_with_kernels']} functions with Triton kernels, {record['functions_all_right']} of them "
        f"right throughout; {record['kernels_generated']:,} kernels generated, {record['kernels_run']:,} launches."
    )
    return f"{totals}\n\n{table(head, rows)}\n\n{made_with(record)}; `{record['command']}`"


TABLES: dict[str, Callable[[], str]] = {
    "speed": speed,
    "numbers": numbers,
    "largest differences": largest_differences,
    "language tests": language_tests,
    "language reasons": language_reasons,
    "libraries": libraries,
    "library reasons": library_reasons,
    "generated": generated,
}


def page() -> str:
    """The page's text."""
    text = TEMPLATE.read_text()
    for name, make in TABLES.items():
        text = text.replace(f"{{{{ {name} }}}}", make())
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written to {PAGE.relative_to(ROOT)}")
