#!/usr/bin/env python3
"""What a home notices of its access link: without help, with FQ-CoDel at the link itself, and with `headway edge` at the router.

A link of 50 Mb/s down and 10 Mb/s up, with an RTT of 30 ms and buffers of 120 ms (or --home), carries four downloads and an upload of
Linux's CUBIC, a call (250 B every 20 ms each way), pages (five objects of 40 kB on a connection of their own, with half a second
between them), and a ping ten times a second. Before that, the ping has the path for itself for some seconds. With --quic, two of the downloads
are of a protocol like QUIC over UDP (edge_quic.py), and another upload is. With --flood, an upload of UDP takes no notice of anything.

  none         nothing
  fq-codel     FQ-CoDel at both ends of the link, where a router at home has no queue of its own for what comes down
  edge         headway edge, which is given the rates
  edge-smooth  the same with `shape = true` in its policy
  edge-found   headway edge without rates
  edge-found-smooth  the same with `shape = true` in its policy
  edge-probe   headway edge without rates, with --probe
  edge-probe-smooth  the same with `shape = true` in its policy
  cake         CAKE at both ends of the link, with --on uml

Real time needs root and a quiet machine. With --on uml it is the same programs and queues in virtual time, where computing takes none:
every run gives the same numbers, so one of each is enough. With --steps the downlink gets other rates in a run; in virtual time token
buckets of Linux are the link then. `headway` is that of the path, or $HEADWAY. Results of every run go to target/bench/edge-home.json, or $OUT.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import edge_quic

OUT = Path(os.environ.get("OUT") or Path(__file__).resolve().parent.parent / "target/bench/edge-home.json")
LAB = "edge-home-bench"
RATES = {"forward": 50, "reverse": 10}
RTT, BUFFER = 30, 120
SERVER = {"lab": "10.77.0.1", "uml": "server"}
BULK, SINK, WEB, ECHO, QUIC, FLOOD = 5001, 5002, 5003, 5004, 5005, 5006
# How many of each kind there are, and how many of the downloads and besides the upload are of QUIC, if any is.
DOWNLOADS = 4
QUIC_DOWNLOADS, QUIC_UPLOADS = 2, 1
# When a flood begins, in seconds after the rest: connections know their RTTs then.
FLOODED = 4
# A full datagram, in bytes of data and on the wire, and how many of them one answer is for.
DATAGRAM, ON_WIRE, ANSWERS = 1472, 1538, 50
OBJECTS, OBJECT = 5, 40_000
CALL_SIZE, CALL_GAP = 250, 0.020
PING_GAP = 0.1
# The ping alone, and the time in which connections find their rate, which does not count, in seconds.
IDLE, SETTLES = 4, 8
MODES = ["none", "fq-codel", "cake", "edge", "edge-smooth", "edge-found", "edge-found-smooth", "edge-probe", "edge-probe-smooth"]


def cubic(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    return connection


def serve():
    """The server: a source, a sink, pages, and an echo."""

    def listen(port, handle):
        listener = cubic(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(64)

        def accept():
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def source(connection):
        block = bytes(1 << 16)
        try:
            while True:
                connection.sendall(block)
        except OSError:
            pass

    def sink(connection):
        while connection.recv(1 << 16):
            pass

    def pages(connection):
        while connection.recv(1):
            connection.sendall(bytes(OBJECT))

    listen(BULK, source)
    listen(SINK, sink)
    listen(WEB, pages)
    edge_quic.serve(QUIC)
    threading.Thread(target=answer, daemon=True).start()
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("", ECHO))
    print("ready", flush=True)
    while True:
        datagram, peer = echo.recvfrom(2048)
        echo.sendto(datagram, peer)


def answer():
    """Answers a flood now and then, as whoever gets so much does."""
    taker, taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
    taker.bind(("", FLOOD))
    while True:
        _, peer = taker.recvfrom(2048)
        taken += 1
        if taken % ANSWERS == 1:
            taker.sendto(b"!", peer)


def flood(server, rate):
    """Sends datagrams at a rate on the wire in Mb/s, whatever becomes of them."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((server, FLOOD))
    gap, due = ON_WIRE * 8e-6 / rate, time.monotonic()
    while True:
        sender.send(bytes(DATAGRAM))
        due += gap
        time.sleep(max(0, due - time.monotonic()))


