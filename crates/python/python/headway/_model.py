"""Trained models."""

from __future__ import annotations

from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from headway import _arrays, _headway
from headway._table import Table


class Model:
    """A trained model, read from its file: JSON that ``headway.train`` writes. Nothing in it is executed."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Read and check a model file."""
        self._native = _headway.Model(path)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._native.name

    @property
    def task(self) -> str:
        """What it answers: ``multi-rate``, ``single-rate``, ``sabes-nn`` or ``sabes-kde``."""
        return self._native.task

    @property
    def features(self) -> int:
        """The number of its features."""
        return self._native.features

    def predict(self, features: ArrayLike) -> Table:
        """Return what the model answers to features, in the unit of its answer and without looking at its domain.

        Columns: ``value``, and the ends ``low`` and ``high`` of its interval, NaN where the model has none.

        :param features: a row for each answer, as ``float32``
        """
        given = np.asarray(features)
        if given.dtype.kind not in "iuf" or given.ndim != 2:
            raise _arrays.wrong("features", f"must be numbers in rows, not {given.dtype} of {given.ndim} dimensions")
        return Table(self._native.predict(np.asarray(given, dtype=np.float32, order="C")))

    def __repr__(self) -> str:
        """Tell the name and the task."""
        return f"Model({self.name}: {self.task})"


def native(model: Model | None) -> _headway.Model | None:
    """Return what the native functions take."""
    if model is None:
        return None
    if not isinstance(model, Model):
        raise _arrays.wrong("model", f"must be headway.Model, not {type(model).__name__}")
    return model._native
