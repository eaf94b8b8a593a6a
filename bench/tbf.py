#!/usr/bin/env python3
"""Measures the kernel's `tbf` on this host: throughput over rate and bucket, and bursts in intervals of 1 ms.

Needs root. A TCP flow (cubic, segmentation offloads off) goes from one network namespace to another over a veth
pair whose sending end has the shaper. Rates count what `tbf` counts: the IP packet and 14 bytes of Ethernet.
In virtual time, where timers are never late, the same sweep is `headway-bench repro wan --on uml`.
"""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

RATES = [100, 200, 400, 600, 800, 1000]
BUCKETS = [1600, 2400, 3200, 4800]
PORT = 5001
# Segments carry 1448 bytes of payload in 1514 bytes as `tbf` counts them.
WIRE = 1514 / 1448
WARM_UP = 0.3
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
NAMES = [f"headway-tbf-{os.getpid()}-{end}" for end in ("a", "b")]


def tool(*words, check=True):
    """Runs a command and stops with its message if it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")


def set_up():
    """Creates two namespaces with a veth pair, offloads off."""
    for name in NAMES:
        tool("ip", "netns", "add", name)
    a, b = NAMES
    tool("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
    for host, name in enumerate(NAMES, 1):
        inside = ("ip", "netns", "exec", name)
        tool(*inside, "ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off")
        tool("ip", "-n", name, "addr", "add", f"10.78.0.{host}/24", "dev", "eth0")
        tool("ip", "-n", name, "link", "set", "eth0", "up")


def shape(rate, bucket):
    """Replaces the shaper; without a rate there is none."""
    tool("tc", "-n", NAMES[0], "qdisc", "del", "dev", "eth0", "root", check=False)
    if rate:
        limit = rate * 125_000 // 20 + bucket  # 50 ms
        tool("tc", "-n", NAMES[0], "qdisc", "add", "dev", "eth0", "root", "tbf",
             "rate", f"{rate}mbit", "burst", str(bucket), "limit", str(limit))


def transfer(seconds, capture):
    """Sends for this long; returns the rate in Mb/s and, with `capture`, the bytes of every interval of 1 ms."""
    me = [sys.executable, __file__]
    receive = subprocess.Popen(["ip", "netns", "exec", NAMES[1], *me, "--receive", str(seconds)],
                               stdout=subprocess.PIPE, text=True)
    receive.stdout.readline()
    watch = None
    if capture:
        watch = subprocess.Popen(["ip", "netns", "exec", NAMES[1], *me, "--watch", str(seconds)],
                                 stdout=subprocess.PIPE, text=True)
        watch.stdout.readline()
    subprocess.run(["ip", "netns", "exec", NAMES[0], *me, "--send", str(seconds)], check=True)
    rate = float(receive.communicate()[0])
    bins = [int(word) for word in watch.communicate()[0].split()] if watch else []
    return rate, bins


def send(seconds):
    sender = socket.create_connection(("10.78.0.2", PORT))
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    end, data = time.monotonic() + seconds + WARM_UP, bytes(1 << 16)
    sender.settimeout(5)
    try:
        while time.monotonic() < end:
            sender.send(data)
    except ConnectionError:
        pass  # The receiver has seen enough.


def receive(seconds):
    listener = socket.create_server(("10.78.0.2", PORT))
    print("ready", flush=True)
    connection, data = listener.accept()[0], bytearray(1 << 18)
    start, count = time.monotonic(), 0
    began = None
    while got := connection.recv_into(data):
        now = time.monotonic()
        if now - start < WARM_UP:
            continue
        if began is None:
            began = now
            continue
        count, last = count + got, now
        if now - began > seconds:
            break
    print(count * 8 * WIRE / (last - began) / 1e6)


def watch(seconds):
    """Prints the bytes of every interval of 1 ms, as `tbf` counts them, by the kernel's stamps."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    tap.bind(("eth0", 0x0800))
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.settimeout(WARM_UP + 2)
    print("ready", flush=True)
    seen = []
    try:
        while not seen or seen[-1][0] - seen[0][0] < (seconds + WARM_UP) * 1e9:
            data, extra, _, _ = tap.recvmsg(2048, 64)
            for level, kind, stamp in extra:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    whole, rest = struct.unpack("qq", stamp[:16])
                    seen.append((whole * 10**9 + rest, len(data)))
    except TimeoutError:
        pass
    begin = seen[0][0] + int(WARM_UP * 1e9)
    bins = [0] * int(seconds * 1000)
    for at, size in seen:
        index = (at - begin) // 1_000_000
        if 0 <= index < len(bins):
            bins[index] += size
    print(*bins)


def throughput(rounds, seconds):
    """Prints the median throughput for every rate and bucket, in Mb/s; cells take turns, so load hits all alike."""
    found = {}
    for _ in range(rounds):
        for rate in RATES:
            for bucket in BUCKETS:
                shape(rate, bucket)
                found.setdefault((rate, bucket), []).append(transfer(seconds, False)[0])
    print(f"Throughput in Mb/s, median of {rounds} (lowest):")
    print("rate Mb/s " + "".join(f"{f'{bucket} B':>16}" for bucket in BUCKETS))
    for rate in RATES:
        cells = [found[rate, bucket] for bucket in BUCKETS]
        print(f"{rate:>9} " + "".join(f"{statistics.median(cell):>8.0f} ({min(cell):>4.0f})" for cell in cells))


def pacing(seconds, rate=200, bucket=4800):
    """Prints how many intervals of 1 ms exceed the rate and a full bucket, with a shaper and without."""
    print(f"Intervals of 1 ms with more than {rate} Mb/s and a bucket of {bucket} B:")
    for name, shaped in [("with tbf", rate), ("without", None)]:
        shape(shaped, bucket)
        bins = transfer(seconds, True)[1]
        above = sum(size > rate * 125 + bucket for size in bins)
        print(f"  {name}: {above} of {len(bins)}; the largest {max(bins) / 125:.0f} Mb/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="transfers per cell (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time of a transfer (default 1)")
    for end in ("send", "receive", "watch"):
        parser.add_argument(f"--{end}", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for end, work in (("send", send), ("receive", receive), ("watch", watch)):
        if (given := getattr(args, end)) is not None:
            return work(given)
    try:
        set_up()
        throughput(args.rounds, args.seconds)
        pacing(args.seconds)
    finally:
        for name in NAMES:
            tool("ip", "netns", "del", name, check=False)


if __name__ == "__main__":
    main()
