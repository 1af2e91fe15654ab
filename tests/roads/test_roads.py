"""The doors: observe, trace, compare and run, on small files of a user's."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tilesight.errors import InputError, UnsupportedError
from tilesight.roads.compare import compare_spec
from tilesight.roads.model import Comparison, Observation
from tilesight.roads.observe import observe_spec
from tilesight.roads.run import run_script
from tilesight.roads.trace import trace_spec

LESSONS = Path(__file__).parents[2] / "lessons"
N = 100_000


def observe(spec: str, inputs: str | None = None, *, target: str = "h200") -> Observation:
    return observe_spec(spec, inputs=inputs, target=target, mode=None, backward=False, dynamic=False)


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(
        textwrap.dedent("""\
            import torch

            def scale(x, y):
                return torch.relu(x + y)

            def example_inputs():
                return torch.zeros(1000), torch.zeros(1000)

            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = torch.nn.Linear(64, 64)

                def forward(self, x):
                    return self.layer(x).sigmoid()

            net = Net()
            number = 3

            class NeedsWidth(torch.nn.Module):
                def __init__(self, width):
                    super().__init__()
            """)
    )
    return path


def test_observe_counts_the_bytes_of_both_roads(user_file: Path) -> None:
    seen = observe(f"{user_file}:scale", f"f32[{N}],f32[{N}]")
    assert (seen.ledger.eager_bytes, seen.ledger.compiled_bytes, seen.ledger.ideal_bytes) == (20 * N, 12 * N, 12 * N)
    (trip,) = seen.ledger.eager_round_trips
    assert trip.bytes == 8 * N
    (kernel,) = seen.kernels
    assert (kernel.kind, kernel.ops) == ("triton", ("aten.add", "aten.relu"))
    assert (kernel.bytes.requested, kernel.bytes.touched, kernel.bytes.dram) == (12 * N, 12 * N, None)
    assert kernel.source_lines == (f"{user_file}:4",)
    assert [kernel.source.splitlines()[line - 1].split("=")[0].strip() for line in kernel.parts.mask] == ["xmask"]
    assert (kernel.registers, kernel.predicted_us) == (None, None)


def test_a_name_that_both_graphs_give_is_looked_up_in_dynamos(tmp_path: Path) -> None:
    """ATen's first `add` is the layer norm's, of line 4; Dynamo's `add`, which the comment names, is that of line 5."""
    path = tmp_path / "model.py"
    path.write_text(
        textwrap.dedent("""\
            import torch

            def normed_product(x, w, b):
                h = torch.nn.functional.layer_norm(x, (256,), w, b)
                return torch.mm(h, h.t()) + 1
            """)
    )
    seen = observe(f"{path}:normed_product", "f32[256,256],f32[256],f32[256]")
    assert [kernel.source_lines for kernel in seen.kernels] == [(f"{path}:4",), (f"{path}:5",), (f"{path}:5",)]


def test_a_mode_that_torch_does_not_have() -> None:
    with pytest.raises(InputError, match=r"--mode: torch.compile has no mode 'max-autotun'; .* max-autotune"):
        observe_spec("model.py:f", inputs=None, target="h200", mode="max-autotun", backward=False, dynamic=False)


