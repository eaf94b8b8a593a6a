"""Tables: columns by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas


def columns(native: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of a native table, whose texts are numbers and the list that they count in."""
    return {name: _texts(*column) if isinstance(column, tuple) else column for name, column in native.items()}


def _texts(codes: NDArray[np.uint32], names: list[str]) -> NDArray[np.str_]:
    # The number of no name is the largest one of its type.
    return np.array([*names, ""], dtype=np.str_)[np.minimum(codes, len(names))]


class Table(Mapping[str, NDArray[Any]]):
    """A mapping from names of columns to numpy arrays of equal length.

    Where numbers can be missing, a column is ``float64`` and has NaN for them.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Take columns of equal length."""
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __repr__(self) -> str:
        """Name type, columns and rows."""
        rows = len(next(iter(self._columns.values()), ()))
        return f"{type(self).__name__}({rows} rows: {', '.join(self)})"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with the same columns; needs pandas (``pip install headway[pandas]``)."""
        import pandas

        return pandas.DataFrame(self._columns)
