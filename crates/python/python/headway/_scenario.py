"""Simulated and emulated networks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from headway import _arrays, _headway
from headway._headway import RunError
from headway._table import Table, columns

if TYPE_CHECKING:
    import pandas

_PROGRAM = "headway-lab"


class Results(Mapping[str, Table]):
    """The results of a run: a mapping from names of tables to tables, as in the files of ``headway run``.

    Tables: ``flows``, ``links``, ``goodput``, ``truth``, and where there is something to tell ``tcp``, ``streams``,
    ``completions`` and ``control``.
    """

    def __init__(self, native: Mapping[str, Any]) -> None:
        """Take what the native part returns."""
        self._tables = {name: Table(columns(table)) for name, table in native["tables"].items()}
        if native["control"]:
            self._tables["control"] = _of_lines(native["control"])
        self.summary: dict[str, Any] = json.loads(native["summary"])
        """The summary with the keys of ``summary.json``."""
        self.troubles: list[str] = native["troubles"]
        """Why the run is not valid, and which programs failed."""
        self.events: int = native["events"]
        """Events that were processed; 0 in worlds that do not count them."""
        self.wall_ns: int = native["wall_ns"]
        """How long the run took in real time."""

    def __getitem__(self, name: str) -> Table:
        """Return a table."""
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tables."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    def __repr__(self) -> str:
        """Name the scenario, the world, the seed and the tables."""
        run = (self.summary[key] for key in ("scenario", "world", "seed"))
        return "Results({} on {}, seed {}: {})".format(*run, ", ".join(self))

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """Return every table as a DataFrame; needs pandas (``pip install headway[pandas]``)."""
        return {name: table.to_pandas() for name, table in self.items()}


def _of_lines(lines: str) -> Table:
    """Return a table of JSON objects, one a line."""
    rows = [json.loads(line) for line in lines.splitlines()]
    return Table({name: np.array([row[name] for row in rows]) for name in rows[0]})


class Scenario:
    """A network with its flows and traffic, read from a TOML file (docs/simulate.md) and checked."""

    def __init__(
        self, text: str, path: str | PathLike[str] = "scenario.toml", *, changes: Sequence[str] = (), dilation: int = 1
    ) -> None:
        """Read a scenario from text.

        :param path: the name in error messages; files that the text names are relative to its folder
        :param changes: keys to set, such as ``link.0.rate=50 Mb/s``
        :param dilation: how many times slower everything runs: divides rates, multiplies times
        """
        self._given = (text, fspath(path), list(changes), _arrays.count("dilation", dilation, 1))
        self._native = _headway.Scenario(*self._given)

    @staticmethod
    def load(path: str | PathLike[str], changes: Mapping[str, object] | None = None) -> Scenario:
        """Read a scenario file, and set some of its keys as ``set`` does."""
        return Scenario(_headway.read_scenario(path), path, changes=_changes(changes or {}))

    def set(self, changes: Mapping[str, object]) -> Scenario:
        """Return the scenario with some keys set, such as ``{"link.0.rate": "50 Mb/s", "flow.1.controller": "reno"}``."""
        text, path, before, dilation = self._given
        return Scenario(text, path, changes=before + _changes(changes), dilation=dilation)

    def dilated(self, dilation: int) -> Scenario:
        """Return the scenario with everything slower by a factor, which reduces timing errors on ``lab``."""
        text, path, changes, _ = self._given
        return Scenario(text, path, changes=changes, dilation=dilation)

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self._native.name

    @property
    def seed(self) -> int:
        """The seed in the file."""
        return self._native.seed

    @property
    def duration_ns(self) -> int:
        """The duration of a run."""
        return self._native.duration_ns

    def run(self, on: str = "sim", *, seed: int | None = None, helper: str | PathLike[str] | None = None) -> Results:
        """Run the scenario once; Ctrl-C ends it.

        :param on: the world: ``sim``, the simulator; ``uml``, the stack of Linux in virtual time; ``lab``, this host's
            TCP over emulated links, in real time
        :param seed: the seed of all random numbers, otherwise the one in the file
        :param helper: the program ``headway-lab``, which ``uml`` and ``lab`` need; otherwise the one in the PATH
        """
        return self.run_all([self.seed if seed is None else seed], on, helper=helper)[0]

    def run_all(
        self,
        seeds: Sequence[int],
        on: str = "sim",
        *,
        jobs: int = 1,
        helper: str | PathLike[str] | None = None,
    ) -> list[Results]:
        """Run the scenario with every seed; Ctrl-C ends it.

        :param jobs: runs at the same time in virtual time; results do not depend on it
        """
        found = [_arrays.count("seed", seed, 0, 2**64 - 1) for seed in seeds]
        jobs = _arrays.count("jobs", jobs, 1, 1024)
        if helper is None and on != "sim":
            helper = program()
        return [Results(run) for run in self._native.run(on, found, jobs, helper)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what the scenario was read from."""
        return _again, self._given

    def __repr__(self) -> str:
        """Name the scenario and what was set."""
        return f"Scenario({', '.join([self.name, *self._given[2]])})"


def _again(text: str, path: str, changes: list[str], dilation: int) -> Scenario:
    return Scenario(text, path, changes=changes, dilation=dilation)


def _changes(changes: Mapping[str, object]) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in changes.items()]


def _value(value: object) -> str:
    """Return a value as TOML has it; texts need no quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def program() -> str:
    """Return the program headway-lab, which does the work of helper processes."""
    found = shutil.which(_PROGRAM)
    if found is None:
        raise RunError(f"the program `{_PROGRAM}` is not in the PATH; install it, or name it as helper=")
    return found
