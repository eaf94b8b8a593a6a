#!/usr/bin/env python3
"""Compares `headway passive` with tshark over capture files.

Packets, connections, RTT of handshakes, RTT of segments, and what went wrong with the data of every transfer; and whether
a number for what is free, or for the capacity, stands only where it can: no row's own transfer carried more in a second
than the upper end, and no row with a number for what is free says that something else was the limit. Prints a line for
each disagreement, with packets that only tshark counts, and the share of agreements. Connections whose addresses and
ports occur twice in a file are left out of the comparison of transfers.

usage: passive_tshark.py [--headway COMMAND] FILE_OR_FOLDER...
"""

import argparse
import collections
import functools
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

SUFFIXES = {".pcap", ".pcapng", ".cap"}
FIELDS = [
    "tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst", "tcp.dstport", "tcp.len",
    "tcp.analysis.initial_rtt", "tcp.analysis.ack_rtt", "tcp.analysis.retransmission", "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack", "tcp.analysis.zero_window", "tcp.flags.syn", "tcp.flags.fin",
    "frame.time_epoch", "ip.len", "ipv6.plen", "tcp.ack",
]
# Protocols over TCP, by tshark's names, that also carry TCP over IP, UDP or GRE.
CARRIERS = {"gtp", "gtpprime", "tcp", "udp", "ip", "ipv6", "eth", "vxlan", "geneve", "ppp", "lisp-tcp"}
# Why packets are not used, and tshark counts them.
LEFT_OUT = {"copy": "captured twice, tshark calls copies sent again", "wrong-stamp": "the time stamp is wrong"}
COUNTS = ["retransmissions", "out_of_order", "duplicate_acks", "zero_windows"]
# Bytes of a packet on the wire besides its IP packet, and of an IPv6 header.
FRAMING, IPV6 = 38, 40
# Bytes on the wire for each of the payload of full segments.
WIRE = 1538 / 1448
# An RTT agrees within this share, or this many microseconds.
SHARE, LEAST_US = 0.05, 500


class Transfer:
    """What tshark says about the data of one end of a connection."""

    def __init__(self):
        self.counts = collections.Counter()
        self.ack_rtts = []
        self.handshake = None
        self.data = []
        self.acked = []
        self.acknowledged = None

    def acknowledge(self, at, number):
        """Takes an acknowledgement number, which wraps."""
        advance = (number - (number if self.acknowledged is None else self.acknowledged)) % 2**32
        if advance < 2**31:
            self.acknowledged = number
            self.acked.append((at, advance * WIRE))

    def carried(self):
        """Returns the most bit/s on the wire within a second: of data, or of what was acknowledged if that is less.

        What a sender puts into a queue was not carried yet, and what fills a hole acknowledges what came before.
        """
        return min(peak(self.data), peak(self.acked) or float("inf"))


def peak(data):
    """Returns the most bit/s within a second of times and bytes."""
    most, total, first = 0, 0, 0
    data = sorted(data)
    for at, size in data:
        total += size
        while at - data[first][0] >= 1:
            total -= data[first][1]
            first += 1
        most = max(most, total)
    return 8 * most


@functools.cache
def without_payloads():
    """Returns options by which tshark leaves out what TCP carries: some of it takes minutes to read."""
    tables = subprocess.run(["tshark", "-G", "decodes"], capture_output=True, text=True).stdout.splitlines()
    rows = [line.split("\t") for line in tables]
    carried = sorted({row[2] for row in rows if row[0] == "tcp.port"} - CARRIERS)
    return [part for protocol in carried for part in ("--disable-protocol", protocol)]


