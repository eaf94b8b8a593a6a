"""A trained model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]


@dataclass
class Trained:
    """A model of scikit-learn, the file that the program reads, and how well it does."""

    #: What scikit-learn made, without the scaler.
    estimator: Any
    #: What is done with features before they reach it; ``None`` if nothing.
    scaler: StandardScaler | None
    #: The model file.
    document: dict[str, Any]
    #: How well it did, on runs that it has not seen where the data have some.
    scores: dict[str, float] = field(default_factory=dict)

    def scaled(self, x: Floats) -> Floats:
        """Features as the estimator takes them."""
        return x if self.scaler is None else np.asarray(self.scaler.transform(x))

    def predict(self, x: Floats) -> Floats:
        """What the model file answers to features: a number in its unit, or a probability."""
        return answers(self.estimator, self.scaled(x))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file (JSON)."""
        Path(path).write_text(json.dumps(self.document, allow_nan=False, separators=(",", ":")) + "\n")


def answers(estimator: Any, x: Floats) -> Floats:
    """Numbers of a regressor, probabilities of the second class of a classifier."""
    if not hasattr(estimator, "classes_"):
        return np.asarray(estimator.predict(x))
    weights = getattr(estimator, "estimator_weights_", None)
    if weights is not None:
        # AdaBoost is a vote, which its probabilities hide.
        votes = np.array([one.predict(x) for one in estimator.estimators_], dtype=float)
        used = np.asarray(weights)[: len(votes)]
        return np.asarray(used @ votes / used.sum())
    return np.asarray(estimator.predict_proba(x)[:, 1])


def versions() -> dict[str, str]:
    """What took part in the training."""
    found = {"scikit-learn": sklearn.__version__, "numpy": np.__version__}
    try:
        found["headway"] = version("headway")
    except PackageNotFoundError:
        # A source tree that is not installed.
        pass
    return found