class Pings:
    """Datagrams that come back: RTTs by the time at which they were sent."""

    def __init__(self, server, size, gap):
        self.size, self.gap, self.rtts, self.sent, self.over = size, gap, {}, {}, False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((server, ECHO))
        self.socket.settimeout(2)
        threading.Thread(target=self.receive, daemon=True).start()
        threading.Thread(target=self.send, daemon=True).start()

    def send(self):
        number, due = 0, time.monotonic()
        while not self.over:
            self.sent[number] = time.monotonic()
            self.socket.send(number.to_bytes(4, "big") + bytes(self.size - 4))
            number, due = number + 1, due + self.gap
            time.sleep(max(0, due - time.monotonic()))

    def receive(self):
        while not self.over:
            try:
                number = int.from_bytes(self.socket.recv(2048)[:4], "big")
            except OSError:
                continue
            self.rtts[number] = time.monotonic() - self.sent[number]

    def between(self, begin, end):
        """RTTs in ms of those sent in that time, and how many were lost."""
        sent = [number for number, at in self.sent.items() if begin <= at < end]
        rtts = [1e3 * self.rtts[number] for number in sent if number in self.rtts]
        return rtts, len(sent) - len(rtts)


class Bulk:
    """A download or an upload: bytes of payload that have passed, by time."""

    def __init__(self, server, is_download):
        self.server, self.bytes, self.is_download = server, 0, is_download
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        connection = cubic(socket.create_connection((self.server, BULK if self.is_download else SINK)))
        block = bytes(1 << 14)
        try:
            while True:
                self.bytes += len(connection.recv(1 << 16)) if self.is_download else connection.send(block)
        except OSError:
            pass


def browse(server, pages, stop):
    """Loads pages; notes when each began and how long it took."""
    while not stop.is_set():
        begin = time.monotonic()
        with cubic(socket.create_connection((server, WEB))) as connection:
            for _ in range(OBJECTS):
                connection.sendall(b"?")
                left = OBJECT
                while left > 0:
                    left -= len(connection.recv(left))
        pages.append((begin, 1e3 * (time.monotonic() - begin)))
        stop.wait(0.5)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def use(server, seconds, is_half_quic, flooded):
    """The home: uses the link, and prints what it noticed."""
    ping, call = Pings(server, 64, PING_GAP), Pings(server, CALL_SIZE, CALL_GAP)
    time.sleep(IDLE)
    begun = time.monotonic()
    quic = [QUIC_DOWNLOADS, QUIC_UPLOADS] if is_half_quic else [0, 0]
    bulk = [Bulk(server, True) for _ in range(DOWNLOADS - quic[0])]
    bulk += [edge_quic.Bulk(server, QUIC, True) for _ in range(quic[0])] + [Bulk(server, False)]
    bulk += [edge_quic.Bulk(server, QUIC, False) for _ in range(quic[1])]
    if flooded:
        threading.Timer(FLOODED, flood, (server, flooded)).start()
    pages, stop = [], threading.Event()
    threading.Thread(target=browse, args=(server, pages, stop), daemon=True).start()
    print("loaded", flush=True)
    series, end = [], begun + IDLE + seconds
    while (now := time.monotonic()) < end:
        series.append((now - begun, [each.bytes for each in bulk]))
        time.sleep(max(0, begun + len(series) * 0.5 - time.monotonic()))
    stop.set()
    time.sleep(1)
    settled = begun + SETTLES
    first = next(sample for sample in series if sample[0] >= SETTLES)
    rate = lambda which: 8e-6 * sum(series[-1][1][k] - first[1][k] for k in which) / (series[-1][0] - first[0])
    idle, _ = ping.between(0, begun)
    loaded, _ = ping.between(settled, end)
    called, lost = call.between(settled, end)
    jitter = [abs(b - a) for a, b in zip(called, called[1:])]
    loads = [took for at, took in pages if at >= settled]
    result = {
        "idle_p95_ms": percentile(idle, 0.95), "ping_p50_ms": percentile(loaded, 0.5), "ping_p95_ms": percentile(loaded, 0.95),
        "down_mbps": rate(range(DOWNLOADS)), "up_mbps": rate(range(DOWNLOADS, len(bulk))), "each_mbps": [rate([k]) for k in range(len(bulk))], "call_lost": lost, "call_sent": len(called) + lost,
        "jitter_p99_ms": percentile(jitter, 0.99), "page_p50_ms": percentile(loads, 0.5), "page_p95_ms": percentile(loads, 0.95),
        "pages": len(loads),
        "rtts": [(at - begun, 1e3 * ping.rtts[number] if number in ping.rtts else None) for number, at in ping.sent.items()],
        "bytes": series,
    }
    print(json.dumps(result), flush=True)


