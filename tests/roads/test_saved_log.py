"""`tilesight observe LOG`: a TORCH_TRACE log that a real run of torch.compile wrote."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch.torch_version import TorchVersion

from tests.contracts.test_schemas import validate
from tests.roads.left_behind import LeftBehind
from tilesight.capture.inductor.trace_log import read_log
from tilesight.capture.inductor.trace_records import read_records
from tilesight.errors import InputError
from tilesight.roads.model import Observation, Observations
from tilesight.roads.saved import observe_saved
from tilesight.roads.saved_log import observe_logs


@pytest.fixture(scope="module")
def seen(left_behind: LeftBehind) -> Observations:
    found = observe_saved(left_behind.log.parent)
    assert isinstance(found, Observations)
    return found


def region(seen: Observations, name: str, number: int = 0) -> Observation:
    return [each for each in seen.regions if each.subject.startswith(f"{name} ")][number]


def line_of(script: Path, text: str) -> str:
    """file:line of the script's first line that holds the text."""
    lines = script.read_text().splitlines()
    return f"{script}:{next(number for number, line in enumerate(lines, start=1) if text in line)}"


def test_every_compilation_is_a_region_in_order(seen: Observations) -> None:
    """block, what follows its break, both again for another shape, the trained function, again after a reset."""
    numbers = [each.subject.rsplit("[", 1)[1].rstrip("]") for each in seen.regions]
    assert numbers == ["0/0", "1/0", "0/1", "1/1", "2/0", "0/0"]
    assert seen.notes == ()


def test_a_graph_break_has_the_users_line_and_the_reason(seen: Observations, left_behind: LeftBehind) -> None:
    (found,) = region(seen, "block").breaks
    assert found.source == line_of(left_behind.script, "graph_break()")
    assert found.reason == "Call to `torch._dynamo.graph_break()`: User-inserted graph break. Message: None"
    assert region(seen, "scaled").breaks == ()


def test_a_recompile_has_the_guard_that_failed(seen: Observations) -> None:
    assert region(seen, "block").recompiles == ()
    assert region(seen, "block", 1).recompiles == ("0/0: tensor 'x' size mismatch at index 0. expected 8, actual 9",)


def test_guards_are_listed(seen: Observations) -> None:
    guards = region(seen, "block").guards
    assert any(guard.startswith("TENSOR_MATCH: check_tensor(L['x']") and "size=[8, 16]" in guard for guard in guards)
    assert not any("GuardManager" in guard for guard in guards)


def test_graphs_and_code_are_those_of_the_region(seen: Observations, left_behind: LeftBehind) -> None:
    block = region(seen, "block")
    assert (block.graph.fx[0].target, block.graph.fx[0].code) == ("matmult", "h = torch.relu(x @ w)")
    assert [op.target for op in block.graph.ops] == ["aten.mm.default", "aten.relu.default"]
    assert [kernel.kind for kernel in block.kernels] == ["extern", "cpp"]
    assert block.graph.ops[0].source == line_of(left_behind.script, "x @ w")
    assert block.output_code[0].strip() == left_behind.output_code("0_inference_0").read_text().strip()


def test_forward_and_backward_are_one_region(seen: Observations) -> None:
    kinds = [kernel.graph for kernel in region(seen, "scaled").kernels]
    assert kinds == ["forward", "backward"]


def test_a_cached_graph_is_shown_in_full(seen: Observations) -> None:
    """After Dynamo's reset the same function comes from the caches: same kernels, and the log says hit."""
    cold, warm = region(seen, "scaled"), region(seen, "scaled", 1)
    assert "fx_graph_cache miss" in (cold.compile.cache or "") and "hit" not in (cold.compile.cache or "")
    assert "fx_graph_cache hit" in (warm.compile.cache or "") and "aotautograd_cache hit" in (warm.compile.cache or "")
    assert [kernel.source for kernel in warm.kernels] == [kernel.source for kernel in cold.kernels]
    assert warm.compile.cold_s is not None and cold.compile.cold_s is not None
    assert warm.compile.cold_s < cold.compile.cold_s


