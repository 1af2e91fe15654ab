"""Executes TTIR for a whole grid at once on the CPU, with NumPy alone."""

from tilesight.engine.execute import Execution, execute
from tilesight.engine.launch import Argument, ArgumentValue, Launch, Memory
from tilesight.engine.listener import Access, Listener
from tilesight.engine.options import ExecutionOptions

__all__ = [
    "Access",
    "Argument",
    "ArgumentValue",
    "Execution",
    "ExecutionOptions",
    "Launch",
    "Listener",
    "Memory",
    "execute",
]
