"""Training on windows of SABES."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from headway.train._data import Windows
from headway.train._export import exported
from headway.train._trained import Trained, versions
from headway.train._uncertainty import FEWEST, domain, residual_interval

Floats = NDArray[np.float64]

#: Names of models: the classifier of histograms, the regression of densities, and the classifier that the thesis rejected.
MODELS = ("nn", "kde", "svm")
INPUTS = ("draws", "heights")
UNITS = ("gigabit", "capacity")

#: Neurons of the hidden layers (wan 2.11).
HIDDEN = (32, 32)
#: Share of the training runs that say when to stop (wan 2.11).
HELD_OUT = 0.15
#: Passes over the data at most, and passes without any gain after which training ends.
EPOCHS, PATIENCE = 80, 15
#: Rows of a step (wan 2.11).
BATCH = 256
#: An SVM needs time and memory that grow with the square of the rows.
MOST_FOR_SVM = 5_000


def hidden_bound(rows: int, inputs: int, outputs: int, sigma: float) -> int:
    """The largest number of hidden neurons by Eq. 7.1; ``sigma`` is 2 to 10."""
    return int(rows / (sigma * (inputs + outputs)))


def windows(
    data: Windows,
    model: str = "nn",
    *,
    input: str = "draws",  # noqa: A002
    unit: str = "gigabit",
    balanced: bool = False,
    seed: int = 1,
) -> Trained:
    """Trains a model on the training runs of ``data``, and scores it on its tests.

    ``"nn"`` says whether the mean of a window that passes the published rules is close to the truth; with ``balanced``
    good and bad windows count the same in training, although most are bad. ``"kde"`` answers with the available bandwidth:
    from ten values that are drawn from the density of the samples (``input`` is ``"draws"``) or from its height at ten
    places (``"heights"``), over 1 Gb/s (``unit`` is ``"gigabit"``, as published) or over the estimated capacity
    (``"capacity"``).
    """
    for value, known, name in ((model, MODELS, "model"), (input, INPUTS, "input"), (unit, UNITS, "unit")):
        if value not in known:
            raise ValueError(f"{name} `{value}` is none of {', '.join(known)}")
    if model == "svm":
        return _svm(data, seed)
    classifies = model == "nn"
    x = data.numbered("histogram" if classifies else f"{'draw' if input == 'draws' else 'height'}_{unit}")
    y = data.good.astype(int) if classifies else data.free_bps / _unit_bps(data, unit)
    weights = _balanced(y, data.train) if classifies and balanced else None
    estimator = _network(classifies, seed)
    # Over 1 Gb/s all that a link of 100 Mb/s shows is within a tenth: a network learns little from it. Shares need no scaling.
    scaler = None if classifies else StandardScaler().fit(x[data.train])
    trained = Trained(estimator, scaler, {})
    held_out = _fit(estimator, (trained.scaled(x), y, weights), data, seed)
    answered = trained.predict(x)
    interval = _interval(data, answered, held_out, (model, unit))
    trained.scores = _scores(data, answered, model, unit)
    if interval is not None:
        trained.scores |= _held(data, answered, interval, (model, unit))
    rows = int(data.train.sum())
    outputs = 2 if classifies else 1
    trained.scores["hidden"] = sum(HIDDEN)
    trained.scores["hidden-bound-least"] = hidden_bound(rows, x.shape[1], outputs, 10)
    trained.scores["hidden-bound-most"] = hidden_bound(rows, x.shape[1], outputs, 2)
    names, values = data.statistics("stat" if classifies else "all_stat")
    source = {"kind": "histogram", "bins": 10, "unit": "capacity"} if classifies else {"kind": f"density-{input}", "values": 10, "unit": unit, "bandwidth": 0.2}
    trained.document = {
        "format": "headway-model",
        "version": 1,
        "name": "SABES-NN" if classifies else f"SABES-KDE, {input}, over {'1 Gb/s' if unit == 'gigabit' else 'the capacity'}",
        "task": f"sabes-{model}",
        "input": source,
        "shape": None,
        "scaler": None if scaler is None else {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist()},
        "model": exported(estimator),
        "interval": interval,
        "domain": domain(names, values[data.train]),
        "training": {
            "data-sha256": data.sha256,
            "rows": rows,
            "runs": int(len(np.unique(data.runs[data.train]))),
            "seed": seed,
            "versions": versions(),
            "text": _described(data),
            "score": trained.scores,
        },
    }
    return trained


def _unit_bps(data: Windows, unit: str) -> Any:
    return data.capacity_bps if unit == "capacity" else 1e9


def _network(classifies: bool, seed: int) -> Any:
    kind = MLPClassifier if classifies else MLPRegressor
    # A classifier of two classes has one logistic output: the same as two whose shares are a softmax.
    return kind(hidden_layer_sizes=HIDDEN, learning_rate_init=1e-3, random_state=seed)


def _balanced(y: NDArray[Any], rows: NDArray[np.bool_]) -> Floats:
    """Weights with which both classes count the same."""
    share = np.clip(y[rows].mean(), 1e-6, 1 - 1e-6)
    return np.asarray(np.where(y == 1, 0.5 / share, 0.5 / (1 - share)))


def _fit(estimator: Any, xyw: tuple[Floats, NDArray[Any], Floats | None], data: Windows, seed: int) -> NDArray[np.bool_]:
    """Trains until runs that are held out are answered no better; returns which rows are theirs."""
    x, y, weights = xyw
    random = np.random.default_rng(seed)
    classifies = hasattr(estimator, "predict_proba")
    middle, spread = y[data.train].mean(), y[data.train].std() or 1.0
    y = y if classifies else (y - middle) / spread
    out = data.train & np.isin(data.runs, _held_out(data, random))
    rows = np.flatnonzero(data.train & ~out)
    classes = {"classes": [0, 1]} if classifies else {}
    best, kept, since = np.inf, None, 0
    for _ in range(EPOCHS):
        random.shuffle(rows)
        for part in np.array_split(rows, max(1, len(rows) // BATCH)):
            some = {} if weights is None else {"sample_weight": weights[part]}
            estimator.partial_fit(x[part], y[part], **classes, **some)
        loss = _loss(estimator, x[out], y[out], None if weights is None else weights[out]) if out.any() else -1.0
        since += 1
        if loss < best or not out.any():
            best, since = loss, 0
            kept = [layer.copy() for layer in (*estimator.coefs_, *estimator.intercepts_)]
        if since > PATIENCE:
            break
    if kept is not None:
        layers = len(estimator.coefs_)
        estimator.coefs_, estimator.intercepts_ = kept[:layers], kept[layers:]
    if not classifies:
        # The last layer answers in the unit of the truth again.
        estimator.coefs_[-1] *= spread
        estimator.intercepts_[-1] = estimator.intercepts_[-1] * spread + middle
    return out


def _held_out(data: Windows, random: np.random.Generator) -> list[Any]:
    """Runs of every path, which say when to stop: those of one path alone would say it for that path."""
    frame = data.frame[data.train]
    held: list[Any] = []
    for _, group in frame.groupby(["bottleneck_bps", "rtt_ns", "load"]):
        runs = np.sort(group["run"].unique())
        if len(runs) > 1:
            held.extend(random.choice(runs, max(1, round(HELD_OUT * len(runs))), replace=False))
    return held


def _loss(estimator: Any, x: Floats, y: NDArray[Any], weights: Floats | None) -> float:
    if not hasattr(estimator, "predict_proba"):
        return float(np.mean((estimator.predict(x) - y) ** 2))
    good = np.clip(estimator.predict_proba(x)[:, 1], 1e-9, 1 - 1e-9)
    return float(np.average(-np.where(y == 1, np.log(good), np.log(1 - good)), weights=weights))


def _tests(data: Windows) -> NDArray[np.bool_]:
    return ~data.train if (~data.train).any() else data.train


def _answers(data: Windows, answered: Floats, model: str, unit: str) -> tuple[NDArray[np.bool_], Floats]:
    """Which windows have an answer, and the answers in b/s."""
    if model == "kde":
        return np.ones(len(data), bool), np.maximum(answered, 0) * _unit_bps(data, unit)
    return data.passed & (answered > 0.5), data.mean_bps


def _scores(data: Windows, answered: Floats, model: str, unit: str) -> dict[str, float]:
    """Mean absolute errors as shares of the true capacity, beside those of the published rules and of a constant."""
    tests = _tests(data)
    kept, answer = _answers(data, answered, model, unit)
    constant = np.median(data.free_bps[data.train] / data.bottleneck_bps[data.train]) * data.bottleneck_bps
    numbers: dict[str, float] = {"windows": int(tests.sum())}
    for name, chosen, rate in (("", kept, answer), ("rules-", data.passed, data.mean_bps), ("constant-", np.ones(len(data), bool), constant)):
        rows = tests & chosen
        numbers[name + "kept"] = float(rows.sum() / tests.sum())
        if rows.any():
            away = np.abs(rate - data.free_bps) / data.bottleneck_bps
            numbers[name + "mae"] = float(away[rows].mean())
    return numbers


def _interval(data: Windows, answered: Floats, held_out: NDArray[np.bool_], kind: tuple[str, str]) -> dict[str, Any] | None:
    """From windows of the training runs that were held out: those of the tests say how good it is."""
    kept, answer = _answers(data, answered, *kind)
    rows = held_out & kept & (answer > 0)
    return residual_interval(answer[rows], data.free_bps[rows]) if rows.sum() >= FEWEST else None


def _held(data: Windows, answered: Floats, interval: dict[str, Any], kind: tuple[str, str]) -> dict[str, float]:
    """Of how many answers to tests the interval holds the truth; empty without answers."""
    kept, answer = _answers(data, answered, *kind)
    rows = _tests(data) & kept
    low, high = answer[rows] * (1 + interval["low"]), answer[rows] * (1 + interval["high"])
    free = data.free_bps[rows]
    return {"interval-holds": float(((low <= free) & (free <= high)).mean())} if rows.any() else {}


def _svm(data: Windows, seed: int) -> Trained:
    """The classifier that the thesis tried and rejected; it has no model file."""
    random = np.random.default_rng(seed)
    rows = np.flatnonzero(data.train)
    some = np.sort(random.choice(rows, min(MOST_FOR_SVM, len(rows)), replace=False))
    x = data.numbered("histogram")
    estimator = SVC(random_state=seed).fit(x[some], data.good[some].astype(int))
    answered = estimator.predict(x).astype(float)
    return Trained(estimator, None, {}, _scores(data, answered, "svm", "capacity"))


def _described(data: Windows) -> str:
    frame = data.frame[data.train]
    values = {
        "capacity": [f"{bps / 1e6:g} Mb/s" for bps in sorted(frame["bottleneck_bps"].unique())],
        "RTT": [f"{ns / 1e6:g} ms" for ns in sorted(frame["rtt_ns"].unique())],
        "cross traffic": [f"{load:.0%}" for load in sorted(frame["load"].unique())],
    }
    return "Simulated Reno transfers beside on-off traffic. " + "; ".join(f"{name}: {', '.join(some)}" for name, some in values.items()) + "."
