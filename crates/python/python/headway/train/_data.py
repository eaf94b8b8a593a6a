"""Tables of ``headway dataset``, read into arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Files = str | PathLike[str] | Iterable[str | PathLike[str]]


class DataError(ValueError):
    """A table lacks something, or has something that cannot be."""


@dataclass
class Table:
    """What tables of streams and of windows have in common."""

    frame: pd.DataFrame
    sha256: str

    @property
    def runs(self) -> NDArray[Any]:
        """The run of each row; no run is split between training and tests."""
        return self.frame["run"].to_numpy()

    @property
    def train(self) -> Bools:
        """Which rows are for training."""
        return (self.frame["part"] == "train").to_numpy()

    @property
    def free_bps(self) -> Floats:
        """The truth: what was available, b/s on the wire."""
        return self.frame["free_bps"].to_numpy(float)

    def __len__(self) -> int:
        return len(self.frame)

    def numbered(self, prefix: str) -> Floats:
        """The columns ``prefix_0``, ``prefix_1`` and so on, a row for each of the table's."""
        names = [name for name in self.frame.columns if name.removeprefix(prefix + "_").isdigit() and name.startswith(prefix + "_")]
        if not names:
            raise DataError(f"the table has no columns `{prefix}_0`, `{prefix}_1` and so on")
        names.sort(key=lambda name: int(name.rpartition("_")[2]))
        return self.frame[names].to_numpy(float)

    def statistics(self, prefix: str) -> tuple[list[str], Floats]:
        """The names and values of what says how alike rows are."""
        names = [name for name in self.frame.columns if name.startswith(prefix + "_")]
        return [name.removeprefix(prefix + "_") for name in names], self.frame[names].to_numpy(float)


class Streams(Table):
    """Streams of one shape."""

    @property
    def gaps(self) -> tuple[Floats, Floats]:
        """Send and receive gaps in ns, a row for each stream."""
        return self.numbered("send_gap_ns"), self.numbered("receive_gap_ns")

    @property
    def is_multi_rate(self) -> bool:
        """Whether streams have several rates."""
        return bool(self.frame["rates"].iloc[0] > 1)

    @property
    def packet_times_ns(self) -> Floats:
        """How long a packet takes on the narrow link of each stream, ns."""
        return (self.frame["packet_wire_bytes"] * 8e9 / self.frame["capacity_bps"]).to_numpy(float)

    @property
    def covered(self) -> Bools:
        """Whether the truth is within the probing rates."""
        return (self.frame["covered"] == 1).to_numpy()

    @property
    def above(self) -> Bools:
        """Whether the average rate is above the truth."""
        return (self.frame["above"] == 1).to_numpy()

    @property
    def clipped_bps(self) -> Floats:
        """The truth, or the end of the probing rates that is nearer to it: all that a stream can show."""
        low, high = self.frame["lowest_bps"], self.frame["highest_bps"]
        return self.frame["free_bps"].clip(low, high).to_numpy(float)

    @property
    def shape(self) -> dict[str, Any]:
        """The shape of the streams, as a model file has it."""
        first = self.frame.iloc[0]
        return {
            "rates": int(first["rates"]),
            "packets-per-rate": int(first["packets_per_rate"]),
            "range": float(first["range"]),
            "packet-wire-bytes": int(first["packet_wire_bytes"]),
        }


class Windows(Table):
    """Windows of SABES."""

    @property
    def mean_bps(self) -> Floats:
        """The mean of the samples of each window, b/s."""
        return self.frame["mean_bps"].to_numpy(float)

    @property
    def bottleneck_bps(self) -> Floats:
        """The true capacity, b/s."""
        return self.frame["bottleneck_bps"].to_numpy(float)

    @property
    def capacity_bps(self) -> Floats:
        """The capacity as estimated, b/s."""
        return self.frame["capacity_bps"].to_numpy(float)

    @property
    def passed(self) -> Bools:
        """Whether a window passes the published rules."""
        return (self.frame["passed"] == 1).to_numpy()

    @property
    def good(self) -> Bools:
        """Whether the mean is close to the truth."""
        return (self.frame["good"] == 1).to_numpy()


def read_streams(files: Files | pd.DataFrame) -> Streams:
    """Reads tables of streams (CSV or Parquet), one after the other; their shape must be the same."""
    frame, sha256 = _read(files, ["run", "part", "rates", "free_bps", "covered", "send_gap_ns_0", "receive_gap_ns_0"])
    for column in ("rates", "packets_per_rate", "range"):
        if frame[column].nunique() > 1:
            raise DataError(f"streams differ in `{column}`: train a model for each shape")
    streams = Streams(frame, sha256)
    for name, gaps in zip(("send", "receive"), streams.gaps):
        if not np.isfinite(gaps).all() or (gaps < 0).any():
            raise DataError(f"a {name} gap is missing or negative")
    return streams


def read_windows(files: Files | pd.DataFrame) -> Windows:
    """Reads tables of windows (CSV or Parquet), one after the other."""
    frame, sha256 = _read(files, ["run", "part", "free_bps", "mean_bps", "capacity_bps", "passed", "good", "histogram_0"])
    return Windows(frame, sha256)


def _read(files: Files | pd.DataFrame, needed: list[str]) -> tuple[pd.DataFrame, str]:
    """Joins tables; runs of different tables get different names."""
    if isinstance(files, pd.DataFrame):
        frames = [files]
        hashes = [hashlib.sha256(files.to_csv(index=False).encode()).hexdigest()]
    else:
        paths = [Path(files)] if isinstance(files, str | PathLike) else [Path(file) for file in files]
        if not paths:
            raise DataError("no table is named")
        frames = [pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path) for path in paths]
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    for frame in frames:
        for name in needed:
            if name not in frame.columns:
                raise DataError(f"the table has no column `{name}`")
    if len(frames) > 1:
        frames = [frame.assign(run=f"{index}:" + frame["run"].astype(str)) for index, frame in enumerate(frames)]
    joined = pd.concat(frames, ignore_index=True)
    if not (joined["part"] == "train").any():
        raise DataError("no row is for training: its `part` would be `train`")
    sha256 = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return joined, sha256
