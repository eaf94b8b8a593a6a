"""Packet pairs, trains and transfers in arrays."""

from __future__ import annotations

import numpy as np
import pytest

import headway

PACKET = 1538
NARROW = 50e6
TIME = int(PACKET * 8e9 / NARROW)


def pairs(count: int, dispersion: np.ndarray | int, wait: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return when pairs were sent and when they arrived; ``wait`` is the queueing delay of their first packets."""
    sent = np.arange(count)[:, np.newaxis] * 10_000_000 + np.array([0, 12_304])
    first = sent[:, 0] + 5_000_000 + wait
    return sent, np.column_stack([first, first + dispersion])


def test_pairs_that_waited_are_left_out() -> None:
    rng = np.random.default_rng(5)
    waited = rng.random(400) < 0.5
    dispersion = np.where(waited, rng.integers(TIME // 3, 3 * TIME, 400), TIME)
    sent, received = pairs(400, dispersion, np.where(waited, rng.integers(TIME, 9 * TIME, 400), 0))
    received[3, 1] = headway.LOST
    for filter in ("weights", "lowest", "quantiles"):
        found = headway.ppdd(sent, received, packet_wire_bytes=PACKET, filter=filter)
        assert found["capacity_bps"] == pytest.approx(NARROW, rel=0.01), filter
        assert found["pairs"] == 399 and found["bound"] == "within"


def test_too_few_pairs_are_an_error_that_says_how_many() -> None:
    with pytest.raises(headway.HeadwayError, match="insufficient data: . of 4 pairs"):
        headway.ppdd(*pairs(4, TIME), packet_wire_bytes=PACKET)


def trains(hops: int, narrow: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 20 trains for every hop over links of 1 Gb/s with one of 50 Mb/s."""
    ttl = np.repeat(np.arange(1, hops + 1), 20)
    sent, received = pairs(ttl.size, np.where(ttl >= narrow, 6 * TIME, TIME))
    sent[:, 1] = sent[:, 0] + TIME
    return sent, received, ttl


@pytest.mark.parametrize("narrow", [1, 3, 5])
def test_the_narrow_link_is_where_trains_begin_to_spread(narrow: int) -> None:
    found = headway.hire(*trains(5, narrow), packet_wire_bytes=PACKET, hidden=5, narrow_bps=NARROW, hops=5)
    assert found["hop"] == narrow and found["confidence"] > 0.95


def test_missing_trains_are_named() -> None:
    sent, received, ttl = trains(5, 3)
    kept = ttl != 4
    with pytest.raises(headway.HeadwayError, match="^ttl: 20 more trains .* hop 4"):
        headway.hire(
            sent[kept], received[kept], ttl[kept], packet_wire_bytes=PACKET, hidden=5, narrow_bps=NARROW, hops=5
        )


def transfer(packets: int, rate: float, window: int) -> dict[str, np.ndarray]:
    """Return the segments of a transfer that keeps ``window`` packets in flight over a link with ``rate`` left for it."""
    gap, rtt = int(PACKET * 8e9 / rate), 20_000_000
    acked = np.arange(packets) * gap + rtt
    sent = np.concatenate([np.zeros(window, dtype=np.int64), acked[:-window]])
    at = np.concatenate([sent, acked])
    order = np.argsort(at, kind="stable")
    ends = (np.arange(packets) + 1) * 1448
    return {
        "at_ns": at[order] + 1_000_000_000,
        "is_ack": (np.arange(2 * packets) >= packets)[order],
        "sequence": np.concatenate([ends - 1448, np.zeros(packets, dtype=np.int64)])[order],
        "acknowledgement": np.concatenate([np.zeros(packets, dtype=np.int64), ends])[order],
        "payload_bytes": np.concatenate([np.full(packets, 1448), np.zeros(packets, dtype=np.int64)])[order],
    }


@pytest.mark.parametrize("window_ns", [200_000_000, None])
def test_a_transfer_in_a_full_queue_shows_what_the_link_leaves(window_ns: int | None) -> None:
    found = headway.sabes(**transfer(6_000, 60e6, 300), flags=16, window=60_000, window_ns=window_ns)
    assert len(found["end_ns"]) >= 5
    # 52 bytes of headers and 38 on the wire.
    assert np.median(found["free_bps"]) == pytest.approx(60e6, rel=0.01)
    assert np.all(found["free_low_bps"] <= found["free_bps"]) and np.all(found["free_bps"] <= found["free_high_bps"])
    assert found.transfer["acknowledged_bytes"] == pytest.approx(6_000 * 1448, rel=0.01)
    assert found.transfer["windows_used"] == len(found["end_ns"])
