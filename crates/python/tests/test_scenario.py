"""Runs from Python are those of the command line."""

from __future__ import annotations

import json
import pickle
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
