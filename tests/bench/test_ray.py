"""The bench over a local Ray cluster of CPU workers; hand-written kernels run on their engines."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tilesight.bench.ray_cluster import bench_on_cluster
from tilesight.bench.run import BenchOptions
from tilesight.errors import InputError
from tilesight.roads.bench import Wanted, bench_named

CPU = BenchOptions("cpu", samples=2, providers=("eager", "hand"))
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Ray's own, of its defaults to come and of the sockets that it leaves to its processes."""

MINE = """
import torch
from tilesight import Case
CASE = Case(eager=torch.add, hand=lambda x, y: y + x, inputs="f32[7,9],f32[7,9]")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two CPU workers."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'tilesight[ray]'")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield ray
    ray.shutdown()


def test_cases_come_back_in_their_order(cluster: Any) -> None:
    heard: list[str] = []
    work = [("softmax", (16, 64)), ("add_relu", (4, 1000)), ("cross_entropy_both", (8, 30))]
    run = bench_on_cluster(work, CPU, "the command", heard.append)
    assert [(case.operator, case.shape) for case in run.cases] == work
    for case in run.cases:
        assert [(each.provider, each.ok) for each in case.measured] == [("eager", True), ("hand", True)]
        assert all(each.timing is not None and len(each.timing.device_s) == 2 for each in case.measured)
    assert run.environment.command == "the command" and not run.environment.is_gpu
    assert run.environment.copy_gb_per_s is not None and run.environment.copy_gb_per_s > 0
    assert "Ray cluster" in run.notes[0] and "engine" in run.notes[1]
    assert [text[:6] for text in heard] == ["1 of 3", "2 of 3", "3 of 3"]
    assert cluster.is_initialized(), "a cluster that was there stays"


def test_a_users_case_by_way_of_the_command_line(cluster: Any, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    wanted = Wanted((f"{mine}:CASE", "max"), providers=("eager", "hand"), samples=1, device="cpu", executor="ray")
    run = bench_named(wanted, str(tmp_path / "store.sqlite"), heard=lambda _: None)
    assert run.number == 1
    assert [(case.operator, case.shape) for case in run.cases] == [
        (f"{mine}:CASE", (7, 9)), ("max", (16, 64)), ("max", (4, 1000)),
    ]  # fmt: skip
    assert all(each.ok for case in run.cases for each in case.measured)


def test_what_a_worker_can_not_measure_is_told(cluster: Any) -> None:
    with pytest.raises(InputError, match="no operator sofmax"):
        bench_on_cluster([("sofmax", (16, 64))], CPU, heard=lambda _: None)


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(import_module("sys").modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray is not installed.*tilesight\[ray\]"):
        bench_on_cluster([("softmax", (16, 64))], CPU)