def scenario(mode):
    queue = ', queue = { kind = "fq-codel" }' if mode == "fq-codel" else f', buffer = "{BUFFER} ms"'
    way = lambda name: f'{name} = {{ rate = "{RATES[name]} Mb/s", delay = "{RTT / 2} ms"{queue} }}'
    link = "[[link]]\nfrom = \"server\"\nto = \"router\"\n" + way("forward") + "\n" + way("reverse")
    return f'{link}\n[[link]]\nfrom = "router"\nto = "home"\nforward = {{ rate = "1 Gb/s" }}\n'


def edge_of(mode, lan, wan, server):
    arguments = ["--lan", lan, "--wan", wan, "--json"]
    if mode.endswith("-smooth"):
        policy = OUT.parent / "edge-home-policy.toml"
        policy.write_text("shape = true\n")
        arguments += ["--policy", policy]
    if mode in ["edge", "edge-smooth"]:
        down, up = (f"{rate}Mb/s" for rate in RATES.values())
        arguments += ["--rate", down, "--up", up]
    return arguments + (["--probe", server] if mode.startswith("edge-probe") else [])


class Lab:
    def __init__(self, headway, mode):
        self.headway, self.children = headway, []
        file = OUT.parent / "edge-home.toml"
        file.write_text(scenario(mode))
        subprocess.run([headway, "lab", "up", "--name", LAB, file], check=True, stdout=subprocess.DEVNULL)

    def start(self, node, *command):
        child = subprocess.Popen([self.headway, "lab", "exec", "--name", LAB, node, "--", *command], stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def set(self, *changes):
        subprocess.run([self.headway, "lab", "set", LAB, "--link", "server-router", *changes], check=True, stdout=subprocess.DEVNULL)

    def down(self, *options):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            child.wait()
        subprocess.run([self.headway, "lab", "down", LAB, *options], check=True, stdout=subprocess.DEVNULL)


QUEUES = {"fq-codel": 'kernel-queue = "fq_codel"', "cake": 'kernel-queue = "cake unlimited"'}


def at_step(number, seconds, steps):
    """When the downlink gets a rate, in seconds of load."""
    return SETTLES + (number + 1) * (seconds - SETTLES) / (len(steps) + 1)


def modem_of(seconds, steps):
    """What the modem does where its queues are token buckets that change."""
    bucket = lambda act, device, rate: (
        f"tc qdisc {act} dev {device} root handle 9: tbf rate {rate}mbit burst 3100 limit {int(rate * 125 * BUFFER)} overhead 24"
    )
    commands = ["PATH=/sbin:/usr/sbin:$PATH", bucket("add", "l1-0a", RATES["forward"]), bucket("add", "l0-1b", RATES["reverse"])]
    times = [SETTLES + IDLE + at_step(number, seconds, steps) for number in range(len(steps))]
    for before, at, rate in zip([0, *times], times, steps):
        commands += [f"sleep {at - before:.3f}", bucket("change", "l1-0a", rate)]
    return "; ".join(commands)


def scenario_of_uml(headway, mode, seconds, steps, load):
    """The same network and programs for virtual time."""
    me = f"{sys.executable} {Path(__file__).resolve()}"
    queue = QUEUES.get(mode, f'buffer = "{BUFFER} ms"')
    way = lambda name: f'{name} = {{ rate = "{RATES[name]} Mb/s", delay = "{RTT / 2} ms", {queue} }}\n'
    program = lambda at, command, start: f"[[program]]\nat = \"{at}\"\ncommand = \"{command}\"\nstart = \"{start} s\"\n"
    text = f'duration = "{SETTLES + IDLE + seconds + IDLE + 4} s"\n'
    # The modem's queue is not one of the router's, which may have another in front of it.
    text += '[[link]]\nfrom = "server"\nto = "modem"\n' + (f'delay = "{RTT / 2} ms"\n' if steps else way("forward") + way("reverse"))
    text += '[[link]]\nfrom = "modem"\nto = "router"\n[[link]]\nfrom = "router"\nto = "home"\nrate = "1 Gb/s"\n'
    # A link with two different ways has a device for each.
    wan, lan = ("l1-1b", "l2-0a") if steps else ("l2-1b", "l3-0a")
    text += program("server", f"{me} --role serve", 0) + (program("modem", modem_of(seconds, steps), 0) if steps else "")
    if mode.startswith("edge-probe"):
        text += program("server", f"{headway} serve", 0)
    if mode.startswith("edge"):
        text += program("router", " ".join([headway, "edge", *map(str, edge_of(mode, lan, wan, SERVER["uml"]))]), 0.5)
    return text + program("home", f"{me} --role 'use {SERVER['uml']} {seconds} {load}'", SETTLES)


def run_uml(headway, mode, seconds, steps, load):
    folder = OUT.parent / f"edge-home-uml-{mode}"
    file = OUT.parent / f"edge-home-{mode}.toml"
    file.write_text(scenario_of_uml(headway, mode, seconds, steps, load))
    subprocess.run([headway, "run", file, "--on", "uml", "--output", folder, "--force"], check=True, stdout=subprocess.DEVNULL)
    outputs = [line for part in sorted(folder.glob("program-*.out")) for line in part.read_text().splitlines()]
    result = next(json.loads(line) for line in outputs if line.startswith('{"idle_p95_ms"'))
    return result | {"mode": mode, "seconds": seconds, "steps": steps, "probes": None}


def run(headway, mode, seconds, steps, load):
    lab = Lab(headway, mode)
    try:
        me = [sys.executable, str(Path(__file__).resolve())]
        assert "ready" in lab.start("server", *me, "--role", "serve").stdout.readline()
        states = []
        if mode.startswith("edge-probe"):
            assert "listening" in lab.start("server", headway, "serve", "--json").stdout.readline()
        if mode.startswith("edge"):
            edge = lab.start("router", headway, "edge", *edge_of(mode, "eth1", "eth0", SERVER["lab"]))
            assert '"on"' in edge.stdout.readline()
            threading.Thread(target=lambda: states.extend(map(json.loads, edge.stdout)), daemon=True).start()
            time.sleep(8 if mode.startswith("edge-probe") else 0)
        home = lab.start("home", *me, "--role", f"use {SERVER['lab']} {seconds} {load}")
        assert "loaded" in home.stdout.readline()
        begun = time.monotonic()
        for part, rate in enumerate(steps):
            time.sleep(max(0, begun + at_step(part, seconds, steps) - time.monotonic()))
            lab.set(f'forward.rate="{rate} Mb/s"')
        result = json.loads(home.stdout.readline())
        probes = [state["probes"] for state in states if state.get("probes")]
        return result | {"mode": mode, "seconds": seconds, "steps": steps, "probes": probes[-1] if probes else None}
    finally:
        lab.down()


def show(results):
    keys = ["idle_p95_ms", "ping_p50_ms", "ping_p95_ms", "down_mbps", "up_mbps", "call_lost", "jitter_p99_ms", "page_p50_ms", "page_p95_ms"]
    print(f"{'':18}" + "".join(f"{key:>22}" for key in keys))
    for mode in MODES:
        runs = [result for result in results if result["mode"] == mode]
        if runs:
            cell = lambda values: f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"
            print(f"{mode:18}" + "".join(f"{cell([each[key] for each in runs]):>22}" for key in keys), flush=True)


def show_steps(results):
    """After each step of a run: how long a queue of more than 50 ms stood, its most, and when downloads had what they had before the first."""
    for result in results:
        seconds, steps = result["seconds"], result["steps"]
        received = [(at, sum(counts[:DOWNLOADS])) for at, counts in result["bytes"]]
        # The last answers are still on their way at the end.
        queues = [(at, math.inf if rtt is None else rtt - RTT) for at, rtt in result["rtts"] if at < seconds - 1]

        def rate(begin, end):
            (first, before), (last, after) = (min(received, key=lambda look: abs(look[0] - at)) for at in [begin, end])
            return (after - before) / (last - first)

        ends = [at_step(number, seconds, steps) for number in range(len(steps))]
        had = rate(ends[0] - SETTLES, ends[0])
        for begin, end, step in zip([0, *ends], [*ends, seconds], [RATES["forward"], *steps]):
            waits = [queue for at, queue in queues if begin <= at < end]
            back = next((at for at in range(1, int(end - begin)) if rate(begin + at - 1, begin + at + 1) >= 0.95 * had), None)
            print(
                f"{result['mode']:18} at {step:3} Mb/s: more than 50 ms of queue for {PING_GAP * sum(queue > 50 for queue in waits):.1f} s, "
                f"at most {max(waits):.0f} ms" + (f"; downloads had what they had after {back} s" if back else "")
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each mode, in turns")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--on", choices=["lab", "uml"], default="lab")
    parser.add_argument("--modes", nargs="+", choices=MODES, help="all by default")
    parser.add_argument("--home", nargs=4, type=int, metavar=("DOWN", "UP", "RTT", "BUFFER"), help="Mb/s, Mb/s, ms and ms")
    parser.add_argument("--steps", nargs="*", type=int, default=[], help="rates that the downlink gets, in Mb/s")
    parser.add_argument("--quic", action="store_true", help="have half of the bulk in a protocol like QUIC")
    parser.add_argument("--flood", type=float, default=0, metavar="RATE", help="Mb/s of an upload of UDP, on the wire")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        role, *rest = arguments.role.split()
        return serve() if role == "serve" else use(rest[0], int(rest[1]), rest[2] == "quic", float(rest[3]))
    modes = arguments.modes or [mode for mode in MODES if mode != "cake" or arguments.on == "uml"]
    if "cake" in modes and arguments.on == "lab":
        parser.error("the emulated link has no CAKE; --on uml has it")
    if arguments.steps and set(modes) & set(QUEUES) and arguments.on == "uml":
        parser.error("with --steps, queues of the link are plain in virtual time; choose other --modes")
    if arguments.home:
        global RTT, BUFFER
        RATES["forward"], RATES["reverse"], RTT, BUFFER = arguments.home
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    results, load = [], f"{'quic' if arguments.quic else 'tcp'} {arguments.flood}"
    for number in range(arguments.runs):
        for mode in modes:
            print(f"run {number + 1} of {arguments.runs}, {mode}", file=sys.stderr)
            if arguments.on == "uml":
                results.append(run_uml(headway, mode, arguments.seconds, arguments.steps, load))
            else:
                results.append(run(headway, mode, arguments.seconds, arguments.steps, load))
            OUT.write_text(json.dumps(results))
    show(results)
    if arguments.steps:
        show_steps(results)


if __name__ == "__main__":
    main()
