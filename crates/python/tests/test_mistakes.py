"""Whatever cannot be used is an exception that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PACKET, streams

import headway

GOOD = np.arange(65) * 10_000
ROWS = np.tile(GOOD, (4, 1))


def made(sent: Any = GOOD, received: Any = GOOD, **more: Any) -> headway.Streams:
    """Return streams with one argument at fault."""
    return headway.estimate(headway.Streams(sent, received, **{"packet_wire_bytes": PACKET, **more}), "bass")


def bass(send: Any = GOOD, receive: Any = GOOD, **more: Any) -> headway.Gaps:
    return headway.bass(send, receive, **more)


def changed(index: int, value: int) -> np.ndarray:
    array = GOOD.copy()
    array[index] = value
    return array


NAN = np.where(np.arange(65) == 7, np.nan, GOOD)

MISTAKES: list[tuple[str, str, Callable[[], object]]] = [
    ("sent_ns", "element 7 is NaN", lambda: made(sent=NAN)),
    ("received_ns", "element 7 is NaN", lambda: made(received=NAN)),
    ("sent_ns", "not of float64", lambda: made(sent=GOOD.astype(float))),
    ("sent_ns", "not of <U5", lambda: made(sent=np.array(["first"] * 65))),
    ("sent_ns", "not of object", lambda: made(sent=[None] * 65)),
    ("sent_ns", "above 2", lambda: made(sent=np.full(65, 2**63, dtype=np.uint64))),
    ("sent_ns", "element 3 is NaT", lambda: made(sent=np.array(["2020"] * 3 + ["NaT"], dtype="datetime64[ns]"))),
    ("sent_ns", "one dimension or two", lambda: made(sent=ROWS[np.newaxis], received=ROWS[np.newaxis])),
    ("sent_ns", "packet 5 of stream 0 is earlier", lambda: made(sent=changed(5, 1))),
    ("sent_ns", "packet 0 of stream 0 is negative", lambda: made(sent=changed(0, -3))),
    ("received_ns", "packet 9 of stream 0 is negative", lambda: made(received=changed(9, -2))),
    ("received_ns", "has the shape", lambda: made(received=GOOD[:-1])),
    ("offsets", "end with 65", lambda: made(offsets=[0, 64])),
    ("offsets", "element 2 is less", lambda: made(offsets=[0, 40, 20, 65])),
    ("offsets", "rows are streams", lambda: made(ROWS, ROWS, offsets=[0, 65])),
    ("packet_wire_bytes", "whole number", lambda: made(packet_wire_bytes=1538.5)),
    ("packet_wire_bytes", "from 1", lambda: made(packet_wire_bytes=0)),
    ("gap_ns", "has the shape", lambda: made(gap_ns=GOOD[1:])),
    ("gap_ns", "packet 5 of stream 0 is negative", lambda: made(gap_ns=changed(5, -1))),
    ("free_bps", "there are 1 streams", lambda: made(free_bps=[1e6, 2e6])),
    ("free_bps", "no rate", lambda: made(free_bps=-1)),
    ("average_bps", "numbers", lambda: made(average_bps="fast")),
    ("streams", "headway.Streams", lambda: headway.estimate(GOOD)),
    ("method", "did you mean `bass`", lambda: headway.estimate(streams(), "bas")),
    ("method", "name", lambda: headway.estimate(streams(), 3)),
    ("denoise", "none of none", lambda: headway.estimate(streams(), denoise="twice")),
    ("capacity_bps", "more than 0", lambda: headway.estimate(streams(), capacity_bps=float("nan"))),
    ("capacity_bps", "number", lambda: headway.estimate(streams(), capacity_bps="10 Gb/s")),
    (
        "gap_ns",
        "needs the scheduled gaps",
        lambda: headway.estimate(headway.Streams(GOOD, GOOD, packet_wire_bytes=9), "prc-mt-dp1"),
    ),
    ("gaps", "no stream has 100", lambda: streams().split(100)),
    ("send_gap_ns", "gap 5 of stream 0 is negative", lambda: bass(send=changed(5, -1))),
    ("receive_gap_ns", "gap 5 of stream 0 is negative", lambda: bass(receive=changed(5, -1))),
    ("receive_gap_ns", "has the shape", lambda: bass(receive=GOOD[1:])),
    ("receive_gap_ns", "element 7 is NaN", lambda: bass(receive=NAN)),
    ("window", "from 1", lambda: bass(window=0)),
    ("send_gap_ns", "gap 5 is negative", lambda: headway.normalise(changed(5, -1), GOOD, packets=4)),
    ("stamp_us", "has 64 elements", lambda: headway.normalise(GOOD, GOOD[1:], packets=4)),
    ("packets", "from 1", lambda: headway.normalise(GOOD, GOOD, packets=0)),
    ("sent_ns", "two columns", lambda: headway.ppdd(GOOD, GOOD, packet_wire_bytes=9)),
    ("received_ns", "has 3 rows", lambda: headway.ppdd(ROWS[:, :2], ROWS[:3, :2], packet_wire_bytes=9)),
    ("sent_ns", "row 0", lambda: headway.ppdd(ROWS[:, 1::-1], ROWS[:, :2], packet_wire_bytes=9)),
    ("filter", "none of weights", lambda: headway.ppdd(ROWS[:, :2], ROWS[:, :2], packet_wire_bytes=9, filter="x")),
    (
        "ttl",
        "element 2 is not from 1 to 3",
        lambda: headway.hire(
            ROWS[:, :2], ROWS[:, :2], [1, 2, 4, 1], packet_wire_bytes=9, hidden=5, narrow_bps=1e6, hops=3
        ),
    ),
    ("window", "element 0 is not from 0 to 65535", lambda: sabes(window=70_000)),
    ("sequence", "has 64 elements", lambda: sabes(sequence=GOOD[1:])),
    ("side", "none of sender", lambda: sabes(side="middle")),
    ("at_ns", "element 0", lambda: sabes(at_ns=changed(0, -1))),
]


def sabes(**more: Any) -> headway.Passive:
    usual = dict.fromkeys(("is_ack", "sequence", "acknowledgement", "payload_bytes", "flags", "window"), 0)
    return headway.sabes(**{"at_ns": GOOD, **usual, **more})


@pytest.mark.parametrize(("argument", "reason", "call"), MISTAKES, ids=[f"{name}: {why}" for name, why, _ in MISTAKES])
def test_the_argument_at_fault_is_named(argument: str, reason: str, call: Callable[[], object]) -> None:
    with pytest.raises(headway.HeadwayError) as raised:
        call()
    assert str(raised.value).startswith(f"{argument}: ") and reason in str(raised.value)
    assert isinstance(raised.value, ValueError)


def test_a_file_with_a_mistake_is_named_with_its_line(tmp_path: Any) -> None:
    file = tmp_path / "streams.csv"
    file.write_text("stream,index,sent_ns,received_ns\n0,0,1,x\n")
    with pytest.raises(headway.HeadwayError, match=r"streams.csv, line 2: .*received_ns"):
        headway.Streams.load(file, packet_wire_bytes=1538)
    with pytest.raises(headway.HeadwayError, match="cannot read .*absent"):
        headway.Streams.load(tmp_path / "absent.csv")


EXTREMES = np.array([-1, 0, 1, 5, 2**31, 2**40, 2**62, -(2**63)])


def any_calls(rng: np.random.Generator) -> list[Callable[[], object]]:
    """Return calls with arrays of extreme numbers, some of them in order."""
    size = 2 * int(rng.integers(0, 20))
    one, two, three = (rng.choice(EXTREMES, size) for _ in range(3))
    if rng.random() < 0.7:
        one, two = (np.sort(np.abs(array)) for array in (one, two))
    pairs = (one.reshape(-1, 2), two.reshape(-1, 2))
    ttl = rng.integers(1, 4, size // 2)
    names = (
        "at_ns",
        "sequence",
        "acknowledgement",
        "payload_bytes",
        "flags",
        "window",
        "mss_bytes",
        "timestamp",
        "echo",
    )
    segments = {name: rng.choice(np.clip(EXTREMES, -1, 2**16 - 1), size) for name in names}
    method = str(rng.choice(headway.METHODS + headway.VERDICTS))
    return [
        lambda: headway.estimate(headway.Streams(one, two, packet_wire_bytes=9, gap_ns=three), method),
        lambda: headway.bass(one, two, offsets=three),
        lambda: headway.bass(one, two),
        lambda: headway.normalise(one, two, packets=3),
        lambda: headway.ppdd(*pairs, packet_wire_bytes=9),
        lambda: headway.hire(*pairs, ttl, packet_wire_bytes=9, hidden=2, narrow_bps=1e6, hops=3),
        lambda: headway.sabes(**segments, is_ack=rng.integers(0, 2, size)),
        lambda: headway.sabes(**{name: np.maximum(values, 0) for name, values in segments.items()}, is_ack=one % 2),
    ]


def test_any_arrays_at_all_are_taken_or_refused() -> None:
    rng = np.random.default_rng(11)
    taken = 0
    for _ in range(1_000):
        for call in any_calls(rng):
            try:
                call()
                taken += 1
            except headway.HeadwayError:
                pass
    assert taken > 1_000
