"""The options that a launch's author chose, from what Triton kept of the launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kernels import refused
from tests.roads.unlaunchable_launches import LimitObserver
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.lowering import chosen_options
from tilesight.targets import target


def options_of(session: EngineSession, **options: Any) -> dict[str, Any]:
    observer = LimitObserver(session, "h200")
    session.observers.append(observer)
    with session:
        refused.launch_increment(**options)
    return chosen_options(session.compiled_from(observer.launches[0])[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_warps": 8, "num_stages": 5},
        {"maxnreg": 64},
        {"num_ctas": 2, "enable_fp_fusion": False},
        {"default_dot_input_precision": "ieee"},
    ],
    ids=str,
)
@pytest.mark.parametrize("arch", [80, 90, 100])
def test_what_was_chosen_and_no_more(arch: int, options: dict[str, Any]) -> None:
    if arch < 90 and "num_ctas" in options:
        options = {"enable_fp_fusion": False}
    assert options_of(EngineSession(arch), **options) == options


def test_what_is_usual_is_not_chosen() -> None:
    assert options_of(EngineSession(90), num_warps=4, num_stages=3) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU that is here is not lent")
def test_a_lent_device_has_the_same_options() -> None:
    lent = lend_missing_gpu(target("h200"))
    assert lent is not None
    session = EngineSession(90, lent=lent)
    with lent:
        assert options_of(session, num_warps=2, device="cuda") == {"num_warps": 2}


@pytest.fixture
def metadata() -> dict[str, Any]:
    observer = LimitObserver(session := EngineSession(90), "h200")
    session.observers.append(observer)
    with session:
        refused.launch_increment()
    return dict(session.compiled_from(observer.launches[0])[1]._asdict())


def test_libdevice_of_another_install_is_not_chosen(metadata: dict[str, Any], tmp_path: Path) -> None:
    """Triton's cache is shared by a user's installs: an entry may name another one's files, there or gone."""
    ((name, path),) = dict(metadata["extern_libs"]).items()
    copied = tmp_path / "libdevice.10.bc"
    copied.write_bytes(Path(path).read_bytes())
    gone = path.replace("site-packages", "packages-that-are-gone")
    for other in (str(copied), gone):
        assert chosen_options(metadata | {"extern_libs": ((name, other),)}) == {}


def test_a_library_of_ones_own_is_chosen(metadata: dict[str, Any], tmp_path: Path) -> None:
    own = tmp_path / "libdevice.10.bc"
    own.write_bytes(b"BC of one's own")
    usual = tuple(dict(metadata["extern_libs"]).items())
    assert chosen_options(metadata | {"extern_libs": (("libdevice", str(own)),)}) == {
        "extern_libs": {"libdevice": str(own)}
    }
    assert chosen_options(metadata | {"extern_libs": (*usual, ("mine", str(own)))}) == {
        "extern_libs": {"mine": str(own)}
    }
