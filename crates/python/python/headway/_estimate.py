"""Estimators of available bandwidth over recorded streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from headway import _arrays, _headway
from headway._model import Model, native
from headway._streams import Streams
from headway._table import Table, columns

_rates, _verdicts = _headway.estimators()

METHODS: tuple[str, ...] = tuple(_rates)
"""Names of the methods that answer with a rate."""

VERDICTS: tuple[str, ...] = tuple(_verdicts)
"""Names of the methods that judge whether the average rate of a stream is above the available bandwidth."""


class Estimates(Table):
    """What a method answered to each stream, and its score.

    Columns: ``average_bps`` of the stream, ``free_bps`` (the truth; NaN if not known), ``refused`` (why there is no
    answer, or an empty text), and either ``available_bps`` (NaN without an answer) with ``bound`` (``within``,
    ``at_least`` or ``at_most``) and with a model ``low_bps`` and ``high_bps``, or ``verdict`` (``above``, ``not_above`` or ``ambiguous``).
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], score: dict[str, Any]) -> None:
        """Take the columns and the score."""
        super().__init__(columns)
        self.score = score
        """The score with the keys of ``headway estimate --json``."""


def estimate(
    streams: Streams,
    method: str = "bass",
    *,
    denoise: str = "none",
    capacity_bps: float = 10e9,
    model: Model | None = None,
) -> Estimates:
    """Return what a method answers to recorded streams.

    Compare every method with ``null``, which answers the average rate of a stream without looking at it.

    :param streams: the streams
    :param method: one of ``headway.METHODS`` or ``headway.VERDICTS``, or ``learned`` with a ``model``
    :param denoise: how BASS denoises streams before: ``none``, ``one-pass``, ``two-passes`` or ``bass`` (all passes)
    :param capacity_bps: the capacity of the narrow link in b/s on the wire, to which thresholds are scaled
    :param model: the trained model that ``learned`` asks
    """
    if not isinstance(streams, Streams):
        raise _arrays.wrong("streams", f"must be headway.Streams, not {type(streams).__name__}")
    for argument, text in (("method", method), ("denoise", denoise)):
        if not isinstance(text, str):
            raise _arrays.wrong(argument, f"must be a name, not {text!r}")
    capacity = _arrays.rate("capacity_bps", capacity_bps)
    found, score = _headway.estimate(streams._arrays(), method, denoise, capacity, native(model))
    return Estimates(columns(found), json.loads(score))
