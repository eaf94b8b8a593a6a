"""Gaps between packets, and what interrupt coalescing, bursts and delayed ACKs do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway import _arrays, _headway
from headway._table import Table

if TYPE_CHECKING:
    import pandas


class Gaps(Table):
    """Send and receive gaps of streams; element i of both belongs to the same packet.

    Columns: ``send_gap_ns`` and ``receive_gap_ns``, stream after stream; ``offsets``, where each stream begins, and their
    length at the end. From ``bass`` also, for each stream: ``first``, the position of the first gap that is kept, and
    ``passes``, the number of passes, 0 for a stream of which too few gaps remain.
    """

    def stream(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the send gaps and the receive gaps of a stream, ns."""
        part = slice(*self["offsets"][index:][:2])
        return self["send_gap_ns"][part], self["receive_gap_ns"][part]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with a row for each gap: ``stream``, ``index`` before denoising, and both gaps."""
        import pandas

        begins, sizes = self["offsets"][:-1], np.diff(self["offsets"])
        first = self["first"] if "first" in self else np.zeros_like(begins)
        columns: dict[str, Any] = {
            "stream": np.repeat(np.arange(sizes.size), sizes),
            "index": np.arange(sizes.sum()) - np.repeat(begins - first, sizes),
            "send_gap_ns": self["send_gap_ns"],
            "receive_gap_ns": self["receive_gap_ns"],
        }
        return pandas.DataFrame(columns)


def bass(
    send_gap_ns: ArrayLike,
    receive_gap_ns: ArrayLike,
    *,
    offsets: ArrayLike | None = None,
    packet_wire_bytes: int = 9038,
    capacity_bps: float = 10e9,
    window: int = 16,
) -> Gaps:
    """Remove what interrupt coalescing and bursts do to the gaps of streams (buffering-aware spike smoothing, BASS).

    Packets that wait in a buffer and leave together arrive with one large gap and then with tiny ones. Both arrays are
    replaced by their means over each such event; events that the ends of a stream cut off are removed.

    :param send_gap_ns: gaps between packets at the sender, ns; several streams as for ``headway.Streams``
    :param receive_gap_ns: the gaps between the same packets at the receiver, ns, not negative
    :param offsets: where each stream begins in arrays of one dimension, and their length at the end
    :param packet_wire_bytes: the size of a packet on the wire
    :param capacity_bps: the capacity of the narrow link in b/s on the wire; thresholds are scaled to the time that a
        packet takes there
    :param window: the length of the final moving average in gaps, usually the packets sent at each rate; 1 for none
    """
    send = _arrays.integers("send_gap_ns", send_gap_ns)
    receive = _arrays.integers("receive_gap_ns", receive_gap_ns)
    found = _headway.bass(
        _arrays.flat("send_gap_ns", send),
        _arrays.flat("receive_gap_ns", receive, send.shape),
        _arrays.offsets(send, offsets),
        _arrays.count("packet_wire_bytes", packet_wire_bytes, 1),
        _arrays.rate("capacity_bps", capacity_bps),
        _arrays.count("window", window, 1),
    )
    return Gaps(found)


def normalise(send_gap_ns: ArrayLike, stamp_us: ArrayLike, *, packets: int) -> Gaps:
    """Return the gaps of streams whose receiver acknowledged several packets at a time.

    The interval between two packets with timestamps is spread evenly over the packets that it covers. The first stream
    has fewer gaps than packets: those up to the first timestamp have none.

    :param send_gap_ns: the gap before each packet of the connection at the sender, ns
    :param stamp_us: the arrival time that the ACK of each packet carried, in microseconds; 0 for packets without
    :param packets: the packets of a stream; an incomplete stream at the end is dropped
    """
    send = _arrays.flat("send_gap_ns", _arrays.integers("send_gap_ns", send_gap_ns))
    stamps = _arrays.flat("stamp_us", _arrays.integers("stamp_us", stamp_us))
    return Gaps(_headway.normalise(send, stamps, _arrays.count("packets", packets, 1)))
