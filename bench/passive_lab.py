#!/usr/bin/env python3
"""Judges `headway passive` by captures of Linux transfers whose truth is known.

Draws paths with a token bucket of the kernel (`tbf` or `htb`) at a router in a lab, and on each a transfer that presses the
path, that its application limits, or that its receive window limits; captures it at the sender, before and behind the bucket,
and at the receiver; and compares the verdict, what is free and the capacity with the truth. With `--wide`, all transfers press
the path, rates are 0.5 to 900 Mb/s, buckets 1.5 to 200 kB, and some paths have jitter. With `--links`, the narrow link is one
without a bucket, as a wire is. Needs root, `tc`, and `dumpcap` and `editcap` of Wireshark.

usage: passive_lab.py [--draws N] [--wide] [--links] [--seed S] [--packets N ...] [--headway PROGRAM] [--keep FOLDER]
"""

import argparse
import array
import collections
import fcntl
import json
import pathlib
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

KINDS = {"pressed": "path", "application": "application", "window": "receive-window"}
TAPS = {"sender": ("a", "eth0"), "before": ("r", "eth0"), "behind": ("r", "eth1"), "receiver": ("b", "eth0")}
PORT = 5001
# Bytes of a full packet on the wire, as `tc` counts it, and of its payload.
WIRE, SHAPED, PAYLOAD = 1538, 1514, 1448
LAB = """
name = "{name}"
[[link]]
from = "a"
to = "r"
rate = "5 Gb/s"
delay = "{near:.0f} us"
buffer = "20 MB"
{jitter}
[[link]]
from = "r"
to = "b"
rate = "{rate:.0f} b/s"
delay = "{far:.0f} us"
buffer = "{buffer} B"
"""
SETTINGS = ["tcp_no_metrics_save=1", "tcp_rmem=4096 131072 33554432", "tcp_wmem=4096 131072 33554432"]


def draw(number, seed, kind, wide, links):
    """Returns a path and a transfer over it."""
    chance = random.Random(seed * 1000 + number)
    rate = 10 ** chance.uniform(5.7, 8.95) if wide else 10 ** chance.uniform(6, 8.3)
    rtt = chance.choice([2, 5, 10, 20, 40, 80, 150])
    case = {
        "kind": kind, "rate": rate, "rtt": rtt, "seed": seed,
        "bucket": int(10 ** chance.uniform(3.205, 5.3)) if wide else chance.choice([1600, 5000, 15000]),
        "shaper": "link" if links else chance.choice(["tbf", "htb"]), "buffer": chance.choice([50, 100, 200, 400]),
        "gro": chance.random() < 0.5, "jitter": chance.choice([0, 0, 1, 3]) if wide else 0,
        "cc": chance.choice(["cubic", "reno", "bbr"] if wide or kind != "pressed" else ["cubic", "reno"]),
        "split": chance.choice([0, 0.3, 0.7, 1]), "seconds": 8 if kind == "pressed" else 6,
        "traffic": "bulk", "size": 0, "think": 0, "window": 0,
    }
    bdp = rate * (rtt + 5) / 8e3
    if wide:
        case["seconds"] = min(40, max(3, 30_000 * SHAPED * 8 / rate * 1.2))
    if kind == "window":
        case["window"] = int(max(4000, bdp * chance.uniform(0.1, 0.6)) / 2)
    if kind == "application":
        case["traffic"] = chance.choice(["paced", "bursts", "dialogue"])
        sizes = {"paced": rate * chance.uniform(0.02, 0.5), "dialogue": 1000}
        case["size"] = sizes.get(case["traffic"], min(bdp * chance.uniform(0.1, 1), 3e5) + 2000)
        case["think"] = chance.choice([0, 0.001, 0.02])
    return case


def limit(case):
    """Returns the bytes that may wait at the narrow link."""
    return max(int(case["rate"] * case["buffer"] / 8e3), case["bucket"] + 20 * SHAPED)


