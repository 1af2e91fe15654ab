"""Find what `FILE.py:NAME` or `package.module:NAME` names: load it, look up the name, prepare it for capture."""

from __future__ import annotations

import copy
import difflib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tilesight.capture.inputs import fake_tensor, parse_inputs, spec_of
from tilesight.errors import InputError, TilesightError

_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d][\w.]*)")
EXPECTED = "an existing Python file, as FILE.py:NAME, or a module, as package.module:NAME"


@dataclass(frozen=True)
class Spec:
    """A `FILE.py:NAME` or `package.module:NAME` taken apart.

    Args:
        path: the file, also that of a module
        name: empty where none was given
        module: the module's dotted name; empty for a file
    """

    path: Path
    name: str
    module: str = ""

    def __str__(self) -> str:
        where = self.module or str(self.path)
        return f"{where}:{self.name}" if self.name else where


def parse_spec(text: str) -> Spec:
    """The file and the name in `FILE.py:NAME`, or the module and the name in `package.module:NAME`.

    Raises: InputError: when the file or module does not exist or is no Python
    """
    dotted = _MODULE.fullmatch(text)
    if dotted is not None and ".py:" not in text:
        return Spec(_find_module(dotted["module"], text), dotted["name"], dotted["module"])
    file, _, name = text.partition(".py:") if ".py:" in text else (text, "", "")
    path = Path(f"{file}.py" if name or text.endswith(".py:") else file)
    if not path.is_file():
        raise InputError("no such file", where=str(path), expected=EXPECTED)
    if path.suffix != ".py":
        raise InputError("not a Python file", where=str(path), expected="a .py file, as FILE.py:NAME")
    return Spec(path, name)