def tshark(path):
    """Returns packets, streams, and transfers by (source, destination)."""
    columns = [part for field in FIELDS for part in ("-e", field)]
    command = ["tshark", "-r", str(path), *without_payloads(), "-T", "fields", "-E", "occurrence=f"]
    command += ["-E", "separator=|", *columns]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    streams, packets = {}, 0
    transfers = collections.defaultdict(Transfer)
    for line in lines:
        row = dict(zip(FIELDS, line.split("|")))
        packets += 1
        if not row["tcp.stream"]:
            continue
        ends = [endpoint(row[f"ip.{e}"], row[f"ipv6.{e}"], row[f"tcp.{e}port"]) for e in ("src", "dst")]
        streams[row["tcp.stream"]] = frozenset(ends)
        sends, acks = transfers[tuple(ends)], transfers[tuple(reversed(ends))]
        if row["tcp.analysis.initial_rtt"]:
            sends.handshake = acks.handshake = 1e6 * float(row["tcp.analysis.initial_rtt"])
        if row["tcp.len"] not in ("", "0"):
            size = int(row["ip.len"] or 0) or int(row["ipv6.plen"] or 0) + IPV6
            sends.data.append((float(row["frame.time_epoch"]), size + FRAMING))
        if row["tcp.ack"]:
            acks.acknowledge(float(row["frame.time_epoch"]), int(row["tcp.ack"]))
        # A FIN occupies a sequence number like data.
        if row["tcp.len"] not in ("", "0") or row["tcp.flags.fin"] == "1":
            sends.counts["retransmissions"] += bool(row["tcp.analysis.retransmission"])
            sends.counts["out_of_order"] += bool(row["tcp.analysis.out_of_order"])
        acks.counts["duplicate_acks"] += bool(row["tcp.analysis.duplicate_ack"])
        acks.counts["zero_windows"] += bool(row["tcp.analysis.zero_window"])
        if row["tcp.analysis.ack_rtt"]:
            acks.ack_rtts.append(1e6 * float(row["tcp.analysis.ack_rtt"]))
    twice = {ends for ends, count in collections.Counter(streams.values()).items() if count > 1}
    once = {ends: of for ends, of in transfers.items() if frozenset(ends) not in twice}
    return packets, len(streams), once


def endpoint(v4, v6, port):
    return f"{v4}:{port}" if v4 else f"[{v6}]:{port}"


def agree(ours, theirs):
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= max(SHARE * theirs, LEAST_US)


def compare(path, command, tally):
    packets, streams, transfers = tshark(path)
    run = subprocess.run([*command, str(path)], capture_output=True, text=True)
    try:
        result = json.loads(run.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        result = {"error": run.stderr.strip()[:200]}
    if streams == 0:
        return
    if "error" in result:
        tally["files read"].append(f"{path}: {result['error']}")
        return
    tally["files read"].append(None)
    why = reasons(result)
    judge(tally, "packets", path, result["packets"], packets, result["packets"] == packets)
    judge(tally, "connections", path, result["connections"], streams, result["connections"] == streams, why)
    for flow in result["flows"]:
        ends = (flow["near"], flow["far"])
        ends = ends if flow["direction"] == "to" else ends[::-1]
        theirs = transfers.get(ends)
        if theirs is None:
            continue
        name = f"{path} {ends[0]} to {ends[1]}"
        ours = flow["handshake_rtt_us"]
        if ours is not None or theirs.handshake is not None:
            judge(tally, "handshake RTT", name, ours, theirs.handshake, agree(ours, theirs.handshake), why)
        highest = flow["free_high_bps"] or flow["capacity_high_bps"]
        if highest is not None:
            carried = theirs.carried()
            judge(tally, "upper ends", name, highest, carried, carried <= highest)
        if flow["free_bps"] is not None:
            limit = flow["limited_by"]
            judge(tally, "limit where free", name, limit, "path", limit == "path")
        for count in COUNTS:
            judge(tally, count, name, flow[count], theirs.counts[count], flow[count] == theirs.counts[count], why)
        if len(theirs.ack_rtts) >= 20 and flow["ack_rtt_median_us"] is not None:
            median = statistics.median(theirs.ack_rtts)
            judge(tally, "median RTT", name, flow["ack_rtt_median_us"], median,
                  agree(flow["ack_rtt_median_us"], median))


def judge(tally, what, name, ours, theirs, right, why=""):
    tally[what].append(None if right else f"{name}: {ours}, not {theirs}{why}")


def reasons(result):
    """Says which packets of the file tshark counts and `headway passive` leaves out on purpose."""
    left_out = {name: result.get("packets_skipped", {}).get(name, 0) for name in LEFT_OUT}
    return "".join(f"; {count} left out: {LEFT_OUT[name]}" for name, count in left_out.items() if count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headway", default="headway passive --json --per-flow", help="the command that reads a file")
    parser.add_argument("--quiet", action="store_true", help="print the shares only")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    files = []
    for path in arguments.paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        files += [file for file in inside if file.is_file() and (path.is_file() or file.suffix in SUFFIXES)]
    tally = collections.defaultdict(list)
    for file in files:
        compare(file, shlex.split(arguments.headway), tally)
    for what, results in tally.items():
        if not arguments.quiet:
            for wrong in filter(None, results):
                print(f"{what}: {wrong}")
    print(f"{len(files)} files")
    for what, results in tally.items():
        right = sum(result is None for result in results)
        print(f"{what}: {right} of {len(results)} agree ({100 * right / len(results):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
