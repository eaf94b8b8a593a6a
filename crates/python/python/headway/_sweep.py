"""Sweeps: a scenario for every combination of values, with several seeds, on this machine or on a cluster."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import _arrays, _headway
from headway._scenario import program

if TYPE_CHECKING:
    import pandas

OnResult = Callable[[dict[str, Any]], object]
"""Receives a cell that has ended."""

_BACKENDS = ("local", "ray")
_KEYS = ("scenario", "on", "seeds", "columns", "set", "vary")


class Cells(Sequence[dict[str, Any]]):
    """The cells of a sweep in their order, each a dictionary.

    Keys: ``cell`` (number, from 1), ``world``, ``values`` (of the dimensions, by name), ``seed``, and ``summary``, as in
    the ``summary.json`` of a run, or ``error``; both are None if the cell has not ended.
    """

    def __init__(self, native: _headway.Sweep, output: Path) -> None:
        """Take what the native part has."""
        self._native = native
        self.output = output
        """The folder of the results."""

    def __getitem__(self, index: Any) -> Any:
        """Return a cell, or a list of cells for a slice."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return json.loads(self._native.cell(range(len(self))[index]))

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._native)

    def __repr__(self) -> str:
        """Name the number of cells and the folder."""
        return f"Cells({len(self)}, {str(self.output)!r})"

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The cells that failed."""
        return [cell for cell in self if cell["error"] is not None]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table, a row for each cell; needs pandas (``pip install headway[pandas]``)."""
        import pandas

        return pandas.read_csv(self.output / "cells.csv")


def sweep(
    file: str | PathLike[str] | Mapping[str, Any],
    *,
    backend: str = "local",
    jobs: int | None = None,
    output: str | PathLike[str] | None = None,
    on_result: OnResult | None = None,
    memory_bytes: int | None = None,
    helper: str | PathLike[str] | None = None,
) -> Cells:
    """Run every cell of a sweep (docs/sweep.md) that has no result yet, and write the table.

    Cells that fail do not stop the others; a warning says how many did. Ctrl-C, and an exception of ``on_result``, write
    what has ended; the same call goes on where that was.

    :param file: the file of the sweep, or what would be in it: ``{"scenario": "x.toml", "on": "sim", "set": {...}}``,
        whose scenario is relative to the working directory
    :param backend: ``local`` for threads of this process; ``ray`` for a cluster (``pip install headway[ray]``): the one
        to which ``ray.init`` has connected, or that the environment names, otherwise one of this machine. Cells that
        were on a node that is lost run again on others. Results are the same to the byte.
    :param jobs: cells at the same time; otherwise as many as there are processors
    :param output: the folder of the results, as that of ``headway sweep``, which may have begun it; otherwise
        ``results/NAME``
    :param on_result: called with each cell as soon as it has ended, in the order in which they do
    :param memory_bytes: memory of all cells of a machine together; otherwise three quarters of what is available
    :param helper: the program ``headway-lab``, which ``uml`` and ``lab`` need; otherwise the one in the PATH
    """
    if backend not in _BACKENDS:
        raise _arrays.wrong("backend", f"must be one of {', '.join(_BACKENDS)}, not {backend!r}")
    text, path = _read(file)
    jobs = None if jobs is None else _arrays.count("jobs", jobs, 1, 100_000)
    folder = Path(output) if output is not None else Path("results") / path.stem
    native = _headway.Sweep(text, path, folder, _headway.__file__)
    told = on_result or (lambda cell: None)

    def ended(number: int) -> None:
        told(json.loads(native.cell(number)))

    try:
        if backend == "local":
            if helper is None and native.world != "sim":
                helper = program()
            native.run(jobs or os.cpu_count() or 1, memory_bytes, helper, ended)
        else:
            from headway import _ray

            _ray.run(native, jobs, memory_bytes, helper, ended)
    finally:
        for sentence in native.close():
            warnings.warn(sentence, stacklevel=2)
    cells = Cells(native, folder)
    if failed := cells.failed:
        first = failed[0]
        warnings.warn(f"{len(failed)} of {len(cells)} cells failed, cell {first['cell']}: {first['error']}", stacklevel=2)
    return cells


def _read(file: str | PathLike[str] | Mapping[str, Any]) -> tuple[str, Path]:
    """Return the text of a sweep, and its file."""
    if not isinstance(file, Mapping):
        path = Path(file)
        return _headway.read_scenario(path), path.absolute()
    # A key a line, so that errors say where they are.
    lines = [f"{json.dumps(str(key))} = {_toml(str(key), value)}\n" for key, value in file.items()]
    return "".join(lines), Path("sweep.toml").absolute()


def _toml(key: str, value: object) -> str:
    """Return a value as TOML has it, on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(str(name))} = {_toml(f'{key}.{name}', one)}" for name, one in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, str | PathLike):
        return _quoted(os.fspath(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if hasattr(value, "tolist"):
        return _toml(key, value.tolist())
    if isinstance(value, Sequence | range):
        return "[" + ", ".join(_toml(key, one) for one in value) + "]"
    raise _arrays.wrong(f"file[{key!r}]", f"must be a text, a number, a list or a mapping, not {type(value).__name__}")


def _quoted(text: str) -> str:
    # Texts of JSON are texts of TOML, except for its pairs of surrogates, which this does not use, and for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
