"""Dynamo's guards, those that failed when it compiled again, and its explanations: what its structured trace tells.

The events are those of TORCH_TRACE logs: `dynamo_cpp_guards_str` and `recompile_reasons`. Seen on torch 2.13.0 and
2.14.1.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest.mock import patch

_ADDRESS = re.compile(r"\b\d{12,}\b")
_EXPLANATION = re.compile(r"^\s*Explanation: (.+)$", re.MULTILINE)


@dataclass
class HeardGuards:
    """What was told while functions were compiled: their guards, and the guards whose failure made it necessary."""

    guards: list[str] = field(default_factory=list[str])
    recompiles: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def hear_guards(heard: HeardGuards) -> Generator[None]:
    """While it lasts, each compilation's guards are noted, and why it came about."""
    logging: Any = import_module("torch._logging")
    trace = logging.trace_structured

    def trace_structured(name: str, *args: Any, **kwargs: Any) -> Any:
        payload = kwargs.get("payload_fn")
        if name == "dynamo_cpp_guards_str" and payload is not None:
            heard.guards += guard_leaves(str(payload()))
        elif name == "artifact" and payload is not None and _artifact(args, kwargs) == "recompile_reasons":
            heard.recompiles += recompile_reasons(payload())
        return trace(name, *args, **kwargs)

    with patch.object(logging, "trace_structured", trace_structured):
        yield


def _artifact(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    about = kwargs.get("metadata_fn") or (args[0] if args else None)
    return str(about().get("name", "")) if about is not None else ""


DYNAMOS_WORDS = {
    "generic_jump": "the code branches on a value that is known only when it runs, such as a tensor's",
    "step_unsupported": "a step of the code that Dynamo does not follow",
    "store_attr": "an attribute is set in a way that Dynamo does not follow",
    "comprehension_graph_break": "a comprehension that Dynamo does not follow",
}
"""Reasons for a graph break that Dynamo gives in one word."""


def with_explanation(reason: str, text: str) -> str:
    """A graph break's reason with Dynamo's explanation behind it, where the text has one."""
    match = _EXPLANATION.search(text)
    return f"{reason}: {match.group(1).strip()}" if match else reason


def break_reason(text: str) -> str:
    """The first line of what Dynamo says of a graph break, with its explanation; its own short words in a sentence."""
    first = text.strip().splitlines()[0]
    sentence = DYNAMOS_WORDS.get(first.split()[0])
    return f"{sentence} ({first})" if sentence else with_explanation(first, text)


def guard_leaves(tree: str) -> list[str]:
    """The leaves of the guards' tree, each once: what is compared, without the managers above; addresses blanked."""
    leaves = [re.sub(r"^[|\s]*\+-\s*", "", line) for line in tree.splitlines() if "+-" in line]
    kept = [re.sub(r"\s{2,}", "  ", leaf.strip()) for leaf in leaves if "Manager" not in leaf.split(":", 1)[0]]
    return list(dict.fromkeys(_ADDRESS.sub("…", leaf) for leaf in kept))


def recompile_reasons(told: Any) -> list[str]:
    """The guards that failed, one a text; from a log's JSON too."""
    if isinstance(told, str):
        with contextlib.suppress(json.JSONDecodeError):
            told = json.loads(told)
    texts = told.splitlines() if isinstance(told, str) else list(told)
    return [str(text).strip() for text in texts if str(text).strip()]
