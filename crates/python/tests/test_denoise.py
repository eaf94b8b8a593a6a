"""Gaps: what BASS and delayed ACKs do to them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import streams

import headway

US = 1_000


def coalesced(gaps: int, event: int) -> np.ndarray:
    """Return receive gaps of 10 us of which ``event`` packets at a time arrive 1 us apart, cut off at both ends."""
    spike = 10 * event - (event - 1)
    return np.where(np.arange(gaps) % event == event // 2, spike, 1) * US


def test_coalesced_gaps_are_what_they_were_before() -> None:
    gaps = headway.bass(np.full(64, 10 * US), coalesced(64, 12))
    assert list(gaps["first"]) == [6]
    send, receive = gaps.stream(0)
    assert send.size == 48 and np.array_equal(send, receive)
    assert np.all(receive == 10 * US)


def test_many_streams_at_once_are_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    send = rng.integers(5_000, 15_000, (300, 64))
    receive = send + np.where(rng.random((300, 64)) < 0.2, 60_000, 0)
    together = headway.bass(send, receive, capacity_bps=5e9, window=8)
    flat = headway.bass(send.ravel(), receive.ravel(), offsets=np.arange(301) * 64, capacity_bps=5e9, window=8)
    assert all(np.array_equal(together[name], flat[name]) for name in together)
    assert len(set(together["passes"])) > 1
    for index in range(0, 300, 17):
        alone = headway.bass(send[index], receive[index], capacity_bps=5e9, window=8)
        assert np.array_equal(alone["receive_gap_ns"], together.stream(index)[1])
        assert alone["passes"][0] == together["passes"][index]


def test_a_stream_without_a_complete_event_has_no_gaps_left() -> None:
    gaps = headway.bass(np.full(64, 10 * US), coalesced(64, 64))
    assert list(gaps["passes"]) == [0] and list(gaps["offsets"]) == [0, 0]
    assert gaps.to_pandas().empty


def test_data_frames_tell_where_gaps_were() -> None:
    frame = headway.bass(np.full((2, 64), 10 * US), np.tile(coalesced(64, 12), (2, 1))).to_pandas()
    assert list(frame["stream"]) == [0] * 48 + [1] * 48
    assert list(frame["index"][:3]) == [6, 7, 8]


def test_inputs_stay_as_they_are() -> None:
    receive = coalesced(64, 12)
    receive.flags.writeable = False
    before = receive.copy()
    headway.bass(np.full(64, 10 * US), receive)
    assert np.array_equal(receive, before)


def test_denoising_the_gaps_of_a_stream_is_that_of_the_method() -> None:
    recorded = streams(count=1, event=4)
    sent, received = recorded.sent_ns, recorded.received_ns
    gaps = headway.bass(np.diff(sent), np.diff(received), packet_wire_bytes=1538, capacity_bps=2e9)
    times = [np.concatenate([[0], np.cumsum(gap)]) for gap in gaps.stream(0)]
    denoised = headway.Streams(*times, packet_wire_bytes=1538)
    ours = headway.estimate(denoised, "excursion", capacity_bps=2e9)
    theirs = headway.estimate(recorded, "bass", capacity_bps=2e9)
    assert ours["available_bps"] == theirs["available_bps"]


def test_an_ack_for_two_packets_gives_two_gaps_of_the_same_sum() -> None:
    stamps = np.where(np.arange(65) % 2 == 0, 1_000 + np.arange(65) // 2 * 21, 0)
    gaps = headway.normalise(np.full(65, 10 * US), stamps, packets=65)
    assert list(gaps["offsets"]) == [0, 64]
    assert gaps["receive_gap_ns"].sum() == 32 * 21 * US
    assert np.ptp(gaps["receive_gap_ns"]) == 0


def test_stamps_wrap_around() -> None:
    gaps = headway.normalise([0, 5 * US], np.array([2**32 - 10, 20], dtype=np.uint32), packets=2)
    assert list(gaps["receive_gap_ns"]) == [30 * US]


@pytest.mark.parametrize("step", [2, -1])
def test_arrays_may_be_views(step: int) -> None:
    send, receive = np.full(128, 10 * US)[::step], coalesced(128, 12)[::step]
    gaps = headway.bass(send, receive)
    again = headway.bass(send.copy(), receive.copy())
    assert np.array_equal(gaps["receive_gap_ns"], again["receive_gap_ns"])
