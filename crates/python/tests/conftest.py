"""What several tests use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import headway

REPOSITORY = Path(__file__).parents[3]
SCENARIOS = REPOSITORY / "scenarios"

PACKET = 1538
"""The size of a packet in these tests, bytes on the wire."""
FREE = 1.2e9
"""What is available while their streams are sent, b/s."""


def streams(count: int = 20, event: int = 1, **more: object) -> headway.Streams:
    """Return p-streams of 64 gaps over a link with 1.2 Gb/s left, ``event`` packets of which the NIC delivers at once."""
    rng = np.random.default_rng(7)
    gap = np.repeat(np.array([12_000, 10_500, 9_000, 8_000]), 16)
    gaps = np.hstack([np.zeros((count, 1), dtype=np.int64), np.tile(gap, (count, 1))])
    sent = np.cumsum(gaps, axis=1)
    left = np.maximum(gaps, 10_250 + rng.integers(-100, 100, gaps.shape))
    left[:, 0] = rng.integers(0, 50_000, count)
    received = np.cumsum(left, axis=1)
    last = np.minimum((np.arange(65) // event + 1) * event - 1, 64)
    received = received[:, last] + np.arange(65) % event * 600
    return headway.Streams(sent, received, packet_wire_bytes=PACKET, gap_ns=gaps, **more)


def write(path: Path, recorded: headway.Streams) -> Path:
    """Write streams as a file that the command line reads."""
    table = recorded.to_pandas()
    table["packet_wire_bytes"] = PACKET
    table["gap_ns"] = recorded.gap_ns
    table["free_bps"] = int(FREE)
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def program() -> str:
    """Return the program headway, without which a test is skipped."""
    found = shutil.which("headway")
    if found is None:
        pytest.skip("the program headway is not in the PATH")
    return found


def run(*command: object) -> str:
    """Return what a command prints."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
