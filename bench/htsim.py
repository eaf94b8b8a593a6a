#!/usr/bin/env python3
"""Delivered packets per CPU-second of csg-htsim, beside those of Headway.

Two sets of cells, with 1, 10, 100 and 1000 flows over one 10 Gb/s link with an RTT of 10 ms:

  TCP           Headway: CUBIC with SACK and an ACK every two segments; csg-htsim: NewReno with an ACK per segment;
                buffers of one bandwidth-delay product; the networks "one link" of crates/sim/benches/packets.rs
                and `newreno` of htsim_dumbbell.cpp
  fixed window  the same model in both: a constant window, an ACK per segment, no losses

A delivered packet is a data packet that arrived at its receiver. The time is the CPU time, user and system, of a whole
process that runs one cell. The simulators alternate in rounds, so that other load on the machine affects both alike.

csg-htsim is not part of this project. Build a copy as its documentation says, and pass its `sim` directory with --htsim
or in HTSIM. This script compiles htsim_dumbbell.cpp against the headers and the library there, with $CXX or c++.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent
OUT = DIRECTORY.parent / "target/bench"
FLOWS = [1, 10, 100, 1000]
# Name, network of packets.rs, model of htsim_dumbbell.cpp.
MODELS = [("TCP", "one link", "newreno"), ("fixed window", "fixed window", "window")]
# The virtual time of each of these cells in packets.rs.
VIRTUAL_MS = 10_000


def headway():
    """Builds the benchmark of Headway and returns its path."""
    command = ["cargo", "bench", "-p", "headway-sim", "--bench", "packets", "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=DIRECTORY.parent, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    messages = map(json.loads, done.stdout.splitlines())
    built = [message["executable"] for message in messages if message.get("executable")]
    return built[-1]


def htsim(sim):
    """Compiles the driver against the library in `sim` and returns its path."""
    OUT.mkdir(parents=True, exist_ok=True)
    driver = OUT / "htsim_dumbbell"
    command = [os.environ.get("CXX", "c++"), "-std=c++11", "-O3", "-w", f"-I{sim}", DIRECTORY / "htsim_dumbbell.cpp"]
    done = subprocess.run(command + [f"-L{sim}", "-lhtsim", "-o", driver], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{sim} holds no built csg-htsim that htsim_dumbbell.cpp fits:\n{done.stderr}")
    return driver


def run(command):
    """Runs a process and returns its delivered packets per CPU-second."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed")
    return json.loads(printed)["packets"] / (usage.ru_utime + usage.ru_stime)


def summary(values):
    """Returns median and range."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    """Runs all cells, prints their table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--htsim", metavar="DIR", default=os.environ.get("HTSIM"), help="its `sim` directory, built")
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="runs of each cell [default: 5]")
    arguments = parser.parse_args()
    if not arguments.htsim:
        parser.error("say where a built csg-htsim is, with --htsim or in HTSIM")
    ours, theirs = headway(), htsim(Path(arguments.htsim))
    cells = [(*model, flows) for model in MODELS for flows in FLOWS]
    runs = [[] for _ in cells]
    for _ in range(arguments.rounds):
        for (_, network, model, flows), pairs in zip(cells, runs):
            here = run([ours, "--cell", network, flows])
            pairs.append((here, run([theirs, model, flows, VIRTUAL_MS])))
    print("Million delivered packets per CPU-second, and the ratio of both in each round: median (least to most)")
    print(f"{'model':12} {'flows':>5} {'Headway':>22} {'csg-htsim':>22} {'ratio':>22}")
    rows = []
    for (name, _, _, flows), pairs in zip(cells, runs):
        columns = {
            "headway": summary([here for here, _ in pairs]),
            "htsim": summary([there for _, there in pairs]),
            "ratio": summary([here / there for here, there in pairs]),
        }
        scales = {"headway": 1e6, "htsim": 1e6, "ratio": 1}
        texts = [
            f"{column['median'] / scales[key]:.2f} ({column['least'] / scales[key]:.2f} to {column['most'] / scales[key]:.2f})"
            for key, column in columns.items()
        ]
        print(f"{name:12} {flows:5} " + " ".join(f"{text:>22}" for text in texts))
        rows.append({"model": name, "flows": flows, "rounds": arguments.rounds, **columns})
    (OUT / "htsim.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
