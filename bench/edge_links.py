#!/usr/bin/env python3
"""Judges `headway edge` over drawn homes and over access links that are not wires, in the simulator.

  none      nothing
  fq-codel  FQ-CoDel at both ends of the access link, at its true rate
  told      a middlebox that is told the true rate, the highest where it varies
  found     a middlebox that finds the rate

Homes: a class of homes at a time, each with the same seed in all modes. One is not worse in any way than without a middlebox if goodput of
both directions together is at least 0.9 of it, the 95th percentile of a ping (where there is none, of the queues) not longer by more than
3 ms and 10 %, no long flow has less than half of its share (what it had without, at most an equal share), the least of 5 s in the second half
has half of the mean there, pages take (95th percentile) and calls lose no more than 15 % more. Links: the goodput of `found` in parts
of the lesser of `none` and `fq-codel`, which should be 0.85, and a mean queue that is no longer than without. Steps: single cases with goals.

Traces of mahimahi are those of --traces, a folder with NAME.down and NAME.up. Results of `none` and `fq-codel` do not depend on the middlebox
and stay in target/bench/edge-links-cache.json. All numbers go to target/bench/edge-links.json, or $OUT. `headway` is that of the path, or $HEADWAY.
"""

import argparse
import hashlib
import inspect
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "target/bench"
OUT = Path(os.environ.get("OUT") or TARGET / "edge-links.json")
CACHE = TARGET / "edge-links-cache.json"
MODES = ["none", "fq-codel", "told", "found"]
# What a middlebox is told, in parts of the rate of the link: windows count payload.
TOLD = 1448 / 1538
# What a middlebox is told that finds the rate, in parts of the highest rate, one of them in each case; and one that holds nothing, in Mb/s.
FAR_ABOVE, INERT = [3, 10, 50], 1_000_000
# Bytes of a full packet on the wire and of its payload.
PACKET, PAYLOAD = 1538, 1448
# The ping is a flow that sends a segment every 100 ms, and its RTT is read every 50 ms.
PING, INTERVAL = 0.1, 0.05
# Sizes of pages.
WEB = 'kind = "lognormal", mean = "60 kB", spread = 1.5'


def case(down, up, rtt, flows, buffer=(100, 100), **more):
    """An access link with rates in Mb/s or steps of them, [[s, Mb/s], ...], the RTT without queues and buffers in ms."""
    return {"rates": [down, up], "rtt": rtt, "flows": flows, "buffer": buffer, "duration": 50, "warmup": 10, **more}


def bulk(controller, count=1, way="down", server="server", **more):
    return {"name": f"{way}-{controller}-{server}", "controller": controller, "count": count, "way": way, "server": server, "stagger": "250 ms", **more}


def short(name, way, per_second, sizes):
    arrivals = f"arrivals = {{ per-second = {per_second:.2f}, size-distribution = {{ {sizes} }} }}"
    return {"name": name, "controller": "cubic", "way": way, "server": "server", "line": arrivals, "short": True}


def small(name, rate):
    return {**bulk("cubic"), "name": name, "line": f'application-rate = "{rate:.3f} kb/s"'}


def highest(made):
    return [max(rate for _, rate in rates) if isinstance(rates, list) else rates for rates in made["rates"]]


def middlebox(mode, made):
    """The middlebox of a mode, and the only place that knows its keys."""
    rates = [rate * TOLD for rate in highest(made)]
    keys = {"told": "by-use = true", "found": "find-rate = true"}.get(mode, "")
    if mode == "found":
        rates = [rate * FAR_ABOVE[made["seed"] % len(FAR_ABOVE)] for rate in highest(made)]
    elif mode != "told":
        # Flows that pass a middlebox open with a handshake, so short ones pass one that holds nothing.
        if not any(flow.get("short") for flow in made["flows"]):
            return ""
        rates = [INERT] * 2
    text = f'[[middlebox]]\nat = "home"\nkind = "receive-window"\nwan = "provider"\n{keys}\nrate = "{rates[0]:.4f} Mb/s"\nup = "{rates[1]:.4f} Mb/s"\n'
    held = [flow["name"] for flow in made["flows"] if not flow.get("before")]
    if len(held) < len(made["flows"]):
        text += f'[[middlebox.class]]\nname = "new"\nshare = 1.0\nflows = {json.dumps(held)}\n'
    return text


