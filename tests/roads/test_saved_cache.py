"""`tilesight observe FOLDER`: an Inductor cache folder that a real run filled."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from tests.contracts.test_schemas import validate
from tests.roads.left_behind import LeftBehind
from tilesight.capture.inductor.cache_folder import read_cache_folder
from tilesight.errors import InputError
from tilesight.roads.model import Observations
from tilesight.roads.saved import observe_saved


@pytest.fixture(scope="module")
def seen(left_behind: LeftBehind) -> Observations:
    found = observe_saved(left_behind.cache)
    assert isinstance(found, Observations)
    return found


def test_every_graph_is_there_once_newest_first(seen: Observations, left_behind: LeftBehind) -> None:
    entries = [path for path in (left_behind.cache / "fxgraph").glob("*/*/*") if path.is_file()]
    assert len(seen.regions) == len(entries) == 6
    ages = [(left_behind.cache / each.subject.split(" (")[0]).stat().st_mtime for each in seen.regions]
    assert ages == sorted(ages, reverse=True)


def test_a_graph_has_code_graph_and_guards(seen: Observations, left_behind: LeftBehind) -> None:
    code = left_behind.output_code("0_inference_0").read_text()
    (first,) = [each for each in seen.regions if each.output_code[0].strip() == code.strip()]
    assert [op.target for op in first.graph.ops] == ["aten.mm.default", "aten.relu.default"]
    assert first.compile.cache == "in the cache"
    assert any("2 <= L[" in guard for each in seen.regions for guard in each.guards)  # the dynamic ones
    validate("observe", seen.to_dict())


def test_a_wrapper_without_an_entry_is_shown_too(left_behind: LeftBehind, tmp_path: Path) -> None:
    copy = tmp_path / "cache"
    shutil.copytree(left_behind.cache, copy)
    shutil.rmtree(copy / "fxgraph")
    found = observe_saved(copy)
    assert isinstance(found, Observations) and len(found.regions) == 6
    assert all("no entry" in (each.compile.cache or "") for each in found.regions)


def test_nothing_is_unpickled_and_damage_is_named(left_behind: LeftBehind, tmp_path: Path) -> None:
    """One entry cut in half, one that would write a file when unpickled, one that holds something else."""
    copy = tmp_path / "cache"
    shutil.copytree(left_behind.cache, copy)
    first, second, third = sorted(path for path in (copy / "fxgraph").glob("*/*/*") if path.is_file())[:3]
    proof = tmp_path / "was_run"
    first.write_bytes(first.read_bytes()[:400])
    second.write_bytes(pickle.dumps(Writes(proof)))
    third.write_bytes(b"text")
    folder = read_cache_folder(copy)
    assert not proof.exists() and len(folder.damage) == 3
    assert len(folder.graphs) == 6  # their wrappers are still there
    found = observe_saved(copy)
    assert isinstance(found, Observations) and set(folder.damage) <= set(found.notes)


class Writes:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_kernels_that_no_graph_holds_are_named(h200_code: Path, tmp_path: Path) -> None:
    text = h200_code.read_text()
    kernel = text[text.index("import triton\nimport triton.language as tl\n\nfrom") :].split("''', device_str")[0]
    folder = tmp_path / "ab"
    folder.mkdir()
    (folder / "cabkernel.py").write_text(kernel)
    with pytest.raises(InputError, match=r"no graph here holds: ab/cabkernel\.py"):
        observe_saved(tmp_path)
    (folder / "wrapper.py").write_text(text)
    found = observe_saved(tmp_path)
    assert isinstance(found, Observations) and found.notes == ()
    assert found.regions[0].kernels[1].grid == (64, 1, 1)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=r"nothing that torch\.compile leaves behind"):
        observe_saved(tmp_path)
