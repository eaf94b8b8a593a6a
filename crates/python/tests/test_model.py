"""Trained models answer over arrays what they answer on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import FREE, PACKET, run, streams, write

import headway

GAPS = 64


def model_file(path: Path, task: str = "multi-rate", domain: object = None) -> Path:
    """Write a model whose answer falls with the growth of gaps, in packet times."""
    weights = [0.5 / GAPS] * GAPS + [-0.5 / GAPS] * GAPS
    file = {
        "format": "headway-model",
        "version": 1,
        "name": "growth of gaps",
        "task": task,
        "input": {"kind": "raw", "gaps": GAPS, "unit": "packet-times"},
        "shape": {"rates": 4, "packets-per-rate": 16, "range": 0.5, "packet-wire-bytes": PACKET},
        "scaler": None,
        "interval": None,
        "domain": domain,
        "model": {"type": "network", "layers": [{"weights": [weights], "bias": [0.7], "activation": "identity"}]},
        "training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": None},
    }
    path.write_text(json.dumps(file))
    return path


def test_answers_are_those_of_the_program(program: str, tmp_path: Path) -> None:
    recorded = streams(free_bps=FREE)
    table, file = write(tmp_path / "streams.csv", recorded), model_file(tmp_path / "model.json")
    options = ["--method", "learned", "--model", file, "--capacity", "2 Gb/s", "--json"]
    theirs = json.loads(run(program, "estimate", table, *options))
    ours = headway.estimate(recorded, "learned", model=headway.Model(file), capacity_bps=2e9)
    assert ours.score == theirs["methods"][0]
    assert list(ours["available_bps"]) == [each["answers"]["learned"]["bps"] for each in theirs["each"]]


def test_predictions_are_those_of_the_arrays(tmp_path: Path) -> None:
    model = headway.Model(model_file(tmp_path / "model.json"))
    assert (model.name, model.task, model.features) == ("growth of gaps", "multi-rate", 2 * GAPS)
    features = np.random.default_rng(2).random((1000, 2 * GAPS), dtype=np.float32)
    found = model.predict(features)
    expected = 0.7 + 0.5 * (features[:, :GAPS].mean(axis=1) - features[:, GAPS:].mean(axis=1))
    np.testing.assert_allclose(found["value"], expected, atol=1e-6)
    assert np.isnan(found["low"]).all()


def test_models_are_for_their_task(tmp_path: Path) -> None:
    file = model_file(tmp_path / "model.json")
    cut = tmp_path / "cut.json"
    cut.write_text(file.read_text()[:-20])
    mistakes = {
        "cut.json: no model file": lambda: headway.Model(cut),
        "cannot read .*absent": lambda: headway.Model(tmp_path / "absent"),
        "^model: the method `learned` needs one": lambda: headway.estimate(streams(), "learned"),
        "^model: is for the method": lambda: headway.estimate(streams(), "bass", model=headway.Model(file)),
        "^model: must be headway.Model": lambda: headway.estimate(streams(), "learned", model=str(file)),
        "^features: must have 128 columns": lambda: headway.Model(file).predict(np.zeros((2, 3))),
        "^features: row 1": lambda: headway.Model(file).predict(np.full((2, 128), [[0], [np.nan]])),
        "^model: is for another task: multi-rate": lambda: headway.sabes(
            [0], [0], [0], [0], [0], flags=0, window=0, model=headway.Model(file)
        ),
    }
    for sentence, call in mistakes.items():
        with pytest.raises(headway.HeadwayError, match=sentence):
            call()