def scenario(mode, made):
    """Servers, an access link from the provider to the home, and a laptop behind it."""
    access = min(1, made["rtt"] / 4)
    text = f'seed = {made["seed"]}\nduration = "{made["duration"]} s"\nwarmup = "{made["warmup"]} s"\ninterval = "{INTERVAL * 1000:.0f} ms"\n'

    def link(ends, lines, duplex=False):
        nonlocal text
        text += f'[[link]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nduplex = {json.dumps(duplex)}\n' + "".join(f"{line}\n" for line in lines if line)

    for name, server in {"server": {}, **made.get("servers", {})}.items():
        rtt = server.get("rtt", made["rtt"])
        steps = ", ".join(f'["{at:.3f} s", "{max(each / 2 - access, 0):.3f} ms"]' for at, each in (rtt if isinstance(rtt, list) else [[0, rtt]]))
        link([name, "provider"], [f"delay-trace = [{steps}]", *server.get("lines", [])], True)
    for ends, rates, buffer, lines in zip([["provider", "home"], ["home", "provider"]], made["rates"], made["buffer"], made.get("lines", [[], []])):
        steps = rates if isinstance(rates, list) else [[0, rates]]
        rate = "rates = [" + ", ".join(f'["{at:.3f} s", "{each:.4f} Mb/s"]' for at, each in steps) + "]"
        queue = 'queue = { kind = "fq-codel" }' if mode == "fq-codel" else f'buffer = "{buffer:.1f} ms"'
        silent = ", ".join(f'["{at:.3f} s", "{length:.0f} ms"]' for at, length in made.get("outages", []))
        link(ends, [rate, f'delay = "{access:.3f} ms"', queue, f"outages = [{silent}]" if silent else "", *lines])
    link(["home", "laptop"], made.get("lan", []), True)
    for flow in made["flows"]:
        ends = [flow["server"], "laptop"] if flow["way"] == "down" else ["laptop", flow["server"]]
        text += f'[[flow]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nname = "{flow["name"]}"\ncontroller = "{flow["controller"]}"\n'
        text += "".join(f"{key} = {json.dumps(flow[key])}\n" for key in ("count", "stagger", "start", "stop") if key in flow) + flow.get("line", "") + "\n"
    for ends in [["server", "laptop"], ["laptop", "server"]] if made.get("call") else []:
        text += f'[[traffic]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nmodel = "cbr"\nrate = "{made["call"]:.0f} kb/s"\nsize = "250 B"\n'
        text += f'start = "{made["warmup"]} s"\nstop = "{made["duration"] - 3} s"\n'
    return text + middlebox(mode, made)


