"""Estimators answer over arrays what they answer on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import FREE, PACKET, run, streams, write

import headway


@pytest.mark.parametrize("denoise", ["none", "one-pass", "two-passes", "bass"])
def test_scores_and_answers_are_those_of_the_program(program: str, tmp_path: Path, denoise: str) -> None:
    recorded = streams(event=4, free_bps=FREE)
    recorded.received_ns[70] = headway.LOST
    file = write(tmp_path / "streams.csv", recorded)
    names = headway.METHODS + headway.VERDICTS
    options = ["--method", ",".join(names), "--denoise", denoise, "--capacity", "2 Gb/s", "--json"]
    theirs = json.loads(run(program, "estimate", file, *options))
    scores = {score["method"]: score for score in theirs["methods"]}
    for method in names:
        for given in (recorded, headway.Streams.load(file)):
            ours = headway.estimate(given, method, denoise=denoise, capacity_bps=2e9)
            assert ours.score == scores[method]
            for index, each in enumerate(theirs["each"]):
                assert ours["average_bps"][index] == each["average_bps"]
                assert told(ours, index) == each["answers"][method]


def told(estimates: headway.Estimates, index: int) -> dict[str, object]:
    """Return an answer as the program prints it."""
    if estimates["refused"][index]:
        return {"refused": estimates["refused"][index]}
    if "verdict" in estimates:
        return {"verdict": estimates["verdict"][index]}
    return {"bps": estimates["available_bps"][index], "bound": estimates["bound"][index]}


def test_streams_are_split_as_by_the_program(program: str, tmp_path: Path) -> None:
    recorded = streams(free_bps=FREE)
    file = write(tmp_path / "streams.csv", recorded)
    theirs = json.loads(run(program, "estimate", file, "--method", "excursion", "--split", 20, "--json"))
    parts = headway.Streams.load(file).split(20)
    assert len(parts) == 60 == theirs["streams"]
    assert headway.estimate(parts, "excursion").score == theirs["methods"][0]


def test_one_array_with_offsets_is_the_same_as_rows() -> None:
    rows = streams(free_bps=FREE)
    flat = headway.Streams(
        rows.sent_ns, rows.received_ns, packet_wire_bytes=PACKET, offsets=np.arange(21) * 65, free_bps=FREE
    )
    first, second = (headway.estimate(one, "bass") for one in (rows, flat))
    assert np.array_equal(first["available_bps"], second["available_bps"])
    assert np.median(first["available_bps"]) == pytest.approx(FREE, rel=0.15)


def test_arrays_of_int64_are_not_copied() -> None:
    sent, received = (np.arange(100) * 10_000, np.arange(100) * 12_000)
    recorded = headway.Streams(sent, received, packet_wire_bytes=PACKET)
    assert np.shares_memory(recorded.sent_ns, sent) and np.shares_memory(recorded.received_ns, received)


def test_tables_become_data_frames() -> None:
    found = headway.estimate(streams(free_bps=FREE), "bass").to_pandas()
    assert list(found) == ["average_bps", "free_bps", "available_bps", "bound", "refused"]
    assert len(found) == 20
