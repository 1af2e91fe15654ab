"""The error tree: one root, one class for each way to go wrong.

```
TilesightError
├── InputError            what the user gave cannot be used (exit code 2)
├── ParseError            text that is not the TTIR we know
├── VerifyError           a module that breaks the IR's own rules
├── UnsupportedError      a known operation, type or call that has no rule here
├── ExecutionError        a kernel that failed while running
│   └── EndlessLoopError  a loop that was given up
└── CaptureError          torch or Triton did not hand over what was asked for
```

A message says where, what was got, what was expected and what to do next.
"""

from __future__ import annotations


class TilesightError(Exception):
    """Root of every error that Tilesight raises on purpose.

    Args:
        got: what was found
        where: file:line, a command-line argument or an operation; may be empty
        expected: what would have been accepted; may be empty
        next_step: what the reader can do now; may be empty
    """

    exit_code = 2

    def __init__(self, got: str, *, where: str = "", expected: str = "", next_step: str = "") -> None:
        self.got = got
        self.where = where
        self.expected = expected
        self.next_step = next_step
        super().__init__(self._one_line())

    def _one_line(self) -> str:
        text = f"{self.where}: {self.got}" if self.where else self.got
        if self.expected:
            text += f"; expected {self.expected}"
        if self.next_step:
            text += f"; {self.next_step}"
        return text


class InputError(TilesightError):
    """A file, name, input, shape or target that cannot be used."""


class ParseError(TilesightError):
    """Text that is not the TTIR we know; `where` is file:line:column."""


class VerifyError(TilesightError):
    """A module that breaks the IR's own rules (types, dominance, arity)."""


class UnsupportedError(TilesightError):
    """A known operation, type or call that has no rule here."""


class ExecutionError(TilesightError):
    """A kernel that failed while running, such as a failed device assert."""


class EndlessLoopError(ExecutionError):
    """A loop that has run for more rounds than `loop_limit`."""


class MemoryCapError(ExecutionError):
    """A run that would take more than `memory_cap_bytes`."""


class CaptureError(TilesightError):
    """torch or Triton did not hand over what was asked for."""
