"""Write docs/engine.md, kernels.md, observer.md and sanitizer.md from their templates and benchmarks/results.

    python docs/make_figure_pages.py

A line `{{ name }}` of a template (*.md.in) is replaced by a table that is made here. What stands between two marks of a
README is replaced by the kernels' headline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from figure_tables import ROOT, made_with, result, table
from kernel_tables import every_case, goals, headline, no_times
from observer_tables import dearest_round_trips, observing_cost, offline_code, offline_differences, real_models

DOCS = ROOT / "docs"

GROUPS = {
    "elementwise": "elementwise operations, casts and libdevice",
    "blocks": "reductions, scans, shapes, products, atomics",
    "kernels": "kernels as people write them",
    "hand-written": "the tests' first kernels",
    "generated": "kernels that Inductor generates",
}
SHOWN_WORST = 8
TOOLS = {"tilesight": "Tilesight", "tilelens": "TileLens' sanitizer", "interpreter": "`TRITON_INTERPRET=1`"}
FOUND = {
    "tilesight": ("kind", "kind_and_line"),
    "tilelens": ("reported", "on_line"),
    "interpreter": ("raised", ""),
}
"""Tool → its counts of faults found, and of those found on a marked line."""
RIGHT_SUITES = {
    "tutorials": "Triton's tutorials",
    "inductor": "Inductor's kernels",
    "liger": "Liger-Kernel",
    "lessons": "the lessons",
}
FIGURE = re.compile(
    r"\b\d[\d.e+-]*|program \d+, lane \d+|^\w+(?= is summed)|(?<=stored to )\w+|(?<=makes in )\w+",
)
"""What differs between findings of one sentence: numbers, lanes and names."""


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


def found_by_tool() -> str:
    record = result("sanitizer_corpus")
    rows = [
        (TOOLS[tool], counts[found], counts.get(line, "tells no line"), counts["twin_quiet"], counts.get("not_run", 0))
        for tool, (found, line) in FOUND.items()
        for counts in [record["totals"][tool]]
    ]
    head = ["tool", "faults found", "on a marked line", "twins quiet", "twins it cannot run"]
    tilesight, tilelens, interpreter = (record["totals"][tool] for tool in TOOLS)
    return (
        f"{tilesight['pairs']} pairs.\n\n{table(head, rows)}\n\n{made_with(record)}, "
        f"TileLens {record['versions']['tilelens']}; `{record['command']}`\n\n"
        f"Beside these: Tilesight says something, under whatever kind, of {tilesight['anything']} of the faulty "
        f"kernels. TileLens stops with an exception on {tilelens['raised']} faulty kernels whose twins it runs. With "
        f"the interpreter the numbers of {interpreter['numbers_wrong']} faulty kernels differ from the reference "
        "that the pair carries."
    )


def found_by_kind() -> str:
    record = result("sanitizer_corpus")
    rows = [
        (
            kind,
            tools["tilesight"]["pairs"],
            *(tools["tilesight"][name] for name in ("kind_and_line", "kind", "anything", "twin_quiet")),
            *(tools["tilelens"][name] for name in ("reported", "on_line", "twin_quiet")),
            *(tools["interpreter"][name] for name in ("raised", "numbers_wrong", "twin_quiet")),
        )
        for kind, tools in record["by_kind"].items()
    ]
    head = [
        "kind",
        "pairs",
        "Tilesight: kind and line",
        "kind",
        "anything",
        "twins quiet",
        "TileLens: reported",
        "on a marked line",
        "twins quiet",
        "interpreter: raised",
        "numbers wrong",
        "twins quiet",
    ]
    return table(head, rows)


def missed() -> str:
    """Which pairs Tilesight has wrong, by name."""
    record = result("sanitizer_corpus")
    rows = [(name, "not found under its kind and line") for name in record["missed"]]
    rows += [(name, "its repaired twin is blamed") for name in record["blamed"]]
    return table(["pair", "what is wrong"], rows) if rows else "None."


def not_run() -> str:
    failures = result("sanitizer_corpus")["failures"]
    rows = [(TOOLS[tool], reason, count) for tool in TOOLS for reason, count in failures[tool].items()]
    return table(["tool", "reason", "twins"], rows) if rows else "None."


def right_kernels() -> str:
    """What is said of kernels that are right, suite by suite."""
    record = result("sanitizer_right_kernels")
    rows = [
        (
            RIGHT_SUITES[suite],
            f"{counts['ended']} of {counts['cases']}",
            counts["launches"],
            *(counts[level] for level in ("errors", "warnings", "notes")),
            f"{counts['checked_s']:.0f}",
        )
        for suite, counts in record["suites"].items()
    ]
    head = ["suite", "cases run to the end", "launches", "errors", "warnings", "notes", "checked in, s"]
    return f"{table(head, rows)}\n\n{made_with(record)}; `{record['command']}`"


def right_findings() -> str:
    """Each error and warning of a suite with its number of places, findings of one sentence taken together."""
    counted = Counter(
        (RIGHT_SUITES[each["suite"]], each["level"], each["kind"], FIGURE.sub("…", each["message"].split(":")[0]))
        for each in result("sanitizer_right_kernels")["findings"]
        if each["level"] != "note"
    )
    return table(["suite", "level", "kind", "what is said", "places"], [(*key, n) for key, n in counted.most_common()])


def checking_speed() -> str:
    record = result("checking_speed")
    rows = [
        (
            case["title"],
            f"{case['untraced_s']['min']:.4f}",
            f"{case['untraced_s']['median']:.4f}",
            f"{case['checked_s']['min']:.4f}",
            f"{case['checked_s']['median']:.4f}",
            f"{case['ratio']:.1f}x",
            f"≤ {case['most_ratio']:g}x" if case["most_ratio"] else f"< {case['most_s']:g} s",
            f"{case['first_check_s']:.1f}",
            f"{case['command_s']:.1f}",
        )
        for case in record["cases"].values()
    ]
    head = [
        "launch",
        "untraced, least, s",
        "median, s",
        "checked, least, s",
        "median, s",
        "ratio of medians",
        "goal",
        "first check, s",
        "whole command, s",
    ]
    loads = [case["load_average"] for case in record["cases"].values()]
    return (
        f"{table(head, rows)}\n\n{made_with(record)}, load average {min(loads):.1f} to {max(loads):.1f}; "
        f"{record['runs']} of each; `{record['command']}`"
    )


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "engine": {
        "speed": speed,
        "numbers": numbers,
        "largest differences": largest_differences,
        "language tests": language_tests,
        "language reasons": language_reasons,
        "libraries": libraries,
        "library reasons": library_reasons,
        "generated": generated,
    },
    "sanitizer": {
        "found by tool": found_by_tool,
        "found by kind": found_by_kind,
        "missed": missed,
        "not run": not_run,
        "right kernels": right_kernels,
        "right findings": right_findings,
        "speed": checking_speed,
    },
    "kernels": {"goals": goals, "every case": every_case, "no times": no_times},
    "observer": {
        "offline code": offline_code,
        "offline differences": offline_differences,
        "real models": real_models,
        "dearest round trips": dearest_round_trips,
        "observing cost": observing_cost,
    },
}


def page(name: str) -> str:
    """A page's text."""
    text = (DOCS / f"{name}.md.in").read_text()
    for table_name, make in PAGES[name].items():
        text = text.replace(f"{{{{ {table_name} }}}}", make())
    return text


READMES = {"README.md": "en", "README.zh-CN.md": "zh"}
MARKS = ("<!-- kernels: made by docs/make_figure_pages.py -->", "<!-- kernels: end -->")


def readme(name: str) -> str:
    """A README's text with the kernels' headline between its marks."""
    begin, end = MARKS
    before, _, rest = (ROOT / name).read_text().partition(begin)
    _, _, behind = rest.partition(end)
    return f"{before}{begin}\n{headline(READMES[name])}\n{end}{behind}"


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / f"{name}.md").write_text(page(name))
        print(f"written to docs/{name}.md")
    for name in READMES:
        (ROOT / name).write_text(readme(name))
        print(f"written to {name}")
