#!/usr/bin/env python3
"""`headway select` for an hour on paths that change and fail: what memory and its file take.

Three emulated links between two hosts. Every 20 s one of them gets another rate, and every third time one goes down until the next. A viewer
reads the event stream, comes and goes, and asks for the state. Memory of all processes of the selector and the size of its state file are noted
every 10 s. What counts is by how much they grow after the first 10 minutes. Needs root and `headway` on the path or in $HEADWAY.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

LAB, PORT, SETTLED = "select-soak", 8798, 600
RATES = [2, 5, 10, 20, 50]
NAMES = ["a", "b", "c"]


def view():
    """Where it runs: reads 200 lines of the event stream, then the state, until a signal ends it."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/events", timeout=30) as stream:
                for _ in range(200):
                    stream.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/paths", timeout=30) as state:
                state.read()
        except OSError:
            time.sleep(1)


def resident(folder):
    """The memory of all processes whose arguments name the folder, in KiB."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if str(folder / "paths.toml").encode() in words and b"exec" not in words:
                lines = (entry / "status").read_text().splitlines()
                total += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--view", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.view:
        return view()
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    folder, seconds, samples, children = Path(tempfile.mkdtemp()), 60 * arguments.minutes, [], []
    link = '[[link]]\nname = "{}"\nfrom = "here"\nto = "there"\nforward = {{ rate = "10 Mb/s", delay = "{} ms", buffer = "100 ms" }}\n'
    (folder / "lab.toml").write_text("".join(link.format(name, 5 * (number + 1)) for number, name in enumerate(NAMES)))
    path = '[[path]]\nname = "{0}"\nhosts = ["10.77.{1}.2"]\ninterface = "eth{1}"\nnext-hop = "10.77.{1}.2"\n'
    head = f'interval = "2 s"\nmax-bytes-per-hour = "1 GB"\nmax-bytes-per-month = "500 GB"\nroute = true\nstate-file = "{folder}/state"\nhook = ["true"]\n'
    (folder / "paths.toml").write_text(head + "".join(path.format(name, number) for number, name in enumerate(NAMES)))
    run = lambda *command: subprocess.run([headway, *command], check=True, stdout=subprocess.DEVNULL)

    def start(node, *command):
        child = subprocess.Popen([headway, "lab", "exec", "--name", LAB, node, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        children.append(child)
        return child

    def read(child):
        threading.Thread(target=lambda: [said.append(line) for line in child.stdout if '"event":"decision"' in line], daemon=True).start()

    said = []
    run("lab", "up", "--name", LAB, str(folder / "lab.toml"))
    try:
        serve = start("there", headway, "serve", "--json")
        assert "port" in serve.stdout.readline()
        read(serve)
        select = start("here", headway, "select", str(folder / "paths.toml"), "--json", "--socket", str(folder / "socket"), "--listen", str(PORT))
        assert '"on"' in select.stdout.readline()
        read(select)
        start("here", sys.executable, str(Path(__file__).resolve()), "--view")
        begun, turns = time.monotonic(), 0
        while (now := time.monotonic() - begun) < seconds:
            state = folder / "state"
            samples.append((round(now), resident(folder), state.stat().st_size if state.exists() else 0, len(said)))
            turns += 1
            if turns % 2 == 0:
                run("lab", "set", LAB, "--link", random.choice(NAMES), f'forward.rate="{random.choice(RATES)} Mb/s"')
            if turns % 6 in (0, 2):
                interface = f"eth{turns // 6 % len(NAMES)}"
                run("lab", "exec", "--name", LAB, "here", "--", "ip", "link", "set", interface, "down" if turns % 6 == 0 else "up")
            print(json.dumps(samples[-1]), flush=True)
            time.sleep(10)
    finally:
        for child in children:
            child.send_signal(signal.SIGTERM)
        for child in children:
            child.wait()
        run("lab", "down", LAB)
        shutil.rmtree(folder, ignore_errors=True)
    late = [sample for sample in samples if sample[0] >= SETTLED] or samples
    for name, unit, column in (("memory", "KiB", 1), ("state file", "bytes", 2)):
        values = [sample[column] for sample in late]
        print(f"{name}: {values[0]} {unit} after 10 minutes, {values[-1]} at the end, {max(values)} at most")
    print(f"decisions: {samples[-1][3]}")


if __name__ == "__main__":
    main()
