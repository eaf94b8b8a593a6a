"""Training: what it learns from, what it writes, and that the program answers as scikit-learn does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import run

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from headway import train  # noqa: E402
from headway.train.__main__ import main  # noqa: E402
from headway.train._features import features  # noqa: E402

STREAMS = """
rates = {rates}
packets-per-rate = {packets}
range = {range}
averages = {{ from = 0.5, to = 0.9 }}
[[path]]
traffic = [{{ model = "bct" }}]
coalescing = ["120 us"]
runs = 12
test-runs = 4
streams = 60
"""

WINDOWS = """
windows = { tumbling = "200 ms" }
[[path]]
capacity = "100 Mb/s"
rtts = ["20 ms"]
loads = [0.5, 0.9]
sources = 30
flows = 20
size = "3 MB"
end = "60 s"
runs = 4
test-runs = 1
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables of streams of several rates, of streams of one rate, and of windows."""
    import shutil

    program = shutil.which("headway")
    if program is None:
        pytest.skip("the program headway is not in the PATH")
    folder = tmp_path_factory.mktemp("tables")
    (folder / "many.toml").write_text(STREAMS.format(rates=4, packets=12, range=0.5))
    (folder / "one.toml").write_text(STREAMS.format(rates=1, packets=48, range=0))
    (folder / "windows.toml").write_text(WINDOWS)
    for kind, name in (("p-streams", "many"), ("p-streams", "one"), ("sabes", "windows")):
        run(program, "dataset", kind, folder / f"{name}.toml", "--output", folder)
    return folder


def recorded(data: train.Streams, path: Path) -> None:
    """Write streams as `headway estimate` reads them: a line for each packet."""
    send, receive = data.gaps
    times = [np.hstack([np.zeros((len(data), 1)), np.cumsum(gaps, axis=1)]) for gaps in (send, receive)]
    count, packets = times[0].shape
    frame = pd.DataFrame(
        {
            "stream": np.repeat(np.arange(count), packets),
            "index": np.tile(np.arange(packets), count),
            "sent_ns": times[0].ravel().astype(np.int64),
            "received_ns": times[1].ravel().astype(np.int64),
            "packet_wire_bytes": 9038,
        }
    )
    frame.to_csv(path, index=False)


@pytest.mark.parametrize("model", train.STREAM_MODELS)
@pytest.mark.parametrize("table", ["many", "one"])
def test_the_program_answers_as_scikit_learn_does(program: str, tables: Path, tmp_path: Path, model: str, table: str) -> None:
    data = train.read_streams(tables / f"{table}.csv")
    trained = train.streams(data, model, interval="none")
    trained.document["domain"] = None
    trained.save(tmp_path / "model.json")
    recorded(data, tmp_path / "streams.csv")
    answer = json.loads(run(program, "estimate", tmp_path / "streams.csv", "--method", "learned", "--model", tmp_path / "model.json", "--each", "--json"))
    x = features(*data.gaps, "fft")
    expected = trained.predict(x)
    found = [one["answers"]["learned"] for one in answer["each"]]
    assert len(found) == len(expected)
    if table == "many":
        bps = np.array([one["bps"] for one in found])
        assert np.abs(bps / (np.maximum(expected, 0) * 1e9) - 1).max() < 1e-6
    else:
        assert [one["verdict"] for one in found] == ["above" if share > 0.5 else "not_above" for share in expected]


def test_the_same_seed_gives_the_same_file_and_tests_are_not_learned_from(tables: Path) -> None:
    frame = pd.read_csv(tables / "many.csv")
    one = train.streams(train.read_streams(frame))
    assert one.document["model"] == train.streams(train.read_streams(frame)).document["model"]
    assert one.document["model"] != train.streams(train.read_streams(frame), seed=2).document["model"]
    tests = frame["part"] == "test"
    frame.loc[tests, "free_bps"] //= 2
    other = train.streams(train.read_streams(frame))
    assert one.document["model"] == other.document["model"] and one.document["interval"] == other.document["interval"]
    assert one.scores != other.scores


def test_intervals_hold_most_truths_of_runs_that_were_not_seen(tables: Path) -> None:
    data = train.read_streams(tables / "many.csv")
    for interval in ("residual", "quantiles"):
        trained = train.streams(data, interval=interval)
        made = trained.document["interval"]
        assert made["level"] == 0.9 and made["kind"] == interval
        if interval == "residual":
            rows = ~data.train & data.covered
            answer = trained.predict(features(*data.gaps, "fft"))[rows] * 1e9
            free = data.free_bps[rows]
            held = (answer * (1 + made["low"]) <= free) & (free <= answer * (1 + made["high"]))
            assert 0.8 <= held.mean() <= 0.98


def test_a_stream_unlike_all_is_far_from_the_domain(tables: Path) -> None:
    data = train.read_streams(tables / "many.csv")
    domain = train.streams(data).document["domain"]
    names, values = data.statistics("stat")
    assert domain["statistics"] == names
    assert (values[data.train] >= domain["low"]).all() and (values[data.train] <= domain["high"]).all()
    shares = data.free_bps[data.train] / data.frame["capacity_bps"][data.train]
    assert domain["free"][0] < shares.mean() < domain["free"][1]
    distance = np.linalg.norm((values - domain["mean"]) @ np.array(domain["whiten"]).T, axis=1)
    assert (distance[data.train] <= domain["limit"]).mean() >= 0.99


def test_parameters_are_searched_over_runs(tables: Path) -> None:
    tuned = train.streams(train.read_streams(tables / "many.csv"), "elastic-net", tune="quick", interval="none")
    assert tuned.estimator.alpha in (0.001, 0.01, 0.1)
    assert tuned.document["interval"] is None


def test_networks_of_windows_stay_within_the_bound_of_their_size(tables: Path) -> None:
    # wan 7: 140 000 rows allow 1166 neurons, and 15 000 allow 136.
    assert train.hidden_bound(140_000, 10, 2, 10) == 1166
    assert train.hidden_bound(15_000, 10, 1, 10) == 136
    data = train.read_windows(tables / "windows.csv")
    for model, input in (("nn", "draws"), ("kde", "draws"), ("kde", "heights")):
        trained = train.windows(data, model, input=input)
        assert [layer.shape for layer in trained.estimator.coefs_] == [(10, 32), (32, 32), (32, 1)]
        assert trained.document["task"] == f"sabes-{model}"
        assert trained.scores["hidden"] == 64 and trained.scores["hidden-bound-most"] >= 64
    assert trained.scores["kept"] == 1.0


def test_intervals_of_windows_are_of_other_runs_than_the_tests(tables: Path) -> None:
    frame = pd.read_csv(tables / "windows.csv")
    one = train.windows(train.read_windows(frame), "kde")
    assert one.document["interval"]["kind"] == "residual" and 0 < one.scores["interval-holds"] <= 1
    frame.loc[frame["part"] == "test", "free_bps"] //= 2
    other = train.windows(train.read_windows(frame), "kde")
    assert one.document["interval"] == other.document["interval"]
    assert one.scores["interval-holds"] != other.scores["interval-holds"]
    # With a run of each path there are none that could be held out.
    first = frame[frame["run"] == frame["run"].min()].assign(part="train")
    assert train.windows(train.read_windows(first), "kde").document["interval"] is None


def test_a_vector_machine_has_scores_and_no_file(tables: Path) -> None:
    trained = train.windows(train.read_windows(tables / "windows.csv"), "svm")
    assert not trained.document and "rules-mae" in trained.scores


def test_mistakes_name_what_is_wrong(tables: Path) -> None:
    frame = pd.read_csv(tables / "many.csv")
    with pytest.raises(ValueError, match="no column `free_bps`"):
        train.read_streams(frame.drop(columns="free_bps"))
    with pytest.raises(ValueError, match="receive gap is missing or negative"):
        train.read_streams(frame.assign(receive_gap_ns_3=-1))
    with pytest.raises(ValueError, match="no row is for training"):
        train.read_streams(frame.assign(part="test"))
    with pytest.raises(ValueError, match="streams differ in `range`"):
        train.read_streams(frame.assign(range=np.arange(len(frame))))
    with pytest.raises(ValueError, match="data of one run cannot be split"):
        train.streams(train.read_streams(frame.assign(run=0)))
    with pytest.raises(ValueError, match="model `forest` is none of"):
        train.streams(train.read_streams(frame), "forest")


def test_the_command_writes_a_file_for_each_model(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = str(tables / "many.csv"), str(tmp_path / "new")
    assert main(["streams", table, "--model", "elastic-net", "--output", output, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["elastic-net"]["streams"] > 0
    assert json.loads((tmp_path / "new" / "elastic-net.json").read_text())["training"]["runs"] == 8
    few = ["--parameter", "n_estimators=3", "--unit", "send-gaps", "--interval", "none"]
    assert main(["streams", table, *few, "--output", output]) == 0
    model = json.loads((tmp_path / "new" / "gradient-boosting.json").read_text())
    assert len(model["model"]["trees"]) == 3 and model["input"]["unit"] == "send-gaps"
    assert main(["streams", str(tmp_path / "none.csv"), "--output", output]) == 1
    assert "none.csv" in capsys.readouterr().err
