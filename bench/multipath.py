#!/usr/bin/env python3
"""One MPTCP connection over two emulated paths: what it carries with the kernel's defaults and with `headway select`.

By default both addresses are endpoints for subflows, of equal priority, and the kernel's scheduler sends where the queue is shortest in time.
`headway select` (with `mptcp = true`) keeps the same endpoints and says which of them only step in. Each round runs both on a new lab, in
turns. Buffers of sockets are those of a kernel with 4 GB or more of memory. Needs root, `headway`, `headway-router` and `headway-lab` in one
folder, named by $HEADWAY or on the path, and Linux 5.19 or later with MPTCP. Exit codes: 0, or 3 where the kernel has none.

    bench/multipath.py --rounds 3 --seconds 30
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAB, PORT = f"multipath-{os.getpid()}", 5001
IPPROTO_MPTCP = getattr(socket, "IPPROTO_MPTCP", 262)
# Of tcp(7), where memory is not short.
BUFFERS = {"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304"}
# Paths of each mix: the direction of the transfer, and what changes when, in seconds after it has begun.
MIXES = {
    "40 and 10 Mb/s": (
        ['rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms"', 'rate = "10 Mb/s", delay = "10 ms", buffer = "100 ms"'], []),
    "one loses 3 %": (
        ['rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms"', 'rate = "40 Mb/s", delay = "60 ms", buffer = "100 ms", loss = 0.03'], []),
    "one far and bloated": (
        ['rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms"', 'rate = "2 Mb/s", delay = "300 ms", buffer = "1000 ms"'], []),
    "one far, of 6 Mb/s": (
        ['rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms"', 'rate = "6 Mb/s", delay = "150 ms", buffer = "1500 ms"'], []),
    "one changes": (
        ['rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms"', 'rate = "30 Mb/s", delay = "30 ms", buffer = "400 kB"'],
        [(8, "two", "1 Mb/s"), (18, "two", "30 Mb/s"), (24, "two", "1 Mb/s")]),
}


def receive(seconds):
    """In its node: takes one connection, and prints the bytes of each tenth of a second."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", PORT))
    listener.listen()
    print("ready", flush=True)
    connection, data = listener.accept()[0], bytearray(1 << 18)
    connection.settimeout(1)
    begun, counts = time.monotonic(), [0] * (10 * seconds)
    while (at := int(10 * (time.monotonic() - begun))) < len(counts):
        try:
            got = connection.recv_into(data)
        except TimeoutError:
            continue
        if not got:
            break
        counts[min(at, len(counts) - 1)] += got
    print(json.dumps(counts), flush=True)


def send(address):
    """In its node: sends until nobody takes it."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    connection.connect((address, PORT))
    data = bytes(1 << 16)
    try:
        while True:
            connection.sendall(data)
    except (OSError, KeyboardInterrupt):
        pass


class Paths:
    """Two paths between the nodes `here` and `there`, until it is left."""

    def __init__(self, headway, links):
        self.headway, self.folder, self.children = headway, Path(tempfile.mkdtemp()), []
        link = '[[link]]\nname = "{}"\nfrom = "here"\nto = "there"\nforward = {{ {} }}\n'
        (self.folder / "lab.toml").write_text("".join(map(link.format, ["one", "two"], links)))

    def run(self, *words):
        return subprocess.run([self.headway, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def inside(self, node, *words):
        return [self.headway, "lab", "exec", "--name", LAB, node, "--", *words]

    def start(self, node, *words, stdout=subprocess.PIPE):
        child = subprocess.Popen(self.inside(node, *words), stdout=stdout, stderr=subprocess.DEVNULL, text=True)
        self.children.append(child)
        return child

    def __enter__(self):
        self.run("lab", "up", "--name", LAB, str(self.folder / "lab.toml"))
        for node in ["here", "there"]:
            for name, sizes in BUFFERS.items():
                subprocess.run(self.inside(node, "sysctl", "-qw", f"net.ipv4.{name}={sizes}"), check=True)
        # Without a route over both interfaces there is no way for the second subflow.
        for number in [0, 1]:
            words = ["ip", "route", "add", "default", "via", f"10.77.{number}.2", "dev", f"eth{number}", "metric", str(1000 + number)]
            subprocess.run(self.inside("here", *words), check=True)
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.send_signal(signal.SIGINT)
        for child in self.children:
            child.wait()
        self.run("lab", "down", LAB)
        shutil.rmtree(self.folder)

    def by_default(self):
        for number in [0, 1]:
            words = ["ip", "mptcp", "endpoint", "add", f"10.77.{number}.1", "dev", f"eth{number}", "subflow"]
            subprocess.run(self.inside("here", *words), check=True)

    def by_select(self, warm_up, show):
        self.start("there", self.headway, "serve", "--json").stdout.readline()
        path = '[[path]]\nname = "{0}"\nhosts = ["10.77.{1}.2"]\ninterface = "eth{1}"\n'
        head = 'mptcp = true\ninterval = "2 s"\nmax-bytes-per-hour = "100 MB"\n'
        (self.folder / "paths.toml").write_text(head + "".join(path.format(*pair) for pair in [("one", 0), ("two", 1)]))
        words = ["select", str(self.folder / "paths.toml"), "--socket", str(self.folder / "socket")]
        self.start("here", self.headway, *words, stdout=sys.stderr if show else subprocess.DEVNULL)
        time.sleep(warm_up)

    def transfer(self, seconds, changes):
        """Returns the goodput in Mb/s, with the bytes of each tenth of a second."""
        me = [sys.executable, os.path.abspath(__file__)]
        receiver = self.start("there", *me, "--receive", str(seconds))
        receiver.stdout.readline()
        begun = time.monotonic()
        self.start("here", *me, "--send", "10.77.0.2")
        for at, link, rate in changes:
            if at < seconds:
                time.sleep(max(0, begun + at - time.monotonic()))
                self.run("lab", "set", LAB, "--link", link, f'forward.rate="{rate}"')
        counts = json.loads(receiver.stdout.readline())
        return sum(counts) * 8 / seconds / 1e6, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=12, help="seconds that `headway select` has before the connection begins")
    parser.add_argument("--mix", choices=MIXES, action="append", help="only this mix; may be repeated")
    parser.add_argument("--how", action="append", help="only this: default, select, or one, which has the first path alone")
    parser.add_argument("--show", action="store_true", help="print what arrives in each second, and what is decided")
    parser.add_argument("--receive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive:
        return receive(arguments.receive)
    if arguments.send:
        return send(arguments.send)
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP).close()
    except OSError as reason:
        print(f"SKIPPED: this kernel has no MPTCP: {reason}")
        return 3
    for mix in arguments.mix or MIXES:
        links, changes = MIXES[mix]
        found = {how: [] for how in arguments.how or ["default", "select"]}
        for _ in range(arguments.rounds):
            for how, rates in found.items():
                with Paths(headway, links) as paths:
                    if how == "select":
                        paths.by_select(arguments.warm_up, arguments.show)
                    elif how == "default":
                        paths.by_default()
                    rate, counts = paths.transfer(arguments.seconds, changes)
                    rates.append(rate)
                if arguments.show:
                    print(how, *(round(sum(counts[at:at + 10]) * 8 / 1e6) for at in range(0, len(counts), 10)))
        line = [f"{how} {statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})" for how, rates in found.items()]
        if {"default", "select"} <= set(found):
            line.append(f"ratio {statistics.median(found['select']) / statistics.median(found['default']):.2f}")
        print(f"{mix}: {', '.join(line)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
