#!/usr/bin/env python3
"""`headway edge` for an hour under a load that changes: what memory and files take.

An emulated home (see edge_home.py) at a link of 12 Mb/s down and 4 Mb/s up, whose rate changes every 20 s. Downloads, uploads and pages
come and go all the time, and a viewer reads the page's event stream. Memory of the edge and the size of its history are noted every
10 s. What counts is by how much they grow after the first 10 minutes. Needs root and `headway` on the path or in $HEADWAY.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import edge_home as home

PORT = 8799
SETTLED = 600
RATES = [3, 6, 12, 20]


def come_and_go(server, seconds):
    """The home: transfers of 1 to 30 s, pages and a call."""
    end = time.monotonic() + seconds
    threading.Thread(target=home.browse, args=(server, [], threading.Event()), daemon=True).start()
    home.Pings(server, home.CALL_SIZE, home.CALL_GAP)

    def transfer():
        port = home.BULK if random.random() < 0.7 else home.SINK
        stop, block = time.monotonic() + random.uniform(1, 30), bytes(1 << 13)
        with home.cubic(home.socket.create_connection((server, port))) as connection:
            while time.monotonic() < stop:
                connection.recv(1 << 15) if port == home.BULK else connection.send(block)

    while time.monotonic() < end:
        threading.Thread(target=transfer, daemon=True).start()
        time.sleep(random.expovariate(1 / 4))


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def edge_pid(folder):
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes().split(b"\0")
        if b"edge" in words and str(folder / "history").encode() in words and b"exec" not in words:
            return int(entry.parent.name)
    sys.exit("the edge does not run")


def view():
    """At the router: reads the page's event stream, and the metrics now and then, until a signal ends it."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=20) as metrics:
                metrics.read()
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/events", timeout=20) as stream:
                for _ in range(1000):
                    stream.readline()
        except OSError:
            time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        return view() if arguments.role == "view" else come_and_go(home.SERVER["lab"], float(arguments.role))
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    home.OUT.parent.mkdir(parents=True, exist_ok=True)
    folder, seconds = Path(tempfile.mkdtemp()), 60 * arguments.minutes
    home.LAB, home.RATES = "edge-soak", {"forward": 12, "reverse": 4}
    lab, samples = home.Lab(headway, "edge"), []
    try:
        me = Path(__file__).resolve()
        serve = [sys.executable, str(me.with_name("edge_home.py")), "--role", "serve"]
        assert "ready" in lab.start("server", *serve).stdout.readline()
        command = ["edge", "--lan", "eth1", "--wan", "eth0", "--json", "--flows", "--history", str(folder / "history"), "--page", f"127.0.0.1:{PORT}"]
        edge = lab.start("router", headway, *command)
        assert '"on"' in edge.stdout.readline()
        threading.Thread(target=lambda: [None for _ in edge.stdout], daemon=True).start()
        lab.start("home", sys.executable, str(me), "--role", str(seconds))
        lab.start("router", sys.executable, str(me), "--role", "view")
        pid, begun = edge_pid(folder), time.monotonic()
        while (now := time.monotonic() - begun) < seconds:
            size = sum(file.stat().st_size for file in folder.iterdir())
            samples.append((round(now), resident(pid), size >> 10))
            if int(now) // 10 % 2 == 0:
                lab.set(f'forward.rate="{random.choice(RATES)} Mb/s"')
            print(json.dumps(samples[-1]), flush=True)
            time.sleep(10)
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    late = [sample for sample in samples if sample[0] >= SETTLED] or samples
    for name, column in (("memory", 1), ("history", 2)):
        values = [sample[column] for sample in late]
        print(f"{name}: {values[0]} KiB after 10 minutes, {values[-1]} at the end, {max(values)} at most")


if __name__ == "__main__":
    main()
