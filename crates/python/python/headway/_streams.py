"""Streams of probe packets."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway import _arrays, _headway
from headway._arrays import Integers

if TYPE_CHECKING:
    import pandas

LOST = -1
"""The time of arrival of a packet that did not arrive."""


class Streams:
    """Recorded streams of probe packets: when each packet was sent, and when it arrived.

    Times are of one dimension, stream after stream with their ``offsets``, or of two with a stream in each row. Arrays of
    ``int64`` are used where they are, so do not change them meanwhile.
    """

    def __init__(
        self,
        sent_ns: ArrayLike,
        received_ns: ArrayLike,
        *,
        packet_wire_bytes: int,
        offsets: ArrayLike | None = None,
        gap_ns: ArrayLike | None = None,
        average_bps: ArrayLike | None = None,
        free_bps: ArrayLike | None = None,
    ) -> None:
        """Take times and what is known beside them.

        :param sent_ns: when packets were sent, ns on the sender's clock, ascending in each stream
        :param received_ns: when they arrived, ns on the receiver's clock; ``headway.LOST`` if they did not
        :param packet_wire_bytes: the size of every packet on the wire: IP length + 38 on Ethernet
        :param offsets: where each stream begins in arrays of one dimension, and their length at the end; without it,
            they are one stream
        :param gap_ns: the gaps before packets as scheduled, which ``prc-mt-dp1`` and ``prc-mt-dp2`` need; that of the
            first packet of a stream does not matter
        :param average_bps: the average rate of each stream, otherwise from its first and its last send time
        :param free_bps: the true available bandwidth while each stream was sent, NaN where it is not known
        """
        sent = _arrays.integers("sent_ns", sent_ns)
        received = _arrays.integers("received_ns", received_ns, missing=LOST)
        self.offsets: Integers = _arrays.offsets(sent, offsets)
        self.sent_ns: Integers = _arrays.flat("sent_ns", sent)
        self.received_ns: Integers = _arrays.flat("received_ns", received, sent.shape)
        self.packet_wire_bytes = _arrays.count("packet_wire_bytes", packet_wire_bytes, 1)
        self.gap_ns: Integers | None = None
        if gap_ns is not None:
            self.gap_ns = _arrays.flat("gap_ns", _arrays.integers("gap_ns", gap_ns), sent.shape)
        self.average_bps = None if average_bps is None else _arrays.rates("average_bps", average_bps, len(self))
        self.free_bps = None if free_bps is None else _arrays.rates("free_bps", free_bps, len(self))

    @staticmethod
    def load(path: str | PathLike[str], packet_wire_bytes: int | None = None) -> Streams:
        """Read a file of streams, such as ``headway measure --streams`` writes (docs/estimate.md).

        :param packet_wire_bytes: the size of packets on the wire, for files without this column
        """
        if packet_wire_bytes is not None:
            packet_wire_bytes = _arrays.count("packet_wire_bytes", packet_wire_bytes, 1)
        found = _headway.read_streams(path, packet_wire_bytes)
        free = found.pop("free_bps")
        return Streams(**found, free_bps=np.where(free < 0, np.nan, free))

    def __len__(self) -> int:
        """Return the number of streams."""
        return max(self.offsets.size - 1, 0)

    def __repr__(self) -> str:
        """Tell how many streams and packets there are."""
        return f"Streams({len(self)} streams, {self.sent_ns.size} packets of {self.packet_wire_bytes} B on the wire)"

    def split(self, gaps: int) -> Streams:
        """Return the consecutive streams of so many gaps that each is made of, without the remainders.

        A measurement sends several p-streams in a row as one; 64 gaps are one p-stream.
        """
        gaps = _arrays.count("gaps", gaps, 2)
        counts = np.maximum(np.diff(self.offsets) - 1, 0) // gaps
        if not counts.any():
            raise _arrays.wrong("gaps", f"no stream has {gaps}")
        stream = np.repeat(np.arange(len(self)), counts)
        number = np.arange(stream.size) - np.repeat(np.cumsum(counts) - counts, counts)
        packets = (self.offsets[stream] + number * gaps)[:, np.newaxis] + np.arange(gaps + 1)
        free = None if self.free_bps is None else np.where(self.free_bps < 0, np.nan, self.free_bps)[stream]
        return Streams(
            self.sent_ns[packets],
            self.received_ns[packets],
            packet_wire_bytes=self.packet_wire_bytes,
            gap_ns=None if self.gap_ns is None else self.gap_ns[packets],
            average_bps=None if self.average_bps is None else self.average_bps[stream],
            free_bps=free,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with a row for each packet; lost ones have no ``received_ns`` (``pandas.NA``)."""
        import pandas

        sizes = np.diff(self.offsets)
        received = pandas.array(self.received_ns, dtype="Int64")
        received[self.received_ns == LOST] = pandas.NA
        columns: dict[str, Any] = {
            "stream": np.repeat(np.arange(len(self)), sizes),
            "index": np.arange(self.sent_ns.size) - np.repeat(self.offsets[:-1], sizes),
            "sent_ns": self.sent_ns,
            "received_ns": received,
        }
        return pandas.DataFrame(columns)

    def _arrays(self) -> dict[str, NDArray[Any] | int | None]:
        """Return what the native functions take."""
        return vars(self)
