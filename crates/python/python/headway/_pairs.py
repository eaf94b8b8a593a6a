"""Packet pairs and trains: the capacity and the place of the narrow link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headway import _arrays, _headway
from headway._streams import LOST


def ppdd(
    sent_ns: ArrayLike,
    received_ns: ArrayLike,
    *,
    packet_wire_bytes: int,
    hidden: int = 0,
    filter: str = "weights",
) -> dict[str, Any]:
    """Estimate the capacity of the narrow link from packet pairs: dispersion filtered by one-way delay (PPDD).

    Returns ``capacity_bps`` with ``low_bps`` and ``high_bps`` (90 % of the estimates from resampled pairs), ``bound``
    (``at_least`` if pairs left the sender no faster than this), ``confidence`` and ``is_clear``, the number of usable
    ``pairs``, and of those ``selected`` by the filter and ``clean``; beside it ``raw_mode_bps`` and ``capprobe_bps``,
    which others would answer. All count the bytes that ``packet_wire_bytes`` counts.

    :param sent_ns: a row for each pair: when its two packets were sent, ns on the sender's clock
    :param received_ns: when they arrived, ns on the receiver's clock; ``headway.LOST`` if they did not
    :param packet_wire_bytes: the size of a packet on the wire
    :param hidden: packets of a train between its first and last one that die on the way; 0 for pairs. The capacity is
        then that of the links that they crossed.
    :param filter: ``weights``; ``lowest``, for which few pairs suffice; ``quantiles``, as published; ``literal``,
        as printed, which has no answer on idle paths
    """
    return _headway.ppdd(_pairs(sent_ns, received_ns, packet_wire_bytes, hidden), str(filter))


def hire(
    sent_ns: ArrayLike,
    received_ns: ArrayLike,
    ttl: ArrayLike,
    *,
    packet_wire_bytes: int,
    hidden: int,
    narrow_bps: float,
    hops: int,
) -> dict[str, Any]:
    """Locate the narrow link with trains whose inner packets died on the way (HIRE).

    Returns ``hop``, counted from 1 at the sender, and the ``confidence`` that it is the right one. The error of a group
    with too few trains says how many more are needed.

    :param sent_ns: a row for each train: when its first and its last packet were sent, ns on the sender's clock
    :param received_ns: when they arrived, ns on the receiver's clock; ``headway.LOST`` if they did not
    :param ttl: the hop at which the hidden packets of each train expired, from 1
    :param packet_wire_bytes: the size of a packet on the wire
    :param hidden: packets of a train between its first and its last one
    :param narrow_bps: the capacity of the narrow link, b/s on the wire
    :param hops: the number of links to the receiver
    """
    trains = _pairs(sent_ns, received_ns, packet_wire_bytes, _arrays.count("hidden", hidden, 1, 1000))
    expired = _arrays.integers("ttl", ttl)
    if expired.ndim != 1:
        raise _arrays.wrong("ttl", f"must have one dimension, not {expired.ndim}")
    narrow = _arrays.rate("narrow_bps", narrow_bps)
    hop, confidence = _headway.hire(trains, expired, narrow, _arrays.count("hops", hops, 1, 255))
    return {"hop": hop, "confidence": confidence}


def _pairs(sent_ns: ArrayLike, received_ns: ArrayLike, packet_wire_bytes: int, hidden: int) -> dict[str, Any]:
    sent = _arrays.integers("sent_ns", sent_ns)
    received = _arrays.integers("received_ns", received_ns, missing=LOST)
    for argument, array in (("sent_ns", sent), ("received_ns", received)):
        if array.ndim != 2 or array.shape[1] != 2:
            raise _arrays.wrong(argument, f"must have two columns, but has the shape {array.shape}")
    if len(received) != len(sent):
        raise _arrays.wrong("received_ns", f"has {len(received)} rows, but sent_ns has {len(sent)}")
    if len(sent) > np.iinfo(np.uint32).max // (hidden + 2):
        raise _arrays.wrong("sent_ns", "has too many rows")
    return {
        "sent_ns": sent,
        "received_ns": received,
        "packet_wire_bytes": _arrays.count("packet_wire_bytes", packet_wire_bytes, 1),
        "hidden": _arrays.count("hidden", hidden, 0, 1000),
    }
