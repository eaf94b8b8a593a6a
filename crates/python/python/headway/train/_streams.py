"""Training on streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import ElasticNet
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from headway.train._data import Streams
from headway.train._export import exported
from headway.train._features import KINDS, UNITS, features
from headway.train._trained import Trained, versions
from headway.train._uncertainty import FOLDS, LEVEL, domain, margin, out_of_fold, residual_interval

Floats = NDArray[np.float64]

#: Names of models.
MODELS = ("elastic-net", "random-forest", "ada-boost", "gradient-boosting")
#: How parameters are chosen, and how sure answers are.
TUNES = ("none", "quick", "full")
INTERVALS = ("none", "residual", "quantiles")

#: Share of the features that a split of a tree may choose from: all would take three times as long and be no better.
SOME = 0.3
#: How far outside of what was free in the training a measurement may end, as a share of it: the error of a good one.
FREE_ROOM = 0.1
#: Values that are searched, by 5-fold cross-validation over runs.
GRIDS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "quick": {
        "elastic-net": {"alpha": [0.001, 0.01, 0.1]},
        "random-forest": {"min_samples_leaf": [3, 5]},
        "ada-boost": {"learning_rate": [0.3, 1.0]},
        "gradient-boosting": {"max_depth": [3, 5]},
    },
    "full": {
        "elastic-net": {"alpha": [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1], "l1_ratio": [0.1, 0.5, 0.9]},
        "random-forest": {"min_samples_leaf": [3, 5, 10], "max_features": [0.15, SOME, 0.6]},
        "ada-boost": {"learning_rate": [0.1, 0.3, 1.0], "n_estimators": [50, 100, 200]},
        "gradient-boosting": {"max_depth": [3, 4, 5], "n_estimators": [100, 200], "learning_rate": [0.05, 0.1]},
    },
}


@dataclass(frozen=True)
class Options:
    """What a model is made of."""

    features: str
    unit: str
    interval: str
    seed: int


def streams(
    data: Streams,
    model: str = "gradient-boosting",
    *,
    features: str = "fft",
    unit: str = "ns",
    tune: str = "none",
    interval: str = "residual",
    parameters: dict[str, Any] | None = None,
    seed: int = 1,
) -> Trained:
    """Trains a model on the training runs of ``data``, and scores it on its tests.

    Streams of several rates give a model that answers with a rate: it learns the available bandwidth, or the end of the
    probing rates that is nearer to it, which is all that a stream can show. Streams of one rate give one that says
    whether that rate is above.

    ``features`` is ``"fft"``, ``"mag"`` or ``"raw"``. ``unit`` is what gaps are counted in: ``"ns"``; for a model of paths
    of any capacity ``"send-gaps"``, the mean of the stream, or ``"packet-times"`` of a capacity that must then be known. ``tune`` searches parameters: ``"none"``, ``"quick"`` or ``"full"``. ``interval`` says how 90 %
    intervals are made: ``"none"``, ``"residual"`` or ``"quantiles"`` (gradient boosting only). ``parameters`` are those of the
    class of scikit-learn, such as ``{"n_estimators": 200}``.
    """
    for value, known, name in ((model, MODELS, "model"), (features, KINDS, "features"), (unit, UNITS, "unit"), (tune, TUNES, "tune"), (interval, INTERVALS, "interval")):
        if value not in known:
            raise ValueError(f"{name} `{value}` is none of {', '.join(known)}")
    options = Options(features, unit, interval if data.is_multi_rate else "none", seed)
    if options.interval == "quantiles" and model != "gradient-boosting":
        raise ValueError("intervals by quantiles are for gradient boosting")
    x, y = inputs(data, options), targets(data, options)
    train = data.train
    scaler = StandardScaler().fit(x[train]) if model == "elastic-net" else None
    scaled = x if scaler is None else scaler.transform(x)
    plain = _estimator(model, data.is_multi_rate, seed).set_params(**(parameters or {}))
    estimator = _tuned(plain, model, tune, (scaled[train], y[train], data.runs[train]))
    estimator.fit(scaled[train], y[train])
    document = {
        "format": "headway-model",
        "version": 1,
        "name": f"{model} of {'p-streams' if data.is_multi_rate else 'streams of one rate'}, {len(data.gaps[0][0])} packets",
        "task": "multi-rate" if data.is_multi_rate else "single-rate",
        "input": {"kind": features, "gaps": len(data.gaps[0][0]), "unit": unit},
        "shape": data.shape,
        "scaler": None if scaler is None else {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist()},
        "model": exported(estimator),
        "interval": _interval(estimator, (scaled[train], y[train]), data, options),
        "domain": domain(*_statistics(data, unit, train)) | {"free": _free(data)},
    }
    trained = Trained(estimator, scaler, document)
    trained.scores = score(trained, data, options)
    document["training"] = {
        "data-sha256": data.sha256,
        "rows": int(train.sum()),
        "runs": int(len(np.unique(data.runs[train]))),
        "seed": seed,
        "versions": versions(),
        "text": _described(data),
        "score": trained.scores,
    }
    return trained


def inputs(data: Streams, options: Options) -> Floats:
    """The features of all streams, a row each."""
    send, receive = data.gaps
    if options.unit != "ns":
        unit = _unit_ns(data, options.unit)[:, None]
        send, receive = send / unit, receive / unit
    return features(send, receive, options.features)


def targets(data: Streams, options: Options) -> NDArray[Any]:
    """What models learn: bits per ns, shares of the capacity, or whether the rate is above."""
    if not data.is_multi_rate:
        return data.above.astype(int)
    return np.asarray(data.clipped_bps / _unit_bps(data, options))


def _free(data: Streams) -> list[float]:
    """What was available in the runs of the training, as shares of the capacity: the lowest and the highest, with some room."""
    train = data.train
    shares = data.free_bps[train] / data.frame["capacity_bps"].to_numpy(float)[train]
    means = [float(shares[data.runs[train] == run].mean()) for run in np.unique(data.runs[train])]
    return [min(means) * (1 - FREE_ROOM), max(means) * (1 + FREE_ROOM)]


def _unit_ns(data: Streams, unit: str) -> Floats:
    """What gaps are counted in, ns."""
    return data.packet_times_ns if unit == "packet-times" else data.gaps[0].mean(axis=1)


def _unit_bps(data: Streams, options: Options) -> Any:
    """What answers are counted in, b/s: a packet in each unit of time."""
    if options.unit == "ns":
        return 1e9
    return data.frame["packet_wire_bytes"].to_numpy(float) * 8e9 / _unit_ns(data, options.unit)


def score(trained: Trained, data: Streams, options: Options) -> dict[str, float]:
    """How well a model does on the tests, or on what it was trained on where there are none."""
    tests = ~data.train if (~data.train).any() else data.train
    answered = trained.predict(inputs(data, options))
    if not data.is_multi_rate:
        wrong = (answered > 0.5) != data.above
        most = max(data.above[tests].mean(), 1 - data.above[tests].mean())
        return {"streams": int(tests.sum()), "wrong": float(wrong[tests].mean()), "wrong-always-the-same": float(1 - most)}
    tests = tests & data.covered
    free = data.free_bps
    error = answered * _unit_bps(data, options) / free - 1
    null = data.frame["average_bps"].to_numpy(float) / free - 1
    numbers: dict[str, float] = {"streams": int(tests.sum())}
    for name, values in (("", error[tests]), ("null-", null[tests])):
        numbers[name + "median"] = float(np.median(values))
        numbers[name + "within-10"] = float((np.abs(values) <= 0.1).mean())
    return numbers


def _estimator(model: str, regresses: bool, seed: int) -> Any:
    if model == "elastic-net":
        # A verdict is a number above one half.
        return ElasticNet(alpha=0.01, max_iter=20_000, random_state=seed)
    if model == "random-forest":
        kind = RandomForestRegressor if regresses else RandomForestClassifier
        return kind(100, min_samples_leaf=5, max_features=SOME, random_state=seed)
    if model == "ada-boost":
        if regresses:
            return AdaBoostRegressor(DecisionTreeRegressor(max_depth=6, max_features=SOME), n_estimators=100, random_state=seed)
        return AdaBoostClassifier(DecisionTreeClassifier(max_depth=2, max_features=SOME), n_estimators=100, random_state=seed)
    kind = GradientBoostingRegressor if regresses else GradientBoostingClassifier
    return kind(n_estimators=100, max_depth=4, subsample=0.5, max_features=SOME, random_state=seed)


def _tuned(estimator: Any, model: str, tune: str, data: tuple[Floats, NDArray[Any], NDArray[Any]]) -> Any:
    """The estimator with the parameters that do best on runs that it has not seen."""
    if tune == "none":
        return estimator
    x, y, runs = data
    folds = GroupKFold(min(FOLDS, len(np.unique(runs))))
    search = GridSearchCV(estimator, GRIDS[tune][model], cv=folds, n_jobs=None, refit=False, scoring=_error(estimator))
    search.fit(x, y, groups=runs)
    return estimator.set_params(**search.best_params_)


def _error(estimator: Any) -> str:
    return "accuracy" if hasattr(estimator, "predict_proba") else "neg_mean_absolute_error"


def _interval(estimator: Any, data: tuple[Floats, Floats], all_data: Streams, options: Options) -> dict[str, Any] | None:
    """Intervals are of streams whose probing rates cover the truth; the answer to others says only more or less."""
    if options.interval == "none":
        return None
    x, y = data
    runs, covered = all_data.runs[all_data.train], all_data.covered[all_data.train]
    if options.interval == "residual":
        return residual_interval(out_of_fold(estimator, x, y, runs)[covered], y[covered])
    ends = []
    for part in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        one = GradientBoostingRegressor(**{**estimator.get_params(), "loss": "quantile", "alpha": part})
        ends.append((one.fit(x, y), out_of_fold(one, x, y, runs)[covered]))
    (lower, low), (upper, high) = ends
    return {"level": LEVEL, "kind": "quantiles", "lower": exported(lower), "upper": exported(upper), "margin": margin(low, high, y[covered])}


def _statistics(data: Streams, unit: str, rows: NDArray[np.bool_]) -> tuple[list[str], Floats]:
    """Statistics in the unit of the model: their logarithms are of times."""
    names, values = data.statistics("stat")
    if unit != "ns":
        values = values.copy()
        for place, name in enumerate(names):
            if name.startswith("log10-"):
                values[:, place] -= np.log10(_unit_ns(data, unit))
    return names, values[rows]


def _described(data: Streams) -> str:
    frame = data.frame[data.train]
    values = {
        "traffic": sorted(frame["traffic"].unique()),
        "coalescing": sorted(frame["coalescing"].unique()),
        "capacity": [f"{bps / 1e9:g} Gb/s" for bps in sorted(frame["capacity_bps"].unique())],
        "average rate": [f"{frame['average_bps'].min() / 1e9:.3g} to {frame['average_bps'].max() / 1e9:.3g} Gb/s"],
    }
    return "Simulated. " + "; ".join(f"{name}: {', '.join(some)}" for name, some in values.items()) + "."