def test_the_json_fits_the_schema_and_hides_no_break(seen: Observations) -> None:
    data = seen.to_dict()
    validate("observe", data)
    assert len(data["regions"]) == 6 and len(data["breaks"]) == 2
    told = region(seen, "block").torch or None
    assert data["torch"] == told
    version = torch.__version__.partition("+")[0]
    assert told == (version if TorchVersion(version) >= "2.13" else None)  # 2.11's logs do not tell


def test_the_terminal_and_the_page_show_breaks_and_recompiles(seen: Observations) -> None:
    for text in (str(seen), seen._repr_html_()):
        assert "size mismatch at index 0. expected 8, actual 9" in " ".join(text.replace("&#39;", "'").split())
        assert "User-inserted graph break" in " ".join(text.split())


def ends_between_records(text: str, place: int) -> bool:
    rest = text[place:].removeprefix("\n")
    is_line_start = text[place - 1] == "\n" or text[place] == "\n"
    return not rest or (is_line_start and rest[0] not in "\t\n")


def test_a_log_cut_off_anywhere_is_shown_up_to_there_and_said(left_behind: LeftBehind) -> None:
    text = left_behind.log.read_text()
    whole = read_log(text)
    ends = [number + 1 for number, character in enumerate(text) if character == "\n"]
    draw = random.Random(0)
    for place in (*draw.sample(range(1, len(text)), 30), *draw.sample(ends, 30)):
        cut = read_log(text[:place])
        names = [each.compile_id for each in cut.regions]
        assert names == [each.compile_id for each in whole.regions][: len(names)]
        assert len(cut.damage) == (0 if ends_between_records(text, place) else 1)


def test_code_that_was_cut_off_is_said_and_the_rest_stands(left_behind: LeftBehind, tmp_path: Path) -> None:
    text = left_behind.log.read_text()
    log = tmp_path / "cut.log"
    log.write_text(text[: text.rindex("\tclass Runner")])
    found = observe_logs(str(log), [log])
    last = found.regions[-1]
    assert len(found.notes) == 1 and "cut off" in found.notes[0]
    assert any(note.startswith("generated code not shown") for note in last.notes)
    assert any("log ends before this compilation" in note for note in last.notes)
    assert found.regions[0].kernels
    validate("observe", found.to_dict())


def test_a_damaged_payload_is_told_by_its_digest(left_behind: LeftBehind) -> None:
    text = left_behind.log.read_text()
    assert read_records(text).damage == []
    changed = read_records(text.replace("clamp_min", "clamp_max", 1))
    assert len(changed.damage) == 1 and "inductor_output_code" in changed.damage[0]


def test_several_processes_logs_are_told_apart(left_behind: LeftBehind, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"dedicated_log_torch_trace_{name}.log").write_text(left_behind.log.read_text())
    found = observe_saved(tmp_path)
    assert isinstance(found, Observations) and len(found.regions) == 12
    assert found.regions[0].subject.startswith("dedicated_log_torch_trace_a.log: block")


def test_a_log_without_a_compilation_is_refused(tmp_path: Path, left_behind: LeftBehind) -> None:
    log = tmp_path / "short.log"
    log.write_text("".join(left_behind.log.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(InputError, match="no compiled region in the log"):
        observe_saved(log)


def test_another_text_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("epoch 1 loss 0.3\n")
    with pytest.raises(InputError, match="nothing that torch\\.compile leaves behind"):
        observe_saved(log)


def test_a_compilation_that_failed_says_where_and_why() -> None:
    """The record is as torch 2.13.0 writes it for a function whose shapes do not fit, cut to what is read."""
    head = "V1203 00:21:56.075000 1 torch/_dynamo/utils.py:1] "
    started = '{"dynamo_start": {"stack": [{"line": 16, "name": "bad", "filename": "f.py"}]}, "frame_id": 0, '
    ended = (
        '{"compilation_metrics": {"fail_type": "TorchRuntimeError", "fail_user_frame_filename": "f.py", '
        '"fail_user_frame_lineno": 17, "fail_reason": "RuntimeError\\n  Explanation: sizes differ"}, "frame_id": 0, '
    )
    place = '"frame_compile_id": 0, "attempt": 0}\n'
    (found,) = read_log(f"{head}{started}{place}{head}{ended}{place}").regions
    assert found.failure == "TorchRuntimeError at f.py:17: RuntimeError: sizes differ"
    assert (found.name, found.source, found.is_closed) == ("bad", "f.py:16", True)