def test_a_function_without_a_result_moves_nothing_when_compiled(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def nothing(x):\n    x + 1\n")
    seen = observe(f"{path}:nothing", "f32[16]")
    assert (seen.ledger.eager_bytes, seen.ledger.compiled_bytes, seen.notes) == (128, 0, ())


def test_a_branch_on_a_tensors_value_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def f(x):\n    if x.sum() > 0:\n        x = x + 1\n    return x.relu()\n")
    (found,) = observe(f"{path}:f", "f32[16]").breaks
    assert found.source == f"{path}:2"
    assert found.reason.startswith("the code branches on a value that is known only when it runs, such as a tensor's (")


def test_where_a_file_raises_is_told_of_a_relative_path_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raises.py").write_text("import torch\nx = 1 / 0\n")
    (tmp_path / "names.py").write_text("_hidden = 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^raises.py:2: ZeroDivisionError: division by zero; mend the file$"):
        observe("raises.py:f", "f32[16]")
    with pytest.raises(InputError, match=r"expected FILE\.py:NAME; the file has no public name$"):
        observe("names.py", "f32[16]")


def test_observe_asks_the_file_for_its_inputs(user_file: Path) -> None:
    assert observe(f"{user_file}:scale").inputs == ("f32[1000]", "f32[1000]")


@pytest.mark.parametrize("name", ["Net", "net"])
def test_observe_takes_a_module_class_or_instance(user_file: Path, name: str) -> None:
    seen = observe(f"{user_file}:{name}", "f32[8,64]")
    assert [kernel.kind for kernel in seen.kernels] == ["extern", "triton"]
    assert seen.ledger.round_trips


def test_large_graphs_say_how_much_was_run_and_allocate_nothing(user_file: Path) -> None:
    seen = observe(f"{user_file}:scale", "f32[4000000000],f32[4000000000]")
    assert seen.kernels[0].bytes.requested == 12 * 4_000_000_000
    assert "programs of 1 kernels were run, on tensors without memory" in seen.notes[0]
    assert seen.ledger.compiled_bytes == 12 * 4_000_000_000


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        (":missing", "f32[3]", "no 'missing' in it"),
        (":number", "f32[3]", "number is of type int"),
        (":scale", "f32[3],f32[4]", "model.py:4: the function failed on these inputs"),
        (":scale", "f32[3", "--inputs: cannot read"),
        (":NeedsWidth", "f32[3]", "can be built without arguments"),
    ],
)
def test_observe_says_what_cannot_be_used(user_file: Path, name: str, inputs: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        observe(f"{user_file}{name}", inputs)


def test_a_missing_file_and_an_unknown_target(user_file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        observe(f"{tmp_path}/none.py:f", "f32[3]")
    with pytest.raises(InputError, match="unknown target 'h999'"):
        observe(f"{user_file}:scale", "f32[3],f32[3]", target="h999")


def test_a_file_that_raises_or_does_not_parse_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("import math\nmath.sqrt(-1)\n")
    with pytest.raises(InputError, match=r"raises\.py:2: ValueError"):
        observe(f"{tmp_path}/raises.py:f", "f32[3]")
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    with pytest.raises(InputError, match=r"broken\.py:2: SyntaxError"):
        observe(f"{tmp_path}/broken.py:f", "f32[3]")


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_spec(f"{LESSONS}/04c_triton_fused_add_relu.py:CASE", on=None, target="h200")


def test_compare_sets_three_providers_side_by_side(comparison: Comparison) -> None:
    eager, compiled, hand = comparison.providers
    assert [p.name for p in comparison.providers] == ["eager", "compiled", "hand"]
    assert all(p.ok and p.max_error is not None and p.max_error <= 1e-7 for p in comparison.providers)
    assert [p.bytes.touched for p in (eager, compiled, hand)] == [20 * N, 12 * N, 12 * N]
    assert [len(p.round_trips) for p in (eager, compiled, hand)] == [1, 0, 0]
    assert comparison.ideal_bytes == 12 * N


def test_compare_pairs_the_lines_of_both_kernels(comparison: Comparison) -> None:
    by_part = {part: [p for p in comparison.pairs if p.part == part] for part in ("load", "store", "mask")}
    assert [len(pairs) for pairs in by_part.values()] == [2, 1, 1]
    assert all("tl.load" in p.hand and "tl.load" in p.generated for p in by_part["load"])
    assert all(p.hand_line and p.generated_line for pairs in by_part.values() for p in pairs)


def test_compare_refuses_what_is_no_case(user_file: Path) -> None:
    with pytest.raises(InputError, match="scale is of type function"):
        compare_spec(f"{user_file}:scale", on=None, target="h200")
    with pytest.raises(UnsupportedError, match="--on gpu"):
        compare_spec(f"{LESSONS}/04c_triton_fused_add_relu.py:CASE", on="gpu", target="h200")


def test_trace_of_a_script_passes_its_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    traces = trace_spec(f"{LESSONS}/04b_triton_vector_add.py", ["--block-size", "256"], target="h200")
    assert {trace.programs for trace in traces} == {391}
    assert "391" in capfd.readouterr().out
    rows = traces[-1].traffic.rows
    assert [(row.kind, row.tensor, row.lanes, row.masked_lanes, row.bytes) for row in rows] == [
        ("load", "x", 391 * 256, 96, 4 * N),
        ("load", "y", 391 * 256, 96, 4 * N),
        ("store", "out", 391 * 256, 96, 4 * N),
    ]


def test_trace_hears_what_a_script_traces_itself() -> None:
    (trace,) = trace_spec(f"{LESSONS}/04b_triton_vector_add.py", ["--no-mask"], target="h200")
    assert [finding.lanes for finding in trace.findings] == [(672, 1023)] * 3
    assert {finding.programs for finding in trace.findings} == {(97,)}


LAUNCHES = textwrap.dedent("""\
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(x_ptr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)

    def launch():
        x = torch.ones(1000)
        double[(4,)](x, BLOCK=256)

    def idle():
        pass

    def raises():
        raise RuntimeError("told you")

    if __name__ == "__main__":
        x = torch.ones(512)
        double[(2,)](x, BLOCK=256)
        compiled = torch.compile(lambda a: torch.relu(a + 1))
        assert torch.equal(compiled(x), torch.full((512,), 3.0)), compiled(x)
    """)


@pytest.fixture
def launches(tmp_path: Path) -> Path:
    path = tmp_path / "launches.py"
    path.write_text(LAUNCHES)
    return path


def test_trace_of_a_launch_finds_the_lanes_past_the_end(launches: Path) -> None:
    (trace,) = trace_spec(f"{launches}:launch", [], target="h200")
    load, store = trace.findings
    assert (load.kind, load.line, load.tensor, load.programs) == ("out-of-bounds", 8, "x", (3,))
    assert (load.lanes, load.lane_count) == ((232, 255), 24)
    assert store.message.startswith("store of x writes past its end")
    assert trace.tiles is not None
    assert (trace.tiles.tile_lanes, trace.tiles.tail_lanes_off) == (256, 24)


def test_a_finding_names_the_file_that_ran_not_the_one_triton_cached(launches: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / launches.name
    moved.parent.mkdir()
    moved.write_text(launches.read_text())
    files = [trace_spec(f"{path}:launch", [], target="h200")[0].findings[0].file for path in (launches, moved)]
    assert files == [str(launches), str(moved)]


@pytest.mark.parametrize(
    ("name", "message"),
    [(":idle", "no Triton kernel was launched"), (":raises", "told you"), (":absent", "no 'absent' in it")],
)
def test_trace_says_what_cannot_be_used(launches: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        trace_spec(f"{launches}{name}", [], target="h200")


def test_run_sees_launches_and_compiled_regions(launches: Path) -> None:
    run = run_script(str(launches), [], target="h200", check=False)
    assert run.exit == 0
    assert [trace.kernel for trace in run.launches] == ["double", "triton_poi_fused_add_relu_0"]
    assert run.launches[1].traffic.bytes.touched == 4096
    (region,) = run.regions
    assert region.kernels[0].name == "triton_poi_fused_add_relu_0"


def test_run_keeps_the_scripts_exit_code_and_reports_what_it_raises(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    assert run_script(str(tmp_path / "leaves.py"), [], target="h200", check=False).exit == 7
    (tmp_path / "raises.py").write_text("x = 1\nx.nothing\n")
    with pytest.raises(InputError, match=r"raises\.py:2: AttributeError"):
        run_script(str(tmp_path / "raises.py"), [], target="h200", check=False)
