"""The yardstick of torch's operators says wrong where it is wrong, and why something was not run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.yardsticks import operator_checks
from benchmarks.yardsticks.inductor_operators import failures, one_line, totals
from benchmarks.yardsticks.operator_checks import check_operator
from tilesight.capture.inductor.on_engine import CompiledOnEngine


class Sample:
    """One call, as torch's operator database describes it."""

    def __init__(self, value: torch.Tensor) -> None:
        self.input, self.args, self.kwargs = value, (), {}

    def output_process_fn_grad(self, output: Any) -> Any:
        return output


class Operator:
    """The part of an OpInfo that the yardstick reads."""

    variant_test_name = ""
    supports_autograd = True
    backward_dtypes = (torch.float32,)

    def __init__(self, name: str, op: Any) -> None:
        self.name, self.op = name, op

    def sample_inputs(self, device: str, dtype: torch.dtype, *, requires_grad: bool) -> list[Sample]:
        values = torch.linspace(-1, 1, 300, dtype=dtype).requires_grad_(requires_grad)
        return [Sample(values[:3].detach().requires_grad_()), Sample(values)]


class OffByALittle(CompiledOnEngine):
    """Compiles another function than it was given."""

    def __init__(self, function: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(lambda x: function(x) * 1.001, *args, **kwargs)


def test_a_right_operator_is_counted() -> None:
    check = check_operator(Operator("silu", torch.nn.functional.silu), torch.float32, 1, 100).to_dict()
    assert (check["forward"]["verdict"], check["backward"]["verdict"]) == ("right", "right")
    assert (check["generated"], check["forward"]["launches"], check["backward"]["launches"]) == (2, 1, 1)
    assert failures([check]) == []
    counted = totals([check])
    assert (counted["functions_all_right"], counted["kernels_run"]) == (1, 2)
    assert one_line(check).startswith("float32: forward right")


def test_a_wrong_one_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_checks, "CompiledOnEngine", OffByALittle)
    check = check_operator(Operator("silu", torch.nn.functional.silu), torch.float32, 1, 100).to_dict()
    assert (check["forward"]["verdict"], check["backward"]["verdict"]) == ("wrong", "wrong")
    assert len(failures([check])) == 2
    assert totals([check])["functions_all_right"] == 0


def test_random_values_are_compared_as_a_whole() -> None:
    dropout = Operator("dropout", lambda x: torch.nn.functional.dropout(x, 0.5))
    assert check_operator(dropout, torch.float32, 1, 100).forward.verdict == "random"


def test_what_cannot_be_compiled_says_why() -> None:
    def unsupported(x: torch.Tensor) -> torch.Tensor:
        return torch.atan(x)

    check = check_operator(Operator("atan", unsupported), torch.float32, 1, 100).to_dict()
    if check["forward"]["verdict"] == "not run":  # torch 2.13 and 2.14 write inline PTX for it
        assert "inline_asm" in check["forward"]["reason"]
    else:
        assert check["forward"]["verdict"] == "right"
