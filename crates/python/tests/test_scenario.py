"""Runs from Python are those of the command line."""

from __future__ import annotations

import json
import pickle
import signal
import threading
from pathlib import Path

import numpy as np
import pandas
import pytest
from conftest import SCENARIOS, run

import headway

SHORT = {"duration": "3 s", "warmup": "1 s"}
CUBIC = SCENARIOS / "dumbbell-cubic.toml"


def test_tables_and_summary_are_those_of_the_program(program: str, tmp_path: Path) -> None:
    sets = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    run(program, "run", CUBIC, "--on", "sim", *sets, "--output", tmp_path)
    results = headway.Scenario.load(CUBIC, SHORT).run()
    summary = json.loads((tmp_path / "summary.json").read_text())
    del summary["build"]
    assert results.summary == summary
    for name, table in results.items():
        theirs = pandas.read_csv(tmp_path / f"{name}.csv")
        assert list(table) == list(theirs), name
        for column, values in table.items():
            if values.dtype.kind == "U":
                assert list(values) == list(theirs[column].astype(str)), f"{name}.{column}"
            else:
                np.testing.assert_allclose(values.astype(float), theirs[column].astype(float), atol=1e-6)


def test_a_seed_gives_the_same_run_whatever_runs_beside_it() -> None:
    scenario = headway.Scenario.load(CUBIC, SHORT)
    both = scenario.run_all([5, 6], jobs=2)
    again = pickle.loads(pickle.dumps(scenario)).run(seed=6)
    assert [one.summary["seed"] for one in both] == [5, 6]
    assert again.summary == both[1].summary != both[0].summary


def test_mistakes_are_told_as_by_the_program(tmp_path: Path) -> None:
    with pytest.raises(headway.ScenarioError, match="did you mean `rate`"):
        headway.Scenario.load(CUBIC, {"link.0.rat": "1 Mb/s"})
    with pytest.raises(headway.ScenarioError, match="cannot read .*absent.toml"):
        headway.Scenario.load(tmp_path / "absent.toml")
    with pytest.raises(headway.HeadwayError, match=r"^on: "):
        headway.Scenario.load(CUBIC).run("simulator")


@pytest.mark.parametrize("world", ["uml", "lab"])
def test_other_worlds_run_by_the_program_in_the_path(program: str, world: str) -> None:
    scenario = headway.Scenario.load(CUBIC, {"duration": "2 s", "warmup": "500 ms", "link.1.rate": "10 Mb/s"})
    try:
        results = scenario.run(world)
    except headway.RunError as reason:
        pytest.skip(f"{world} does not run here: {reason}")
    assert results.summary["world"] == world
    assert results["flows"]["goodput_bytes"].sum() > 0


def test_other_worlds_name_the_program_that_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(headway.RunError, match="`headway-lab` is not in the PATH"):
        headway.Scenario.load(CUBIC).run("uml")


class Interrupted(Exception):
    """What the handler of a signal raises."""


def test_a_signal_ends_a_run() -> None:
    def handler(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Interrupted):
            headway.Scenario.load(CUBIC, {"duration": "100000 s", "interval": "100 s"}).run()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_work_during_a_run() -> None:
    begun, ended = threading.Event(), threading.Event()
    scenario = headway.Scenario.load(CUBIC, {"duration": "60 s"})

    def work() -> None:
        begun.set()
        scenario.run()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert not ended.is_set()
    thread.join()


def test_a_scenario_can_be_slowed_down() -> None:
    scenario = headway.Scenario.load(CUBIC)
    assert scenario.dilated(10).duration_ns == 10 * scenario.duration_ns
    with pytest.raises(headway.HeadwayError, match="^dilation: "):
        scenario.dilated(0)


def test_measurements_streams_and_routers_are_tables() -> None:
    results = headway.Scenario.load(SCENARIOS / "measure-10g.toml", {"link.0.rate": "1 Gb/s", "duration": "8 s"}).run()
    assert len(results["streams"]["free_bps"]) >= 10
    routers = headway.Scenario.load(SCENARIOS / "explicit.toml").run()
    assert set(routers["control"]["law"]) == {"xcp"}
