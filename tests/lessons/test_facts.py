"""What each lesson teaches is in its output, in both languages."""

from __future__ import annotations

import re

import pytest

from tests.lessons.commands import Command, Runner

LANGUAGES = ("en", "zh")
VECTOR_ADD = "python 04b_triton_vector_add.py"
FUSED = "python 04c_triton_fused_add_relu.py"
OBSERVE = "python 04_torch_compile_observe.py"
JIT = "python jit_stages.py"
DUMP = f"""mkdir -p dumps
TORCH_LOGS=output_code {OBSERVE} 2>&1 | tee dumps/compile.log
grep -n triton dumps/compile.log"""
TIMES_OF_N = {12: "1,200,000", 20: "2,000,000"}
GENERATED_PARTS = {
    "pid": (19, 20, 22),
    "mask": (21,),
    "load": (23, 24),
    "store": (28,),
}


def output(runner: Runner, command: str, lang: str = "en") -> str:
    done = runner.result(Command(command, "lessons", lang))
    assert done.code == 0, done.errors
    return done.output


@pytest.mark.parametrize("lang", LANGUAGES)
class TestVectorAdd:
    def test_98_programs_and_352_lanes_masked_off(self, runner: Runner, lang: str) -> None:
        printed = output(runner, VECTOR_ADD, lang)
        assert re.search(r"cdiv\(n, BLOCK_SIZE\) = 98 ", printed)
        assert re.search(r"97 .*99328\.\.100351.*352 ", printed)
        assert len(re.findall(r"^ +\d+  (?:load|store) .* 352 +400,000$", printed, re.MULTILINE)) == 3
        assert "allclose True" in printed

    def test_smaller_tiles_are_391_programs_and_the_same_bytes(self, runner: Runner, lang: str) -> None:
        printed = output(runner, f"{VECTOR_ADD} --block-size 256", lang)
        assert re.search(r"cdiv\(n, BLOCK_SIZE\) = 391 ", printed)
        assert len(re.findall(r" 400,000$", printed, re.MULTILINE)) == 3
        assert "allclose True" in printed

    def test_without_a_mask_each_line_is_named(self, runner: Runner, lang: str) -> None:
        printed = output(runner, f"{VECTOR_ADD} --no-mask", lang)
        places = re.findall(r"\[out-of-bounds\] 04b_triton_vector_add\.py:(\d+): (.*)", printed)
        assert [int(line) for line, _ in places] == [36, 37, 38]
        assert all("lanes 672 to 1023 of program 97" in message for _, message in places)
        assert "allclose" not in printed


@pytest.mark.parametrize("lang", LANGUAGES)
class TestFused:
    def test_fusion_saves_the_round_trip_of_8n(self, runner: Runner, lang: str) -> None:
        printed = output(runner, FUSED, lang)
        assert self.bytes_of(printed) == {"eager": (TIMES_OF_N[20], "20n", "1"), "hand": (TIMES_OF_N[12], "12n", "0")}
        assert re.search(r"add_0.* 800,000 .*= 8n$", printed, re.MULTILINE)
        assert "allclose True" in printed

    def test_one_operator_has_nothing_to_fuse(self, runner: Runner, lang: str) -> None:
        printed = output(runner, f"{FUSED} --op add", lang)
        assert self.bytes_of(printed) == {"eager": (TIMES_OF_N[12], "12n", "0"), "hand": (TIMES_OF_N[12], "12n", "0")}
        assert "8n" not in printed
        assert "allclose True" in printed

    @staticmethod
    def bytes_of(printed: str) -> dict[str, tuple[str, str, str]]:
        rows = re.findall(r"^(eager|hand) +([\d,]+) .*= (\d+n) .*[:：] ?(\d+)$", printed, re.MULTILINE)
        return {name: (moved, times_n, trips) for name, moved, times_n, trips in rows}


