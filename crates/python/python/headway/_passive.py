"""Passive estimates from the segments of a TCP transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway import _arrays, _headway
from headway._model import Model, native
from headway._table import Table, columns


class Passive(Table):
    """Estimates from the segments of a transfer, a row for each window.

    Columns: ``end_ns`` and ``window_ns``, the end and the length of a window; ``free_bps``, what is free beside cross
    traffic, with an interval ``free_low_bps`` to ``free_high_bps``; ``samples``.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], transfer: dict[str, Any]) -> None:
        """Take the columns, and what is known of the transfer."""
        super().__init__(columns)
        self.transfer = transfer
        """What is known of the transfer: ``capacity_bps``, ``rtt_ns``, which windows were used and why others were not,
        what limited the transfer for which share of time, and what went wrong."""


def sabes(
    at_ns: ArrayLike,
    is_ack: ArrayLike,
    sequence: ArrayLike,
    acknowledgement: ArrayLike,
    payload_bytes: ArrayLike,
    *,
    flags: ArrayLike,
    window: ArrayLike,
    headers_ip_bytes: ArrayLike = 52,
    window_scale: ArrayLike = -1,
    mss_bytes: ArrayLike = -1,
    timestamp: ArrayLike = -1,
    echo: ArrayLike = -1,
    sack: ArrayLike = 0,
    side: str = "sender",
    nic_bps: float = 1e9,
    window_ns: int | None = 200_000_000,
    form: str = "guarded",
    framing_wire_bytes: int = 38,
    model: Model | None = None,
) -> Passive:
    """Estimate what is free on the path of a TCP transfer from the segments that passed a tap (SABES).

    All arrays have an element for each segment of one connection, in the order in which they passed; a single number
    stands for all. What is optional is -1 in segments without it.

    :param at_ns: when the segment passed, ns
    :param is_ack: whether it went from the receiver of the data to its sender
    :param sequence: the sequence number
    :param acknowledgement: the acknowledgement number, which counts where the ACK flag is set
    :param payload_bytes: bytes of TCP payload
    :param flags: the flags of the TCP header: FIN 1, SYN 2, RST 4, ACK 16
    :param window: the window field, not scaled
    :param headers_ip_bytes: bytes of IP and TCP headers with their options
    :param window_scale: the shift count in a SYN
    :param mss_bytes: the maximum segment size in a SYN
    :param timestamp: the value of the timestamps option
    :param echo: its echo
    :param sack: whether the segment has SACK blocks
    :param side: where the tap is: near the ``sender`` of the data or near the ``receiver``
    :param nic_bps: the rate of the NIC at the tap, b/s
    :param window_ns: the length of windows that do not overlap; ``None`` for the last RTT at every ACK
    :param form: ``guarded`` or, as published, ``literal``
    :param framing_wire_bytes: bytes on the wire around each IP packet
    :param model: a trained model that judges windows in place of the rules
    """
    given: dict[str, ArrayLike] = {
        "at_ns": at_ns,
        "is_ack": is_ack,
        "sequence": sequence,
        "acknowledgement": acknowledgement,
        "payload_bytes": payload_bytes,
        "headers_ip_bytes": headers_ip_bytes,
        "window": window,
        "flags": flags,
        "window_scale": window_scale,
        "mss_bytes": mss_bytes,
        "timestamp": timestamp,
        "echo": echo,
        "sack": sack,
    }
    settings = {
        "side": str(side),
        "nic_bps": _arrays.rate("nic_bps", nic_bps),
        "window_ns": None if window_ns is None else _arrays.count("window_ns", window_ns, 1, 10**12),
        "form": str(form),
        "framing_wire_bytes": _arrays.count("framing_wire_bytes", framing_wire_bytes, 0, 1000),
    }
    found, transfer = _headway.sabes(_segments(given), settings, native(model))
    return Passive(columns(found), transfer)


def _segments(given: dict[str, ArrayLike]) -> dict[str, NDArray[np.int64]]:
    """Return all columns with the length of the first."""
    segments: dict[str, NDArray[np.int64]] = {}
    for name, values in given.items():
        array = np.asarray(values)
        if array.dtype.kind == "b":
            array = array.astype(np.int64)
        column = _arrays.integers(name, array)
        if column.ndim == 0 and segments:
            column = np.full(segments["at_ns"].size, column, dtype=np.int64)
        if column.ndim != 1:
            raise _arrays.wrong(name, f"must have one dimension, not {column.ndim}")
        segments[name] = column
    return segments