def _find_module(name: str, text: str) -> Path:
    """The module's file, looked for here first, as `python -m` does; packages around it are imported."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = util.find_spec(name)
    except ModuleNotFoundError as error:
        if not _is_part(error.name, name):
            raise _not_loaded(error, name, Path(text)) from error
        found = None
    except (Exception, SystemExit) as error:
        raise _not_loaded(error, name, Path(text)) from error
    if found is None:
        missing = next(part for part in _prefixes(name) if part == name or not _exists(part))
        raise InputError(
            f"no module named {missing!r}", where=text, expected=EXPECTED, next_step=f"looked in {folder} too"
        )
    if found.origin is None:
        raise InputError(f"{name} is a folder without code", where=text, expected=EXPECTED)
    return Path(found.origin)


def _prefixes(name: str) -> list[str]:
    """`a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _exists(name: str) -> bool:
    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _is_part(missing: str | None, name: str) -> bool:
    """What is missing is the module asked for or a package around it, no dependency."""
    return missing in _prefixes(name)


def load(spec: Spec) -> ModuleType:
    """The file or the module that a spec names.

    Raises: InputError: when it raises while it is loaded
    """
    if not spec.module:
        return load_file(spec.path)
    try:
        return import_module(spec.module)
    except TilesightError:
        raise
    except (Exception, SystemExit) as error:
        raise _not_loaded(error, spec.module, spec.path) from error


def _not_loaded(error: BaseException, module: str, path: Path) -> InputError:
    """What a module raised while it was imported, at the line of its own, or of what it imports, that raised."""
    return InputError(
        describe(error), where=_line_of_import(error) or line_of(error, path), next_step=next_step_after(error, module)
    )


def _line_of_import(error: BaseException) -> str:
    """file:line of the deepest frame that is neither the import system's nor Tilesight's."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen", str(Path(__file__).parents[1]))) and "importlib" not in file:
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return "" if isinstance(error, SyntaxError) else found


def next_step_after(error: BaseException, what: str) -> str:
    """What the reader can do about code that does not load."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install {error.name.split('.')[0]} beside tilesight, or run tilesight where it is installed"
    return f"mend {what}"


def load_file(path: Path) -> ModuleType:
    """The file as a module, with its own folder first on the import path, as `python FILE` does.

    Raises: InputError: when the file raises while it is loaded
    """
    module_spec = util.spec_from_file_location(f"tilesight_user_{path.stem}", path)
    if module_spec is None or module_spec.loader is None:
        raise InputError("cannot be imported", where=str(path), expected="a Python file")
    module = util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        module_spec.loader.exec_module(module)
    except TilesightError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            describe(error), where=line_of(error, path), next_step=next_step_after(error, "the file")
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def describe(error: BaseException) -> str:
    """An exception in one line: its class and its message's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def line_of(error: BaseException, path: Path) -> str:
    """file:line of the frame in the user's file that raised, or of a syntax error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    trace = error.__traceback__
    line = 0
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)


def look_up(module: ModuleType, spec: Spec) -> Any:
    """The object called `spec.name` in the file.

    Raises: InputError: when the file has no such name, with the names that come near
    """
    found: Any = module
    for part in spec.name.split("."):
        if not hasattr(found, part):
            public = _public_names(module)
            near = ", ".join(difflib.get_close_matches(spec.name, public, n=3) or public[:8])
            if not spec.name:
                names = f", one of {near}" if near else "; the file has no public name"
                raise InputError("no name after the file", where=str(spec.path), expected=f"FILE.py:NAME{names}")
            raise InputError(
                f"no {spec.name!r} in it",
                where=str(spec.path),
                expected=f"a name such as {near}" if near else "a name; the file has none that is public",
            )
        found = getattr(found, part)
    return found


def _public_names(module: ModuleType) -> list[str]:
    """What the file itself gives a name to: no modules that it imports."""
    values = vars(module).items()
    return sorted(name for name, value in values if not name.startswith("_") and not isinstance(value, ModuleType))


def inputs_for(subject: Any, module: ModuleType, text: str | None, spec: Spec) -> list[Any]:
    """The inputs as TensorSpecs: from the text, else from `example_inputs()` of the subject or file.

    Raises: InputError: when there is neither, or what they give can't be read
    """
    if text is not None:
        return list(parse_inputs(text))
    maker = getattr(subject, "example_inputs", None) or getattr(module, "example_inputs", None)
    if maker is None:
        raise InputError(
            "no inputs", where=str(spec), expected='--inputs "f32[100000],…" or a function example_inputs() in the file'
        )
    try:
        made = maker()
    except Exception as error:
        raise InputError(f"example_inputs() raised {describe(error)}", where=str(spec)) from error
    if isinstance(made, str):
        return list(parse_inputs(made))
    values: Sequence[Any] = made if isinstance(made, tuple | list) else (made,)
    return [spec_of(value) for value in values]


def without_weights(subject: Any, spec: Spec) -> Any:
    """The function or module itself; a module class is built on the meta device, so weights take no memory.

    Raises: InputError: when the subject is no function or module, or its class needs arguments
    """
    if isinstance(subject, type) and issubclass(subject, torch.nn.Module):
        return _build_on_meta(subject, spec)
    if not callable(subject):
        raise InputError(
            f"{spec.name} is of type {type(subject).__name__}",
            where=str(spec.path),
            expected="a function or an nn.Module",
        )
    return subject


def _build_on_meta(module_class: type[torch.nn.Module], spec: Spec) -> torch.nn.Module:
    try:
        with torch.device("meta"):
            return module_class()
    except TypeError as error:
        raise InputError(
            f"{spec.name}() failed: {describe(error)}",
            where=str(spec.path),
            expected="a class that can be built without arguments",
            next_step="name an instance of it in the file instead",
        ) from error


def with_fake_weights(module: torch.nn.Module, mode: Any, *, is_trained: bool = False) -> torch.nn.Module:
    """A copy whose parameters and buffers are fake on cuda:0; real weights are not copied.

    In eval mode and without gradients, or, where it is trained, in training mode with the gradients that the
    module's own parameters ask for.
    """
    stand_ins: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        fake = fake_tensor(mode, spec_of(tensor.to("meta")))
        if isinstance(tensor, torch.nn.Parameter):
            fake = torch.nn.Parameter(fake, requires_grad=is_trained and tensor.requires_grad)
        stand_ins[id(tensor)] = fake
    return copy.deepcopy(module, stand_ins).train(is_trained)