class Lab:
    """The path of a case, while it is there."""

    def __init__(self, headway, case):
        self.headway, self.name = headway, f"passive-{random.getrandbits(24):06x}"
        jitter = f'jitter = "{case["jitter"]} ms"' if case["jitter"] else ""
        near = case["rtt"] * case["split"] * 500
        rate, buffer = (case["rate"], limit(case)) if case["shaper"] == "link" else (5e9, 20_000_000)
        text = LAB.format(name=self.name, near=near, far=case["rtt"] * 500 - near, jitter=jitter, rate=rate, buffer=buffer)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            tool(headway, "lab", "up", file.name)
        try:
            self.set_up(case)
        except BaseException:
            self.close()
            raise

    def set_up(self, case):
        me = [sys.executable, __file__]
        for node, device in TAPS.values():
            self.run(node, *me, "offloads", device, str(int(case["gro"])))
        for node in "ab":
            for setting in SETTINGS:
                self.run(node, "sysctl", "-qw", f"net.ipv4.{setting}")
        self.shape(case)
        status = tool(self.headway, "lab", "status").splitlines()
        here = status[next(i for i, line in enumerate(status) if self.name in line):]
        self.host = next(line.split()[1] for line in here if line.split()[:1] == ["b"])

    def shape(self, case):
        rate, bucket = f"{int(case['rate'])}bit", str(case["bucket"])
        root = ["tc", "qdisc", "add", "dev", "eth1", "root", "handle", "1:"]
        if case["shaper"] == "tbf":
            self.run("r", *root, "tbf", "rate", rate, "burst", bucket, "limit", str(limit(case)))
        elif case["shaper"] == "htb":
            self.run("r", *root, "htb", "default", "1")
            of = ["rate", rate, "burst", bucket, "cburst", bucket]
            self.run("r", "tc", "class", "add", "dev", "eth1", "parent", "1:", "classid", "1:1", "htb", *of)
            self.run("r", "tc", "qdisc", "add", "dev", "eth1", "parent", "1:1", "bfifo", "limit", str(limit(case)))

    def inside(self, node, *words):
        return [self.headway, "lab", "exec", "--name", self.name, node, "--", *words]

    def run(self, node, *words):
        return tool(*self.inside(node, *words))

    def close(self):
        subprocess.run([self.headway, "lab", "down", self.name], capture_output=True)


def tool(*words):
    """Runs a command and returns what it printed; stops with its message if it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def capture(headway, case, prefix):
    """Runs the transfer of a case; returns the captures by tap."""
    lab = Lab(headway, case)
    me = [sys.executable, __file__]
    files, running = {}, []
    try:
        for tap, (node, device) in TAPS.items():
            files[tap] = f"{prefix}-{tap}.pcap"
            words = lab.inside(node, "dumpcap", "-q", "-P", "-i", device, "-w", files[tap], "-s", "128", "-f", "tcp")
            running.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
            while "File:" not in running[-1].stderr.readline():
                if running[-1].poll() is not None:
                    raise RuntimeError("dumpcap ended at once; it needs root")
        words = lab.inside("b", *me, "receive", json.dumps(case))
        receiver = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        running.append(receiver)
        receiver.stdout.readline()
        lab.run("a", *me, "send", lab.host, json.dumps(case))
        receiver.wait(timeout=60)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate()
        lab.close()
    return files


def judge(headway, case, file, limit, tally):
    """Compares what `headway passive` says of a capture, or of its first packets, with the truth; returns what is wrong."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as part:
        if limit:
            tool("editcap", "-r", file, part.name, f"1-{limit}")
            file = part.name
        run = subprocess.run([headway, "passive", file, "--json", "--per-flow"], capture_output=True, text=True)
    flows = json.loads(run.stdout).get("flows", [])
    rows = [row for row in flows if row["far"].endswith(f":{PORT}") == (row["direction"] == "to")]
    if not rows:
        return "no transfer"
    # A link of the emulator counts the bytes on the wire.
    row, truth = rows[0], case["rate"] * (1 if case["shaper"] == "link" else WIRE / SHAPED)
    right = KINDS[case["kind"]]
    tally["verdict"].append(row["limited_by"] == right)
    wrong = [] if row["limited_by"] == right else [f"verdict {row['limited_by']}"]
    if row["capacity_bps"]:
        error = row["capacity_bps"] / truth - 1
        tally["capacity"].append(abs(error))
        wrong += [f"capacity {error:+.1%}"] if abs(error) > 0.05 else []
    if row["pair_capacity_bps"]:
        error = row["pair_capacity_bps"] / truth - 1
        tally["pairs"].append(abs(error))
        tally["held"].append(row["pair_capacity_low_bps"] <= truth <= row["pair_capacity_high_bps"])
        wrong += [f"capacity by pairs {error:+.1%}"] if abs(error) > 0.05 else []
    if case["kind"] == "pressed":
        tally["has free"].append(row["free_bps"] is not None)
        if row["free_bps"]:
            tally["free"].append(abs(row["free_bps"] / truth - 1))
            held = row["free_low_bps"] <= truth <= row["free_high_bps"]
            wrong += [] if held else [f"free {row['free_low_bps']} to {row['free_high_bps']} of {truth:.0f}"]
    elif row["free_bps"]:
        wrong.append("free without pressure")
    return ", ".join(wrong)


