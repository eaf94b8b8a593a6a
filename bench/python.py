"""What the Python package costs beside Rust and beside the command line, in the same run. Needs `make wheel`.

    target/python/bin/python bench/python.py            # as `make bench` does

It times `headway.bass` on 100 000 streams of 64 gaps beside a loop in Rust over the same file, and `Scenario.run` of a
10 s CUBIC flow beside `headway run`. Medians of seven; the range is given beside them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import headway

STREAMS = 100_000
GAPS = 64
TIMES = 7
CUBIC = """
duration = "10 s"
nodes = ["client", "server"]
[[link]]
from = "client"
to = "server"
rate = "100 Mb/s"
delay = "10 ms"
buffer = "250 kB"
[[flow]]
from = "client"
to = "server"
controller = "cubic"
"""


def seconds(work: Callable[[], object]) -> list[float]:
    """Return how long the work took, each time."""
    taken = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return taken


def told(taken: list[float]) -> str:
    """Format a median and its range in milliseconds."""
    low, middle, high = (1e3 * value for value in (min(taken), statistics.median(taken), max(taken)))
    return f"{middle:.1f} ms ({low:.1f} to {high:.1f})"


def gaps() -> np.ndarray:
    """Return send gaps and receive gaps, of which ten packets at a time were held back."""
    rng = np.random.default_rng(1)
    send = rng.integers(7_000, 13_000, (STREAMS, GAPS))
    event = rng.integers(0, 10, (STREAMS, 1)) + np.arange(GAPS)
    receive = np.where(event % 10 == 0, 91_000, 1_000) + rng.integers(0, 500, (STREAMS, GAPS))
    return np.stack([send, receive])


def bass(folder: Path) -> None:
    """Compare `headway.bass` with a loop in Rust."""
    send, receive = arrays = gaps()
    arrays.tofile(folder / "gaps")
    command = ["cargo", "bench", "--locked", "-p", "headway-python", "--bench", "bass", "--"]
    loop = subprocess.run(
        [*command, folder / "gaps", str(GAPS), str(TIMES)], check=True, capture_output=True, text=True
    )
    rust = json.loads(loop.stdout.splitlines()[-1])
    python = seconds(lambda: headway.bass(send, receive))
    for name, taken in rust.items():
        share = statistics.median(taken) / statistics.median(python)
        print(f"bass, {name}: {told(taken)}; headway.bass has {share:.2f} of its speed")
    print(f"bass, {STREAMS} streams of {GAPS} gaps, from Python: {told(python)}")


def run(program: str, folder: Path) -> None:
    """Compare `Scenario.run` with the command line."""
    file = folder / "cubic.toml"
    file.write_text(CUBIC)
    command = [program, "run", str(file), "--on", "sim", "--output", str(folder / "results")]
    line = seconds(lambda: subprocess.run(command, check=True, capture_output=True))
    python = seconds(lambda: headway.Scenario.load(file).run())
    more = statistics.median(python) / statistics.median(line) - 1
    print(f"10 s of CUBIC, headway run: {told(line)}; Scenario.run: {told(python)}, {100 * more:+.1f} %")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        bass(Path(name))
        run(sys.argv[1] if len(sys.argv) > 1 else "target/release/headway", Path(name))
