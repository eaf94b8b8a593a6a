"""Sweeps from Python give the bytes of the program, wherever their cells run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run

import headway

SCENARIO = """
duration = "200 ms"
[[link]]
from = "a"
to = "b"
rate = "10 Mb/s"
delay = "1 ms"
buffer = "20 kB"
[[flow]]
from = "a"
to = "b"
controller = "reno"
"""

GRID: dict[str, Any] = {
    "scenario": "path.toml",
    "on": "sim",
    "seeds": "1-5",
    "columns": ["total.goodput_bps", "links.*.loss"],
    "set": {"link.0.loss": [0.001, 0.01], "flow.0.controller": ["reno", "cubic"]},
    "vary": {"path": {"short": {"link.0.delay": "1 ms"}, "long": {"link.0.delay": "5 ms"}}},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which has the scenario."""
    (tmp_path / "path.toml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: str) -> dict[str, bytes]:
    """Return all files of a folder but its lock."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def table(folder: str) -> list[bytes]:
    return [Path(folder, name).read_bytes() for name in ("cells.csv", "cells.jsonl")]


def test_cells_are_those_of_the_program(program: str) -> None:
    text = "".join(f"{key} = {headway._sweep._toml(key, value)}\n" for key, value in GRID.items())
    Path("grid.toml").write_text(text)
    run(program, "sweep", "grid.toml", "--output", "theirs")
    told: list[int] = []
    cells = headway.sweep("grid.toml", jobs=2, output="ours", on_result=lambda cell: told.append(cell["cell"]))
    assert table("ours") == table("theirs")
    assert sorted(told) == [cell["cell"] for cell in cells] == list(range(1, 41))
    last = cells[-1]
    assert last["values"] == {"link.0.loss": 0.01, "flow.0.controller": "cubic", "path": "long"}
    assert last["summary"]["total"]["goodput_bps"] == cells.to_pandas()["total.goodput_bps"].iloc[-1]
    # What is in the file may also be given as it is.
    headway.sweep(GRID, output="given")
    assert table("given") == table("ours")


def test_an_exception_keeps_what_has_ended() -> None:
    class Enough(Exception):
        pass

    def three(cell: dict[str, Any]) -> None:
        told.append(cell["cell"])
        if len(told) == 3:
            raise Enough

    told: list[int] = []
    with pytest.raises(Enough):
        headway.sweep(GRID, jobs=1, output="out", on_result=three)
    assert len(Path("out/cells.csv").read_text().splitlines()) == 4
    again: list[int] = []
    headway.sweep(GRID, output="out", on_result=lambda cell: again.append(cell["cell"]))
    assert sorted(told + again) == list(range(1, 41))


def test_failed_cells_are_told_and_leave_the_others_alone() -> None:
    grid = {**GRID, "seeds": [1], "columns": ["total.flows"], "set": {"flow.0.count": [1, 200_000]}, "vary": {}}
    with pytest.warns(UserWarning, match="1 of 2 cells failed, cell 2: this scenario needs about"):
        cells = headway.sweep(grid, memory_bytes=100_000_000)
    assert [cell["cell"] for cell in cells.failed] == [2] and cells[0]["summary"]["total"]["flows"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 1}, "line 6: `seed`: unknown key `seed`"),
        ({"seeds": 3}, "line 3: `seeds`: must be a text"),
        ({"set": {"link.0.rate": ["1 Mb/s", "fast"]}}, "line 5, column 38: `link.0.rate=fast`: `fast` is not a rate"),
        ({"set": {"link.0.rate": {1, 2}}}, r"file\['set.link.0.rate'\]: must be a text, a number, a list or a mapping"),
        ({"scenario": "none.toml"}, "cannot read"),
    ],
)
def test_mistakes_name_their_place(changes: dict[str, Any], words: str) -> None:
    grid = {key: value for key, value in GRID.items() if key != "vary"} | changes
    with pytest.raises(headway.HeadwayError, match=words):
        headway.sweep(grid)


def test_arguments_are_checked() -> None:
    with pytest.raises(headway.HeadwayError, match="backend: must be one of local, ray"):
        headway.sweep(GRID, backend="cluster")
    with pytest.raises(headway.HeadwayError, match="jobs: "):
        headway.sweep(GRID, jobs=0)
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(headway.RunError, match=r"pip install headway\[ray\]"):
            headway.sweep(GRID, backend="ray")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a local node of Ray, to which this process is connected, and to which others can be added."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install headway[ray]")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, connect=False, head_node_args={"num_cpus": 1})
    try:
        ray.init(address=nodes.address, log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_on_ray_a_lost_node_changes_no_byte(cluster: Any) -> None:
    import ray

    # The second half takes longer, so that the lost node is most likely in the middle of a cell.
    grid = GRID | {"seeds": "1-25", "set": {"duration": ["200 ms", "8 s"], "link.0.loss": [0.001, 0.01]}}
    headway.sweep(grid, output="local")
    second = cluster.add_node(num_cpus=1, resources={"second": 1})
    cluster.wait_for_nodes()
    # The process there has begun, so cells run there, too, before the node is lost.
    assert ray.get(ray.remote(resources={"second": 1})(lambda: True).remote())
    told: list[int] = []

    def kill_one(cell: dict[str, Any]) -> None:
        told.append(cell["cell"])
        if len(told) == 120:
            # The processes that run its cells first: they would finish those.
            (raylet,) = (one.process.pid for one in second.all_processes["raylet"])
            for worker in Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split():
                os.kill(int(worker), signal.SIGKILL)
            cluster.remove_node(second, allow_graceful=False)

    cells = headway.sweep(grid, backend="ray", output="ray", on_result=kill_one)
    assert sorted(told) == list(range(1, 201)) and not cells.failed
    assert contents("ray") == contents("local")
    # What ran there is kept for here.
    shutil.rmtree("local/kept")
    shutil.copytree("ray/kept", "local/kept")
    headway.sweep(grid, output="local", on_result=lambda cell: told.append(0))
    assert 0 not in told
