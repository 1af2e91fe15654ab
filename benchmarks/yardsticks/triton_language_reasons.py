"""How Triton's language tests ended, and for those that did not pass, why, in classes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST_TEXT = 200
CLASSES = (
    (r"unexpected keyword argument|has no attribute|cannot import name", "asks for what this Triton release lacks"),
    (r"Unknown key: '(ttgir|llir|ptx|sass|cubin|amdgcn)'", "reads TTGIR or what follows: the engine stops at TTIR"),
    (r"tt\.elementwise_inline_asm", "inline assembly: only a GPU executes it"),
    (r"not compiled with CUDA|No CUDA GPUs|NVIDIA driver|test_zero_strided_tensors", "calls torch.cuda itself"),
    (r"0 active drivers", "a child process that asks Triton for a GPU's driver"),
    (r"not supported in this architecture", "a type that the architecture does not have"),
    (r"to ir type", "a type that the interpreter does not have"),
    (
        r"test_subprocess\.py::test_print",
        "what is no block is printed once a program, where a GPU does so once a thread",
    ),
    (r"not close|Not equal to tolerance|Mismatched elements|AssertionError", "another result than expected"),
)
"""Pattern of a test's name and error → what is wrong, in words; an error that fits none stands for itself."""


@dataclass(frozen=True)
class TestOutcome:
    """How one test ended.

    Args:
        outcome: passed, failed, error (outside the test's body), skipped, xfailed or xpassed
        text: the error's type and message, or the reason for a skip
    """

    __test__ = False

    outcome: str
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome in ("passed", "xpassed")

    def reason(self, test: str) -> str:
        """The class of an error, otherwise the text itself with its numbers blanked."""
        if self.outcome in ("failed", "error"):
            for pattern, words in CLASSES:
                if re.search(pattern, f"{test}: {self.text}"):
                    return words
        first_line = self.text.strip().split("\n", 1)[0]
        return re.sub(r"\d+", "#", _without_folders(first_line))


@dataclass(frozen=True)
class Reason:
    """Tests of one outcome that share a reason, the error or skip text of the first of them included."""

    outcome: str
    text: str
    tests: tuple[str, ...]
    example: str


def read_outcomes(path: Path) -> dict[str, TestOutcome]:
    """Test → outcome from the plugin's file; of several records of a test the last counts.

    Raises: ValueError: when no test was run at all
    """
    outcomes: dict[str, TestOutcome] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        text = str(record.get("error", record.get("reason", "")))
        outcomes[str(record["test"])] = TestOutcome(str(record["outcome"]), text)
    if not outcomes:
        raise ValueError(f"{path}: no test was run; look at pytest's own output")
    return outcomes


def reasons_of(outcomes: Mapping[str, TestOutcome]) -> list[Reason]:
    """Everything that did not pass, by outcome and reason, the most frequent first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for test, outcome in outcomes.items():
        if not outcome.passed:
            groups.setdefault((outcome.outcome, outcome.reason(test)), []).append(test)
    found = [
        Reason(outcome, text, tuple(sorted(tests)), _without_folders(outcomes[min(tests)].text))
        for (outcome, text), tests in groups.items()
    ]
    return sorted(found, key=lambda reason: (reason.outcome, -len(reason.tests), reason.text))


def _without_folders(text: str) -> str:
    """A text without the folders of the machine it was written on."""
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)[:LONGEST_TEXT]