def report(tally, what):
    verdict, has, free, capacity, pairs = (tally[name] for name in ("verdict", "has free", "free", "capacity", "pairs"))
    print(f"{what}: verdict right {sum(verdict)} of {len(verdict)}; what is free in {sum(has)} of {len(has)} pressed, "
          f"median error {statistics.median(free or [0]):.2%}, worst {max(free, default=0):.1%}; "
          f"capacity in {len(capacity)} of {len(verdict)}, {sum(error > 0.05 for error in capacity)} of them off by more than 5 %; "
          f"by pairs in {len(pairs)}, {sum(error > 0.05 for error in pairs)} of them off by more than 5 %, "
          f"{sum(tally['held'])} within the interval")


def offloads(device, gro):
    """Turns segmentation offloads off, and GRO on or off."""
    inet = socket.socket()
    for command, value in ((0x1F, 0), (0x24, 0), (0x2C, int(gro))):
        buffer = array.array("B", struct.pack("II", command, value))
        fcntl.ioctl(inet, 0x8946, struct.pack("16sP", device.encode(), buffer.buffer_info()[0]) + bytes(16))


def receive(case):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if case["window"]:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, case["window"])
    listener.bind(("", PORT))
    listener.listen(1)
    print("listening", flush=True)
    peer, _ = listener.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(1 << 20):
        if case["traffic"] == "dialogue":
            time.sleep(case["think"])
            peer.send(data[:200])


def send(host, case):
    chance = random.Random(case["seed"])
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, case["cc"].encode())
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.connect((host, PORT))
    begin, data = time.monotonic(), bytes(1 << 19)
    chunk, pause, due = chance.choice([200, 500, 1400, 4000, 16000]), chance.uniform(0.1, 1), begin
    peer.settimeout(5)
    while time.monotonic() - begin < case["seconds"]:
        if case["traffic"] == "bulk":
            peer.send(data)
        elif case["traffic"] == "paced":
            peer.sendall(data[:chunk])
            due += chunk * 8 / case["size"]
            time.sleep(max(0, due - time.monotonic()))
        elif case["traffic"] == "bursts":
            peer.sendall(data[:int(case["size"] * chance.uniform(0.5, 1.5))])
            time.sleep(pause * chance.uniform(0.5, 1.5))
        else:
            peer.sendall(data[:int(chance.uniform(50, case["size"]))])
            peer.recv(4096)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20, help="transfers of each kind, or in all with --wide")
    parser.add_argument("--wide", action="store_true", help="all transfers press the path; many rates, buckets and jitters")
    parser.add_argument("--links", action="store_true", help="the narrow link has no bucket")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packets", type=int, nargs="+", default=[0], help="judge only so many packets of each file; 0: all")
    parser.add_argument("--headway", default="headway", help="the program")
    parser.add_argument("--keep", type=pathlib.Path, help="keep captures and cases in this folder")
    arguments = parser.parse_args()
    kinds = ["pressed"] if arguments.wide else list(KINDS)
    tallies = [collections.defaultdict(list) for _ in arguments.packets]
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.keep or pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(arguments.draws * len(kinds)):
            case = draw(number, arguments.seed, kinds[number % len(kinds)], arguments.wide, arguments.links)
            files = capture(arguments.headway, case, folder / f"{number:03}")
            (folder / f"{number:03}.json").write_text(json.dumps(case))
            for tap, file in files.items():
                for limit, tally in zip(arguments.packets, tallies):
                    wrong = judge(arguments.headway, case, file, limit, tally)
                    if wrong:
                        print(f"{number:03} {tap}, {limit or 'all'} packets: {wrong}; {json.dumps(case)}", flush=True)
                if not arguments.keep:
                    pathlib.Path(file).unlink()
    for limit, tally in zip(arguments.packets, tallies):
        report(tally, f"{limit or 'all'} packets")


if __name__ == "__main__":
    JOBS = {"offloads": lambda rest: offloads(*rest), "receive": lambda rest: receive(json.loads(rest[0])),
            "send": lambda rest: send(rest[0], json.loads(rest[1]))}
    if len(sys.argv) > 1 and sys.argv[1] in JOBS:
        JOBS[sys.argv[1]](sys.argv[2:])
    else:
        main()
