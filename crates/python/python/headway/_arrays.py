"""Checks of arguments, whose errors name the argument."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway._headway import HeadwayError

Integers = NDArray[np.int64]


def wrong(argument: str, reason: str) -> HeadwayError:
    """Return an error that names the argument at fault."""
    return HeadwayError(f"{argument}: {reason}")


def integers(argument: str, values: ArrayLike, missing: int | None = None) -> Integers:
    """Return whole numbers as a contiguous array of ``int64``, without a copy if they are one already.

    Points in time (``datetime64``) and spans become nanoseconds; NaT becomes ``missing`` if that is given.
    """
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind in "mM":
        array = _nanoseconds(argument, array, missing)
    elif kind == "f":
        raise wrong(argument, _about_floats(array))
    elif kind not in "iu":
        raise wrong(argument, f"must be an array of whole numbers (int64), not of {array.dtype}")
    elif kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise wrong(argument, "has a number above 2^63 - 1")
    return np.asarray(array, dtype=np.int64, order="C")


def _nanoseconds(argument: str, array: NDArray[Any], missing: int | None) -> Integers:
    none = np.isnat(array)
    if missing is None and none.any():
        raise wrong(argument, f"element {_first(none)} is NaT")
    unit = f"{array.dtype.kind}8[ns]"
    numbers = array.astype(unit).astype(np.int64)
    if missing is not None:
        numbers[none] = missing
    return numbers


def _about_floats(array: NDArray[Any]) -> str:
    none = np.isnan(array)
    if none.any():
        return f"element {_first(none)} is NaN; where a packet did not arrive, its time is headway.LOST, in an array of int64"
    return f"must be an array of whole numbers (int64), not of {array.dtype}, which cannot hold all nanoseconds"


def _first(flags: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(flags)[0])


def rates(argument: str, values: ArrayLike, count: int) -> Integers:
    """Return a rate for each of ``count`` streams, -1 where it is not known (NaN); one number stands for all."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise wrong(argument, f"must be an array of numbers, not of {array.dtype}")
    if array.ndim == 0:
        array = np.full(count, array)
    if array.shape != (count,):
        raise wrong(argument, f"has the shape {array.shape}, but there are {count} streams")
    if (array < 0).any() or np.isinf(array).any():
        raise wrong(argument, f"element {_first((array < 0) | np.isinf(array))} is no rate")
    return np.ascontiguousarray(np.where(np.isnan(array), -1, array), dtype=np.int64)


def rate(argument: str, value: float) -> float:
    """Return a rate above 0."""
    number = _number(argument, value)
    if not (math.isfinite(number) and number > 0):
        raise wrong(argument, f"must be a rate of more than 0 b/s, not {value}")
    return number


def _number(argument: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise wrong(argument, f"must be a number, not {value!r}") from None


def count(argument: str, value: int, least: int, most: int = 2**31) -> int:
    """Return a whole number from ``least`` to ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(argument, f"must be a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise wrong(argument, f"must be from {least} to {most}, not {number}")
    return number


def flat(argument: str, array: Integers, shape: tuple[int, ...] | None = None) -> Integers:
    """Return an array of one dimension; of two, row after row. Its shape must be ``shape`` if that is given."""
    if array.ndim not in (1, 2):
        raise wrong(argument, f"must have one dimension or two, not {array.ndim}")
    if shape is not None and array.shape != shape:
        raise wrong(argument, f"has the shape {array.shape} instead of {shape}")
    row: Integers = array.reshape(-1)
    return row


def offsets(array: Integers, given: ArrayLike | None) -> Integers:
    """Return where the streams in an array begin: its rows, or as ``given``, or else one stream."""
    if array.ndim == 2:
        if given is not None:
            raise wrong("offsets", "are for arrays of one dimension; rows are streams already")
        rows, packets = array.shape
        begins: Integers = np.arange(rows + 1, dtype=np.int64) * packets
        return begins
    if given is None:
        return np.array([0, array.size], dtype=np.int64)
    found = integers("offsets", given)
    if found.ndim != 1:
        raise wrong("offsets", f"must have one dimension, not {found.ndim}")
    return found
