#!/usr/bin/env python3
"""What a client of others says of an access link with and without `headway edge`: round trips per minute under load (RPM).

The client is goresponsiveness (github.com/network-quality/goresponsiveness), which measures as draft-ietf-ippm-responsiveness says:
first it fills the downlink with more and more connections, and sends up to a hundred probes a second on those and on new connections;
then the same for the uplink. Build it with `go build networkQuality.go` and name it with --client. The server is
responsiveness_server.go, which is built here with Go.

The link has 50 Mb/s down and 10 Mb/s up, an RTT of 20 ms and buffers of 500 ms. All connections use CUBIC. Modes are those of
edge_home.py:

  none              nothing
  fq-codel          FQ-CoDel at both ends of the link
  edge              headway edge, which is given the rates
  edge-smooth       the same with `shape = true` in its policy
  edge-found        headway edge without rates
  edge-found-smooth the same with `shape = true` in its policy

The table has, for both directions together and for each, RPM as the client prints it (from the trimmed mean of its RTTs, and from the 90th
percentile); for each the median RTT in ms of probes on new connections, and on those that fill the link, of which much is waiting for the
end's own sockets; and from the emulator's log, while probes were under way, the rate on the wire of the link, and the mean time in ms for
which a packet waited there. Medians of all runs, with the least and the most. Runs in which the emulator released more than 1 % of packets
more than 1 ms late do not count.

Needs root and a quiet machine. `headway` is that of the path, or $HEADWAY. Results of every run go to
target/bench/edge-responsiveness.json, or $OUT.
"""

import argparse
import csv
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import edge_home as home

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("OUT") or HERE.parent / "target/bench/edge-responsiveness.json")
PORT = 4043
MODES = ["none", "fq-codel", "edge", "edge-smooth", "edge-found", "edge-found-smooth"]
# What the client calls a direction in its results and of probes, and the emulator its link.
DIRECTIONS = {"down": ("Download", "SelfDown", "server-router:forward"), "up": ("Upload", "SelfUp", "server-router:reverse")}
COLUMNS = ["rpm", "rpm_p90", "new_ms", "loaded_ms", "mbps", "queue_ms"]
# Longest run: the client gives each direction 20 s, and 15 more where its throughput does not become stable.
PATIENCE = 120
# Runs with more late packets than this part do not count.
LATE = 0.01


class Lab(home.Lab):
    def prepare(self):
        for node in ["server", "home"]:
            # A network namespace cannot have CUBIC as its default where the host does not allow it to all; a route can.
            self.execute(node, "sh", "-c", "ip route change $(ip -4 route show default) congctl cubic")
            # What waits in the buffers of the ends' own sockets is no queue of the network.
            self.execute(node, "sysctl", "-qw", "net.ipv4.tcp_notsent_lowat=16384")

    def execute(self, node, *command):
        subprocess.run([self.headway, "lab", "exec", "--name", home.LAB, node, "--", *command], check=True)


def rpm(part):
    """RPM in a part of the client's results."""
    of = lambda what: float(re.search(rf"RPM: (\S+) \({what}", part)[1])
    return {"rpm": of("Single-Sided"), "rpm_p90": of("P90")}


def probes(folder):
    """The client's log of probes: when each began in ns since 1970, its kind, and its RTT in ms."""
    rows = [row.split(",") for file in folder.glob("probes-[sf]*") for row in file.read_text().splitlines()[1:]]
    began = lambda row: 1e9 * datetime.strptime(row[0], "%m-%d-%Y-%H-%M-%S.%f").timestamp()
    return [(began(row), row[5].strip(), 1e3 * float(row[2]) / int(row[1])) for row in rows if len(row) > 5]


def direction(name, output, log, truth):
    """What was seen of a direction while probes were under way on the connections that filled it."""
    title, kind, link = DIRECTIONS[name]
    result = rpm(re.search(rf"^{title}:\n((?:\t.*\n)+)", output, re.MULTILINE)[1])
    loaded = [(at, rtt) for at, probe, rtt in log if probe == kind]
    if not loaded:
        return result
    begin, end = min(loaded)[0], max(loaded)[0]
    new = [rtt for at, probe, rtt in log if probe == "Foreign" and begin <= at <= end]
    rows = [row for row in truth if row["link"] == link and begin <= int(row["begin_ns"]) < end]
    total = lambda key: sum(int(row[key]) for row in rows)
    result |= {"new_ms": statistics.median(new or [math.nan]), "loaded_ms": statistics.median(rtt for _, rtt in loaded)}
    return result | {"mbps": 1e3 * total("host_bits") / (end - begin), "queue_ms": 1e-6 * total("queued_ns") / max(1, total("queued"))}


def run(headway, client, mode, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lab = Lab(headway, mode)
    try:
        lab.prepare()
        server = home.SERVER["lab"]
        assert "ready" in lab.start("server", str(OUT.parent / "responsiveness-server"), f"{server}:{PORT}").stdout.readline()
        if mode.startswith("edge"):
            edge = lab.start("router", headway, "edge", *home.edge_of(mode, "eth1", "eth0", server))
            assert '"on"' in edge.stdout.readline()
            threading.Thread(target=lambda: [None for _ in edge.stdout], daemon=True).start()
        asks = ["--config", server, "--port", str(PORT), "--path", "/.well-known/nq", "--logger-filename", str(folder / "probes.csv")]
        output, _ = lab.start("home", client, *asks).communicate(timeout=PATIENCE)
    finally:
        lab.down("--truth", str(folder / "truth.csv"))
    (folder / "output").write_text(output)
    with open(folder / "truth.csv") as file:
        truth = [row for row in csv.DictReader(file) if row["link"].startswith("server-router:")]
    late, released = (sum(int(row[key]) for row in truth) for key in ["late_1ms", "released"])
    log = probes(folder)
    seen = {name: direction(name, output, log, truth) for name in DIRECTIONS}
    return {"mode": mode, "late": late / max(1, released), "both": rpm(output[output.index("Final RPM"):])} | seen


def number(value):
    return f"{value:.{0 if value >= 100 else 1}f}"


def show(results):
    print(f"{'':18}{'runs':>5}{'late':>5}{'':>6}" + "".join(f"{column:>20}" for column in COLUMNS))
    for mode in MODES:
        runs = [result for result in results if result["mode"] == mode]
        counts = [result for result in runs if result["late"] <= LATE]
        for part in ["both", *DIRECTIONS] if runs else []:
            cells = ""
            for column in COLUMNS:
                # Where too few probes were answered, the client has no mean.
                values = [result[part][column] for result in counts if math.isfinite(result[part].get(column, math.nan))]
                cell = f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})" if values else "-"
                cells += f"{cell:>20}"
            print(f"{mode:18}{len(runs):5}{len(runs) - len(counts):5}{part:>6}{cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", required=True, help="path of networkQuality")
    parser.add_argument("--runs", type=int, default=3, help="of each mode, in turns")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="all by default")
    arguments = parser.parse_args()
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    build = ["go", "build", "-o", str(OUT.parent / "responsiveness-server"), str(HERE / "responsiveness_server.go")]
    subprocess.run(build, check=True)
    home.OUT, home.LAB, home.RATES, home.RTT, home.BUFFER = OUT, "edge-responsiveness", {"forward": 50, "reverse": 10}, 20, 500
    results = []
    for turn in range(arguments.runs):
        for mode in arguments.modes:
            print(f"run {turn + 1} of {arguments.runs}, {mode}", file=sys.stderr)
            results.append(run(headway, arguments.client, mode, OUT.parent / f"edge-responsiveness-{mode}"))
            OUT.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()
