"""What a model sees of a stream; the program computes the same (docs/learned.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KINDS = ("fft", "mag", "raw")
UNITS = ("ns", "packet-times", "send-gaps")


def features(send: NDArray[np.float64], receive: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """The features of streams, a row each, from gaps in the unit of the model.

    They are rounded to 32 bits, as trees of scikit-learn see them, and returned as 64-bit numbers, so that everything
    else is computed with those.
    """
    gaps = np.hstack([send, receive])
    if kind == "raw":
        values = gaps
    else:
        spectrum = np.fft.rfft(gaps, axis=1)
        values = np.abs(spectrum) if kind == "mag" else np.hstack([spectrum.real, spectrum.imag])
    return values.astype(np.float32).astype(np.float64)