@pytest.mark.parametrize("lang", LANGUAGES)
class TestObserve:
    def test_two_operators_become_one_kernel(self, runner: Runner, lang: str) -> None:
        printed = output(runner, OBSERVE, lang)
        assert "add(l_x_, l_y_)" in printed
        assert "relu(t)" in printed
        assert "04_torch_compile_observe.py:23" in printed
        assert "04_torch_compile_observe.py:24" in printed
        assert "aten.add.Tensor" in printed
        assert "aten.relu.default" in printed
        assert set(re.findall(r"triton_\w+_\d", printed)) == {"triton_poi_fused_add_relu_0"}
        assert "(98, 1, 1)" in printed

    def test_parts_are_marked_on_their_lines(self, runner: Runner, lang: str) -> None:
        marked = dict(re.findall(r"^ +(\d+) .*<- (\w+)", output(runner, OBSERVE, lang), re.MULTILINE))
        assert marked == {str(line): part for part, lines in GENERATED_PARTS.items() for line in lines}

    def test_numbers_are_right_and_the_bytes_are_04cs(self, runner: Runner, lang: str) -> None:
        printed = output(runner, OBSERVE, lang)
        assert "allclose True" in printed
        rows = dict(re.findall(r"^ +(eager|compiled|hand) +ok=True +bytes=([\d,]+)$", printed, re.MULTILINE))
        assert rows == {"eager": TIMES_OF_N[20], "compiled": TIMES_OF_N[12], "hand": TIMES_OF_N[12]}


def test_torch_logs_hold_the_triton_code(runner: Runner) -> None:
    printed = output(runner, DUMP)
    log = (runner.root / "lessons" / "dumps" / "compile.log").read_text(encoding="utf-8")
    numbered = {f"{number}:{line}" for number, line in enumerate(log.splitlines(), 1) if "triton" in line}
    assert {line for line in printed.splitlines() if re.match(r"\d+:", line)} == numbered
    for wanted in (
        "@triton.jit",
        "@triton_heuristics.pointwise",
        "tt.divisibility",
        "triton_poi_fused_add_relu_0.run(",
    ):
        assert wanted in log


class TestJit:
    def test_arguments_are_specialised(self, runner: Runner) -> None:
        rows = dict(re.findall(r"^  n = (\d+) +(.*)$", output(runner, JIT), re.MULTILINE))
        assert rows == {
            "100000": "i32 divisible by 16",
            "100001": "i32",
            "1": "constexpr = 1",
            "2147483648": "i64 divisible by 16",
        }

    def test_every_stage_keeps_a_file(self, runner: Runner) -> None:
        assert ".cubin .json .llir .ptx .source .ttgir .ttir" in output(runner, JIT)

    def test_caches_are_faster_than_the_stages(self, runner: Runner) -> None:
        every, disk, process = (float(ms) for ms in re.findall(r"([\d.]+) ms$", output(runner, JIT), re.MULTILINE))
        assert every > 2 * disk
        assert disk > process

    def test_stages_come_in_order(self, runner: Runner) -> None:
        printed = output(runner, JIT)
        wanted = ("tt.get_program_id", "#ttg.blocked", "nvvm.read.ptx.sreg.ctaid", ".target sm_90", "@%p1 ld.global.v4")
        places = [printed.index(each) for each in wanted]
        assert places == sorted(places)

    @pytest.mark.parametrize("lang", LANGUAGES)
    def test_a_size_that_16_divides_quarters_the_loads(self, runner: Runner, lang: str) -> None:
        for command, wide, narrow in ((JIT, 4, 0), (f"{JIT} --n 100001", 0, 16)):
            counts = re.findall(r"(?<!\d)(\d+)(?: loads of| of| 次)", self.loads_line(output(runner, command, lang)))
            assert [int(count) for count in counts] == [wide, narrow]

    @staticmethod
    def loads_line(printed: str) -> str:
        return next(line for line in printed.splitlines() if "load" in line and "16" in line and "4" in line)


NAN = """python - <<'END'
import torch
from pathlib import Path
from tilesight.learn import lesson
fused = lesson.load(Path("04c_triton_fused_add_relu.py"))
lesson.start("en")
x, y = torch.tensor([float("nan"), -1.0, 2.0]), torch.zeros(3)
print(fused.add_relu(x, y).tolist(), fused.eager_add_relu(x, y).tolist())
END"""


@pytest.mark.parametrize("command", [Command(NAN)], ids=["nan"])
def test_tl_maximum_and_torch_differ_on_nan(command: Command, runner: Runner) -> None:
    """The difference between 04c and the generated kernel that the course names."""
    done = runner.result(command)
    assert done.output.strip() == "[0.0, 0.0, 2.0] [nan, 0.0, 2.0]", done.errors
