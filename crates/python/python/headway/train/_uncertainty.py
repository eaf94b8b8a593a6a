"""How sure an answer is, and whether a model has seen anything like it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

Floats = NDArray[np.float64]

#: Share of answers whose interval should hold the truth.
LEVEL = 0.9
#: Runs are dealt into so many parts; each is answered by a model that has not seen it.
FOLDS = 5
#: Fewer answers make no interval.
FEWEST = 20
#: Beyond what was seen in training, statistics may go by this share of the range that was seen.
MARGIN = 0.02
#: Differences below this mean nothing: statistics are ratios and decimal logarithms, so it is 5 or 12 %. Without it, a
#: model of one capacity would refuse the next estimate of the same.
SLIGHT = 0.05
#: Share of the training data that counts as too far from the rest of it.
TOO_FAR = 0.001


def out_of_fold(model: Any, x: Floats, y: NDArray[Any], runs: NDArray[Any], weights: Floats | None = None) -> Floats:
    """What models that have not seen a row's run answer to it."""
    folds = min(FOLDS, len(np.unique(runs)))
    if folds < 2:
        raise ValueError("data of one run cannot be split: simulate several")
    answers = np.empty(len(y))
    for train, test in GroupKFold(folds).split(x, y, runs):
        fresh = clone(model)
        if weights is None:
            fresh.fit(x[train], y[train])
        else:
            fresh.fit(x[train], y[train], sample_weight=weights[train])
        answers[test] = fresh.predict(x[test])
    return answers


def residual_interval(answers: Floats, truth: Floats) -> dict[str, Any]:
    """An interval around answers, relative to them, from answers to rows that the model had not seen.

    Streams of one run depend on each other, so the answers must be split by run (split-conformal, by run).
    """
    kept = answers > 0
    away = np.sort(truth[kept] / answers[kept] - 1.0)
    if len(away) < FEWEST:
        raise ValueError(f"too few answers for an interval: {FEWEST} at least")
    return {"level": LEVEL, "kind": "residual", "low": _quantile(away, (1 - LEVEL) / 2), "high": _quantile(away, (1 + LEVEL) / 2)}


def margin(lower: Floats, upper: Floats, truth: Floats) -> float:
    """By how much the ends of intervals must be moved apart so that they hold the truth (conformal quantile regression)."""
    away = np.sort(np.maximum(lower - truth, truth - upper))
    return _quantile(away, LEVEL)


def _quantile(ascending: Floats, part: float) -> float:
    """The quantile for a row that is not among them: of n values, the one at place part * (n + 1)."""
    place = part * (len(ascending) + 1) - 1
    index = np.ceil(place) if part > 0.5 else np.floor(place)
    return float(ascending[int(np.clip(index, 0, len(ascending) - 1))])


def domain(names: list[str], values: Floats) -> dict[str, Any]:
    """What the training data are like: the range of each statistic, and how far a row is from the middle of all."""
    low, high = values.min(axis=0), values.max(axis=0)
    room = np.maximum(MARGIN * (high - low), SLIGHT)
    mean = values.mean(axis=0)
    spread = np.maximum(values.std(axis=0), SLIGHT)
    scaled = (values - mean) / spread
    correlation = scaled.T @ scaled / len(scaled) + 0.01 * np.eye(len(names))
    whiten = np.linalg.cholesky(np.linalg.inv(correlation)).T / spread
    distance = np.linalg.norm((values - mean) @ whiten.T, axis=1)
    return {
        "statistics": names,
        "low": (low - room).tolist(),
        "high": (high + room).tolist(),
        "mean": mean.tolist(),
        "whiten": whiten.tolist(),
        "limit": float(np.quantile(distance, 1 - TOO_FAR)),
    }