def numbers(folder, made):
    """What counts of a result."""
    summary = json.loads((folder / "summary.json").read_text())
    rows = {file: [line.split(",") for line in (folder / f"{file}.csv").read_text().splitlines()[1:]] for file in ("flows", "goodput", "truth", "tcp")}
    ways = {flow["name"]: flow["way"] for flow in made["flows"]}
    short = {flow["name"] for flow in made["flows"] if flow.get("short")} | {"ping"}
    goodput = {"down": 0, "up": 0}
    for group in summary["groups"]:
        if group["name"] != "ping":
            goodput[ways[group["name"]]] += group["goodput_bps"] / 1e6
    flows = {row[0]: [ways[row[1]], float(row[5] or 0) / 1e6] for row in rows["flows"] if row[1] not in short}
    seconds = [0.0] * made["duration"]
    for begin, end, flow, rate in rows["goodput"]:
        if flow in flows:
            seconds[min(int(begin) // 10**9, len(seconds) - 1)] += float(rate) * (int(end) - int(begin)) / 1e15
    result = {"goodput": goodput, "flows": list(flows.values()), "seconds": seconds, "queue": {}, "queue_p95": {}, "over_50ms": {}}
    for name, way in [("provider->home", "down"), ("home->provider", "up")]:
        result["queue"][way] = next(link["delay_mean_ns"] for link in summary["links"] if link["link"] == name) / 1e6
        delays = []
        for begin, end, link, capacity, *_, queued in rows["truth"]:
            if link == name and int(begin) >= made["warmup"] * 1e9:
                rate = float(capacity or 0) / (int(end) - int(begin)) * 1e6
                delays.append(float(queued) / rate if rate else delays[-1] if delays else 0)
        result["queue_p95"][way] = percentile(delays, 0.95)
        result["over_50ms"][way] = sum(delay > 50 for delay in delays) * INTERVAL
    if "ping" in ways:
        # The smoothed RTT takes an eighth of a new sample, and there is one in an interval at most, or nearly so.
        smoothed = [float(row[4]) / 1e6 for row in rows["tcp"] if row[1] == "0" and row[4] and int(row[0]) >= made["warmup"] * 1e9]
        samples = [8 * after - 7 * before for before, after in itertools.pairwise(smoothed) if after != before]
        result["ping"] = [percentile(samples or smoothed, part) for part in (0.5, 0.95)]
    pages = next((group["completions"] for group in summary["groups"] if group["name"] == "web"), None)
    if pages:
        result["web"] = (pages["p95_ns"] or 0) / 1e6
    if made.get("call"):
        result["call_loss"] = 1 - min(1, *(source["delivered"] / max(source["sent"], 1) for source in summary["traffic"][:2]))
    return result


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


class Runs:
    """Runs scenarios, some at once, and remembers those that no middlebox decides."""

    def __init__(self, headway, jobs):
        self.headway, self.jobs, self.done = headway, jobs, 0
        self.cache = json.loads(CACHE.read_text()) if CACHE.exists() else {}
        self.version = inspect.getsource(numbers)

    def one(self, mode, made):
        text = scenario(mode, made)
        key = hashlib.sha256((self.version + text).encode()).hexdigest()
        result = self.cache.get(key)
        if result is None:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "case.toml").write_text(text)
                command = [self.headway, "run", f"{folder}/case.toml", "--on", "sim", "--output", f"{folder}/out"]
                ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
                if ended.returncode:
                    raise RuntimeError(f"{ended.stderr}\n{text}")
                result = numbers(Path(folder) / "out", made)
            if mode in ("none", "fq-codel"):
                self.cache[key] = result
        self.done += 1
        print(f"\r{self.done} runs", end="", file=sys.stderr)
        return result

    def all(self, cases, modes):
        """The results of each case, by mode."""
        jobs = [(mode, made) for made in cases for mode in modes]
        with ThreadPoolExecutor(self.jobs) as pool:
            results = iter(list(pool.map(lambda job: self.one(*job), jobs)))
        TARGET.mkdir(parents=True, exist_ok=True)
        CACHE.write_text(json.dumps(self.cache))
        print(file=sys.stderr)
        return [{mode: next(results) for mode in modes} for _ in cases]


def log(draw, least, most):
    return least * (most / least) ** draw.random()


def any_bulk(draw, most=4, way="down"):
    return bulk(draw.choice(["cubic", "cubic", "reno", "bbr"]), draw.randint(1, most), way, start=f"{draw.uniform(0, 4):.2f} s")


def walk(draw, least, most, every, spread, duration=60):
    """Steps of a rate that walks at random between two, on a logarithmic scale."""
    rate, steps = log(draw, least * 1.5, most / 1.5), []
    for step in range(int(duration / every)):
        steps.append([step * every, rate])
        rate = min(most, max(least, rate * math.exp(draw.gauss(0, spread))))
    return steps


def parts(steps, part):
    return [[at, rate * part] for at, rate in steps]


def handovers(draw, rtts, rates, every=15, duration=60):
    """An RTT, and the parts of a rate, that are others every so many seconds."""
    times = [0, *range(draw.randint(1, every), duration, every)]
    return [[at, draw.uniform(*rtts)] for at in times], [[at, draw.uniform(*rates)] for at in times]


def jitter(milliseconds):
    return [f'jitter = "{milliseconds:.1f} ms"']


def homes(draw):
    """One home of each class."""
    uniform, pick, buffers = draw.uniform, draw.choice, lambda least=20, most=300: (log(draw, least, most), log(draw, least, most))
    late = {"start": f"{uniform(0, 4):.2f} s"}
    drawn = {}

    def home(name, flows, down, up, rtt=(10, 60), buffer=None, **more):
        """Numbers, or least and most of what is drawn."""
        down, up, rtt = [log(draw, *each) if isinstance(each, tuple) else each for each in (down, up, rtt)]
        drawn[name] = case(down, up, rtt, flows, buffer or buffers(), **more)

    rate = log(draw, 50, 300)
    home("fibre", [any_bulk(draw), any_bulk(draw, 2, "up")][: pick([1, 2])], rate, rate, (4, 40))
    rate = log(draw, 80, 300)
    home("cable, both ways", [bulk(pick(["reno", "cubic"])), bulk("cubic", way="up", **late)], rate, rate / uniform(12, 22), (8, 45))
    home("cable, downloads", [any_bulk(draw)], (80, 300), (6, 15), (8, 45))
    rate = log(draw, 10, 60)
    home("DSL", [any_bulk(draw), bulk("cubic", way="up", **late)][: pick([1, 2])], rate, rate / uniform(4, 10), (12, 60), buffers(50, 500))
    home("slow DSL", [bulk(pick(["cubic", "reno"]), draw.randint(1, 3))], (1, 6), (0.3, 0.8), (20, 60), buffers(100, 600))
    steps = walk(draw, 5, 60, uniform(0.3, 1), 0.2)
    home("LTE, rate walks", [any_bulk(draw)], steps, parts(steps, uniform(0.2, 0.5)), (30, 70), buffers(100, 500))
    home("satellite", [any_bulk(draw)], (10, 80), (2, 10), 600, buffers(100, 600), duration=60, warmup=20)
    rtts, rates = handovers(draw, (25, 60), (0.6, 1.3))
    home("low satellite", [any_bulk(draw)], parts(rates, 120), parts(rates, 15), 40, buffers(50, 200), servers={"server": {"rtt": rtts}}, duration=60)
    home("Wi-Fi behind", [any_bulk(draw)], (20, 150), (5, 40), lan=jitter(log(draw, 3, 20)))
    home("jitter of ACKs", [any_bulk(draw)], (10, 100), (5, 50), (6, 60), lines=[[], jitter(log(draw, 5, 40))])
    home("jitter of data", [any_bulk(draw)], (10, 100), (5, 50), (6, 60), lines=[jitter(log(draw, 5, 40)), []])
    rate, times = log(draw, 10, 100), [0, *sorted(draw.sample(range(5, 50), 4))]
    home("rate in steps", [any_bulk(draw)], [[at, rate * (2, 1)[n % 2]] for n, at in enumerate(times)], rate / 2)
    home("deep buffers", [any_bulk(draw)], (8, 100), (2, 20), (10, 100), buffers(300, 1000))
    home("shallow buffers", [any_bulk(draw)], (8, 200), (4, 50), (15, 200), buffers(10, 20))
    home("many downloads", [bulk(pick(["cubic", "bbr", "reno"]), draw.randint(8, 16))], (20, 200), (5, 40), (10, 80))
    for controller in ["reno", "cubic", "bbr"]:
        home(f"one download, {controller}", [bulk(controller)], (8, 200), (4, 50), (8, 100))
    home("BBR beside CUBIC", [bulk("cubic", draw.randint(1, 3)), bulk("bbr", draw.randint(1, 2))], (20, 200), (5, 40), (10, 80))
    rate = log(draw, 20, 200)
    home("uploads beside", [any_bulk(draw), any_bulk(draw, 2, "up")], rate, rate / uniform(2, 6), (10, 80))
    rate = log(draw, 10, 150)
    home("both full, equal", [any_bulk(draw), any_bulk(draw, 4, "up")], rate, rate, (5, 80))
    servers = {"near": {"rtt": uniform(3, 5)}, "far": {"rtt": uniform(150, 250)}}
    home("near beside far", [bulk("cubic", server="near"), bulk("cubic", draw.randint(1, 2), server="far")], (20, 150), (5, 40), 20, servers=servers)
    before = {**bulk("cubic", draw.randint(1, 2)), "name": "before", "before": True}
    home("flows that began before", [any_bulk(draw, 2), before], (20, 150), (5, 40))
    home("pages beside", [any_bulk(draw), short("web", "down", uniform(0.5, 3), WEB)], (10, 150), (5, 40))
    video = {**bulk("cubic"), "name": "video", "line": f'chunk = "{log(draw, 0.5, 4):.1f} MB"\npause = "{uniform(1, 4):.1f} s"'}
    home("video in chunks", [any_bulk(draw, 2), video], (15, 100), (5, 40))
    rate = log(draw, 10, 100)
    home("calls beside", [any_bulk(draw), any_bulk(draw, 1, "up")], rate, rate / 4, call=min(pick([60, 100, 300, 1500]), 1000 * rate / 32))
    rate = log(draw, 30, 150)
    lines = [f'rate = "{rate / uniform(5, 12):.2f} Mb/s"', f'buffer = "{log(draw, 100, 400):.0f} ms"']
    home("limited elsewhere", [bulk("cubic", 2, server="narrow"), any_bulk(draw, 2)], rate, rate / 4, servers={"narrow": {"lines": lines}})
    home("loss and BBR", [bulk("bbr", draw.randint(1, 3))], (20, 150), (10, 50), (10, 100), lines=[[f"loss = {log(draw, 0.001, 0.02):.5f}"], []])
    strangers = short("strangers", pick(["down", "up"]), log(draw, 3, 100), f'kind = "fixed", size = "{draw.randint(100, 1400)} B"')
    home("strangers' connections", [any_bulk(draw), strangers], (20, 100), (8, 30))
    rtt = log(draw, 6, 40)
    rate = draw.randint(4, 10) * PACKET * 8 / rtt / 1000
    home("BDP of few segments", [bulk(pick(["cubic", "reno"]), draw.randint(1, 2))], rate, rate, rtt, buffers(50, 200))
    for part in (0.2, 5):
        rate = log(draw, 20, 150) / max(part, 1)
        home(f"rate x {part}", [any_bulk(draw)], [[0, rate], [uniform(14, 22), rate * part]], rate * 0.3)
    rtts = [[0, 22], [uniform(14, 22), pick([34, 62, 202])]]
    home("path becomes longer", [any_bulk(draw)], (20, 150), (10, 30), 22, servers={"server": {"rtt": rtts}})
    silent = [[uniform(5, 24), 1000 * log(draw, 0.3, 2)], [uniform(28, 46), 1000 * log(draw, 0.3, 2)]][: pick([1, 2])]
    home("outages", [any_bulk(draw)], (10, 100), (5, 30), (15, 60), buffers(100, 400), outages=silent)
    for name, made in drawn.items():
        made |= {"class": name, "seed": draw.randint(1, 10**6)}
        if draw.random() < 0.75:
            made["flows"].insert(0, {**small("ping", PAYLOAD * 8 / PING / 1000), "controller": "fixed-window:60", "start": f"{uniform(0, 8):.2f} s"})
    return list(drawn.values())


def judge(result, without):
    """What is worse than without: by how much the limit is missed, above 1 if it is."""
    missed = {"goodput": 0.9 * sum(without["goodput"].values()) / max(sum(result["goodput"].values()), 1e-6)}
    delay, before = [each["ping"][1] if "ping" in each else sum(each["queue_p95"].values()) for each in (result, without)]
    missed["delay"] = delay / (before + max(3, 0.1 * before))
    equal = {way: sum(rate for each, rate in without["flows"] if each == way) / max(1, sum(each == way for each, _ in without["flows"])) for way in ("down", "up")}
    missed["share"] = max(0.5 * min(before, equal[way]) / max(rate, 1e-6) for (way, rate), (_, before) in zip(result["flows"], without["flows"]))
    missed["swings"] = min(0.5, 0.9 * steadiness(without)) / max(steadiness(result), 1e-6)
    if "web" in without:
        missed["pages"] = result["web"] / max(1.15 * without["web"], 1)
    if "call_loss" in without:
        missed["call"] = result["call_loss"] / (1.15 * without["call_loss"] + 0.002)
    return missed


def steadiness(result):
    seconds = result["seconds"][len(result["seconds"]) // 2 :]
    bins = [sum(seconds[at : at + 5]) for at in range(0, len(seconds) - 4, 5)]
    return min(bins) / max(statistics.mean(bins), 1e-6)


def described(made):
    rates = " / ".join(f"{rate:.1f}" for rate in highest(made))
    flows = ", ".join(f'{flow.get("count", 1)} {flow["name"]}' for flow in made["flows"])
    return f'{rates} Mb/s, {made["rtt"]:.0f} ms, buffers {made["buffer"][0]:.0f} and {made["buffer"][1]:.0f} ms, {flows}, seed {made["seed"]}'


def judge_homes(runs, arguments):
    draw = random.Random(arguments.seed)
    cases = [made for _ in range(arguments.homes) for made in homes(draw)]
    if arguments.only:
        cases = [made for made in cases if arguments.only in made["class"]]
    rivals = [mode for mode in MODES if mode != "none" and mode in arguments.modes]
    rows = []
    for made, results in zip(cases, runs.all(cases, ["none", *rivals])):
        verdicts = {mode: judge(results[mode], results["none"]) for mode in rivals}
        rows.append({"case": made, "results": results, "missed": verdicts})
    fine = lambda row, mode: max(row["missed"][mode].values()) <= 1  # noqa: E731
    ratio = lambda row, mode: sum(row["results"][mode]["goodput"].values()) / max(sum(row["results"]["none"]["goodput"].values()), 1e-6)  # noqa: E731
    print(f"not worse in any way, seed {arguments.seed}; in brackets the median goodput in parts of that without")
    print(f'{"homes":>5} {"class":26}' + "".join(f"{mode:>16}" for mode in rivals))
    for name in [*dict.fromkeys(made["class"] for made in cases), "all"]:
        of_class = [row for row in rows if name in ("all", row["case"]["class"])]
        cells = [(statistics.mean(fine(row, mode) for row in of_class), statistics.median(ratio(row, mode) for row in of_class)) for mode in rivals]
        print(f"{len(of_class):5} {name:26}" + "".join(f"{f'{part:.0%} ({median:.2f})':>16}" for part, median in cells))
    criteria = ["goodput", "delay", "share", "swings", "pages", "call"]
    for mode in rivals:
        print(f"  {mode:9} worse in " + ", ".join(f"{each} {sum(row['missed'][mode].get(each, 0) > 1 for row in rows)}" for each in criteria))
    for mode in rivals if arguments.worst else []:
        print(f"worst of {mode}: what misses its limit, and by which factor")
        for row in sorted(rows, key=lambda row: -max(row["missed"][mode].values()))[: arguments.worst]:
            failed = ", ".join(f"{each} {value:.2f}" for each, value in row["missed"][mode].items() if value > 1)
            if failed:
                print(f'  {row["case"]["class"]}: {failed}; goodput {ratio(row, mode):.2f}; {described(row["case"])}')
    return rows


def recorded(folder, draw):
    """A case of each pair of traces: packets in steps of 100 to 500 ms, from a time that is drawn on."""
    for file in sorted(folder.glob("*.down")):
        if not file.with_suffix(".up").exists():
            continue
        times = [[int(line) for line in each.read_text().split()] for each in (file, file.with_suffix(".up"))]
        begin, step = draw.randint(0, max(0, min(each[-1] for each in times) - 62_000)), draw.choice([100, 200, 500])
        rates = []
        for each in times:
            counts = [0] * (60_000 // step)
            for at in each:
                if begin <= at < begin + 60_000:
                    counts[(at - begin) // step] += 1
            rates.append([[n * step / 1000, max(0.02, count * PACKET * 8 / step / 1000)] for n, count in enumerate(counts)])
        yield case(*rates, draw.choice([30, 50, 80]), [bulk(draw.choice(["cubic", "bbr"]), draw.randint(1, 2))], (500, 500), **{"class": f"recorded {file.stem}"})


def links(draw, traces):
    drawn = list(recorded(traces, draw)) if traces else []
    for name, least, most, every, spread, rtt in [("LTE", 2, 60, 0.3, 0.25, 50), ("UMTS", 0.3, 6, 0.3, 0.3, 90), ("EVDO", 0.1, 2, 0.5, 0.3, 120)] * 2:
        steps = walk(draw, least, most, every, spread)
        drawn.append(case(steps, parts(walk(draw, least, most, every, spread), 0.4), rtt, [any_bulk(draw, 2)], (500, 500), **{"class": f"{name}, made"}))
    for rtts, part in [((20, 45), (1, 1)), ((25, 60), (0.5, 1.3)), ((40, 110), (0.7, 1.2)), ((30, 34), (0.4, 1.4))]:
        rtt, rates = handovers(draw, rtts, part)
        rate = log(draw, 30, 200)
        servers = {"server": {"rtt": rtt}}
        drawn.append(case(parts(rates, rate), parts(rates, rate / 8), 40, [any_bulk(draw, 2)], (150, 150), servers=servers, **{"class": "handovers every 15 s"}))
    for way, most in itertools.product(["ACKs", "data", "both"], [20, 60]):
        late = jitter(log(draw, max(5, most / 3), most))
        lines = [late if way != "ACKs" else [], late if way != "data" else []]
        drawn.append(case(log(draw, 10, 100), log(draw, 10, 50), log(draw, 20, 60), [any_bulk(draw, 2)], (300, 300), lines=lines, **{"class": f"jitter of {way}"}))
    for length in (0.3, 0.6, 1, 2):
        silent = [[draw.uniform(12 + 15 * n, 25 + 15 * n), 1000 * length] for n in range(3)]
        rates = [log(draw, 10, 60), log(draw, 5, 20)]
        drawn.append(case(*rates, log(draw, 20, 60), [any_bulk(draw, 2)], (400, 400), outages=silent, **{"class": f"silences of {length} s"}))
    for radio in (15, 128, 300):
        flows = [{**bulk("cubic"), "name": "first", "stop": "12 s", "short": True}, small("radio", radio), bulk("cubic", start="36 s")]
        silent = [[draw.uniform(20, 30), 1000 * log(draw, 0.5, 1.5)]]
        made = case(log(draw, 20, 60), log(draw, 5, 20), log(draw, 20, 60), flows, (300, 300), outages=silent, **{"class": f"radio of {radio} kb/s, outage, download"})
        drawn.append(made | {"warmup": 35, "duration": 50})
    return [{**made, "duration": made["duration"] if made["warmup"] > 20 else 60, "seed": draw.randint(1, 10**6)} for made in drawn]


def judge_links(runs, arguments):
    draw = random.Random(arguments.seed + 1000)
    cases = [made for _ in range(arguments.links) for made in links(draw, arguments.traces)]
    rows = []
    print(f"links, seed {arguments.seed}: goodput of `found` in parts of the lesser of `none` and `fq-codel`, and mean queues of the downlink in ms")
    for made, results in zip(cases, runs.all(cases, ["none", "fq-codel", "told", "found"])):
        goodput = {mode: sum(each["goodput"].values()) for mode, each in results.items()}
        part, told = [goodput[mode] / max(min(goodput["none"], goodput["fq-codel"]), 1e-6) for mode in ("found", "told")]
        queue = {mode: results[mode]["queue"]["down"] for mode in results}
        longer = queue["found"] > queue["none"] + 1
        rows.append({"case": made, "results": results, "part": part, "longer": longer})
        delays = f'{queue["none"]:.0f} -> {queue["found"]:.0f}, fq-codel {queue["fq-codel"]:.0f}'
        print(f'{part:6.2f}  {made["class"]:42} told {told:5.2f}  none {goodput["none"]:6.1f} Mb/s  queue {delays}{", longer" if longer else ""}')
    good = sum(row["part"] >= 0.85 and not row["longer"] for row in rows)
    print(f'{good} of {len(rows)} at 0.85 or above with no longer queue, {sum(row["part"] < 0.6 for row in rows)} below 0.6')
    return rows


def steps():
    """Name, cases, mode, value of a result beside that without, goal, and whether that is the least; the worst case counts."""
    mean = lambda each, least, most: sum(each["seconds"][least:most]) / (most - least)  # noqa: E731
    part = lambda least, most: lambda found, without: mean(found, least, most) / mean(without, least, most)  # noqa: E731
    download = lambda found, without: found["goodput"]["down"] / without["goodput"]["down"]  # noqa: E731
    lost = lambda each: sum(1 - second / 28.2 for second in each["seconds"][15:])  # noqa: E731
    until = lambda each, rate: next((n for n, second in enumerate(each["seconds"][25:]) if second >= 0.8 * rate * PAYLOAD / PACKET), 25)  # noqa: E731
    for rtt in (34, 62, 202):
        cases = [case(145, 30, 22, [bulk("cubic", 2)], servers={"server": {"rtt": [[0, 22], [25 + late, rtt]]}}) for late in (0, 0.5)]
        yield f"RTT 22 -> {rtt} ms, the first 3 s: part of without", cases, "found", part(25, 28), 0.8, True
        yield f"RTT 22 -> {rtt} ms, the next 10 s: part of without", cases, "found", part(28, 38), 0.9, True
    cases = [case([[0, 20], [25, 100]], 20, rtt, [bulk("cubic", 2)]) for rtt in (15, 50)]
    yield "rate x 5: seconds until 0.8", cases, "found", lambda found, _: until(found, 100), 5, False
    cases = [case([[0, 100], [25, 20]], 20, rtt, [bulk("cubic", 2)], (300, 300)) for rtt in (15, 50)]
    yield "rate / 5: seconds of queue above 50 ms", cases, "found", lambda found, _: found["over_50ms"]["down"], 3, False
    for rtt, mode in itertools.product((8, 18), ("told", "found")):
        cases = [case(203, 10.5, rtt, [bulk("reno"), bulk("cubic", way="up", start=f"{late} s")], (60, 60)) for late in range(4)]
        yield f"203/10.5 Mb/s both ways, {rtt} ms, {mode}: download, part of without", cases, mode, download, 0.9, True
    yield "BBR, loss of 0.5 %, told: part of without", [case(100, 50, 20, [bulk("bbr")], lines=[["loss = 0.005"], []])], "told", download, 0.9, True
    for (rate, count), mode in itertools.product([(10, 1), (50, 2)], ("told", "found")):
        cases = [case(rate, rate, 50, [bulk("cubic", count)], (300, 300), lines=[[], jitter(30)], seed=seed) for seed in (1, 2, 3)]
        yield f"ACKs wait 0 to 30 ms, {rate} Mb/s, {count} flows, {mode}: part of without", cases, mode, download, 0.9, True
    cases = [case(40, 40, 40, [small("radio", rate), bulk("cubic", start="5 s")], buffer=(150, 150)) for rate in (20, 128, 300)]
    yield "a small flow, 5 s later a download, found: part of without", cases, "found", download, 0.9, True
    strangers = 'kind = "fixed", size = "100 B"'
    cases = [case(45, 10, 20, [bulk("cubic"), short("strangers", "up", rate, strangers)]) for rate in (5, 20, 100)]
    yield "5 to 100 short connections a second, told: part of without", cases, "told", download, 0.9, True
    cases = [case(30, 10, 50, [bulk("cubic", 2)], (400, 400), outages=[[28 + n / 2, 1000]]) for n in range(12)]
    yield "silence of 1 s at any time: seconds lost", cases, "found", lambda found, _: lost(found), 2.5, False


def judge_steps(runs):
    rows = []
    print(f'{"value":>7} {"goal":>7}  step, the worst case of each')
    for name, cases, mode, value, goal, least in steps():
        results = runs.all([{"seed": 1, **made} for made in cases], ["none", mode])
        number = (min if least else max)(value(each[mode], each["none"]) for each in results)
        good = number >= goal if least else number <= goal
        rows.append({"step": name, "value": number, "goal": goal, "reached": good})
        print(f'{number:7.2f} {"≥" if least else "≤"}{goal:6.2f}  {" " if good else "!"} {name}', flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--homes", type=int, default=0, metavar="N", help="homes of each class")
    parser.add_argument("--links", type=int, nargs="?", const=1, default=0, metavar="N", help="draws of each link")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one home of each class, which is what is done if nothing is said")
    parser.add_argument("--only", help="homes of classes whose names contain this")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES, help="of homes, besides none")
    parser.add_argument("--worst", type=int, default=0, metavar="K", help="the worst homes of each mode, too")
    parser.add_argument("--traces", type=Path, help="folder with NAME.down and NAME.up of mahimahi")
    parser.add_argument("--jobs", type=int, default=2, help="simulations at once")
    arguments = parser.parse_args()
    arguments.homes = arguments.homes or int(arguments.quick or not (arguments.links or arguments.steps))
    runs = Runs(os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path"), arguments.jobs)
    rows = {"seed": arguments.seed}
    if arguments.homes:
        rows["homes"] = judge_homes(runs, arguments)
    if arguments.links:
        rows["links"] = judge_links(runs, arguments)
    if arguments.steps:
        rows["steps"] = judge_steps(runs)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
