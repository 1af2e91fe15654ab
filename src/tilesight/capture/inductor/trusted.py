"""Whether a kernel's source from someone else's file may be loaded.

Reading a generated wrapper never runs it. A kernel's grid and configs, though, come from Inductor's own decorator, so
its module is loaded; that is done only where nothing but imports of torch and Triton, constants and decorated functions
stand in it, so that loading it can define a kernel and do nothing else.
"""

from __future__ import annotations

import ast

_LIBRARIES = ("torch", "triton", "math", "__future__", "cmath")
_DECORATORS = ("triton.jit", "triton_heuristics.", "triton.heuristics", "triton.autotune")
_CALLS = (
    "DeviceProperties",
    "AttrsDescriptor",
    "AttrsDescriptor.from_dict",
    "instance_descriptor",
    "set",
    "tl.constexpr",
    "triton.language.constexpr",
    "float",
)
_SETUP = ("triton_helpers.set_driver_to_gpu()",)


def reason_not_to_load(source: str) -> str:
    """What in the source is more than a kernel; empty where loading it defines a kernel and does nothing else."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"its source is no Python ({error})"
    for statement in tree.body:
        if not _only_defines(statement):
            return f"line {statement.lineno} of its source is more than a kernel: {_first_line(statement)}"
    return ""


def _only_defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(alias.name.split(".")[0] in _LIBRARIES for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.split(".")[0] in _LIBRARIES
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return ast.unparse(call) in _SETUP
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return _is_plain(value)
        case ast.FunctionDef(decorator_list=decorators, args=arguments):
            defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
            return bool(decorators) and all(map(_is_known_decorator, decorators)) and all(map(_is_plain, defaults))
        case _:
            return False


def _is_known_decorator(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not ast.unparse(function).startswith(_DECORATORS):
        return False
    if not isinstance(decorator, ast.Call):
        return True
    return all(map(_is_plain, decorator.args)) and all(_is_plain(keyword.value) for keyword in decorator.keywords)


def _is_plain(expression: ast.expr) -> bool:
    """A value made of constants, names and the few classes that Inductor's metadata holds."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in _CALLS:
            return False
        if isinstance(node, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.comprehension | ast.Attribute) and "__" in ast.unparse(node):
            return False
    return True


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0][:80]
