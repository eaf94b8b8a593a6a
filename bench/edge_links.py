#!/usr/bin/env python3
"""Judges `headway edge` over drawn homes and over access links that are not wires, in the simulator.

  none      nothing
  fq-codel  FQ-CoDel at both ends of the access link, at its true rate
  told      a middlebox that is given the true rate, the highest where it varies
  found     a middlebox that finds the rate
  autorate  shapers at home, steered by pings (autorate.py); only with --modes, for a case takes up to a minute

Homes: a class of homes at a time, each with the same seed in all modes. One is not worse in any way than without a middlebox if goodput of
both directions together is at least 0.9 of it, the 95th percentile of a ping (where there is none, of the queues) not longer by more than
3 ms and 10 %, no long flow has less than half of its share (what it had without, at most an equal share), the least of 5 s in the second half
has half of the mean there, pages take (95th percentile) and calls lose no more than 15 % more. Links: the goodput of `found` in parts
of the lesser of `none` and `fq-codel`, which should be 0.85, and a mean queue that is no longer than without; and where it has more
goodput than `autorate` at a mean queue that is no longer by more than 1 ms. Steps: single cases with goals. Worlds: ten drawn homes in the
simulator and on the stack of Linux in virtual time (`headway uml build`), which agree where goodput differs by 5 % at most and the 95th
percentile of the queues of both directions, added, by 15 % or 3 ms; and in the simulator with flows that begin 50 ms later, as chance.

Traces of mahimahi are those of --traces, a folder with NAME.down and NAME.up. Results without the middlebox do not depend on it and stay
in target/bench/edge-links-cache.json. All numbers go to target/bench/edge-links.json, or $OUT. `headway` is that of the path, or $HEADWAY.
"""

import argparse
import hashlib
import inspect
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import autorate
from edge_cases import INTERVAL, PACKET, PAYLOAD, PINGS, bulk, case, described, highest, homes, jitter, links, mean_rate, scenario, short, small, worlds

TARGET = Path(__file__).resolve().parent.parent / "target/bench"
OUT = Path(os.environ.get("OUT") or TARGET / "edge-links.json")
CACHE = TARGET / "edge-links-cache.json"
MODES = ["none", "fq-codel", "told", "found", "autorate"]


def tables(folder):
    return {file: [line.split(",") for line in (folder / f"{file}.csv").read_text().splitlines()[1:]] for file in ("flows", "goodput", "truth", "tcp")}


def numbers(folder, made):
    """What counts of a result."""
    summary, rows = json.loads((folder / "summary.json").read_text()), tables(folder)
    ways = {flow["name"]: flow["way"] for flow in made["flows"]}
    others = {flow["name"] for flow in made["flows"] if flow.get("short")} | PINGS
    goodput = {"down": 0, "up": 0}
    for group in summary["groups"]:
        if group["name"] not in PINGS:
            goodput[ways[group["name"]]] += group["goodput_bps"] / 1e6
    flows = {row[0]: [ways[row[1]], float(row[5] or 0) / 1e6] for row in rows["flows"] if row[1] not in others}
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
        result["over_50ms"][way] = sum(delay > 50 for delay in delays) * made.get("interval", INTERVAL)
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
        on = made.get("on", "sim")
        key = hashlib.sha256((self.version + text + on * (on != "sim") + (mode + inspect.getsource(autorate)) * (mode == "autorate")).encode()).hexdigest()
        result = self.cache.get(key)
        if result is None:
            result = self.steered(made) if mode == "autorate" else self.simulate(text, lambda folder: numbers(folder, made), on)
            if mode in ("none", "fq-codel", "autorate"):
                self.cache[key] = result
        self.done += 1
        print(f"\r{self.done} runs", end="", file=sys.stderr)
        return result

    def keep(self):
        TARGET.mkdir(parents=True, exist_ok=True)
        CACHE.write_text(json.dumps(dict(self.cache)))

    def simulate(self, text, read, on="sim"):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "case.toml").write_text(text)
            command = [self.headway, "run", f"{folder}/case.toml", "--on", on, "--output", f"{folder}/out"]
            ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if ended.returncode:
                raise RuntimeError(f"{ended.stderr}\n{text}")
            return read(Path(folder) / "out")

    def steered(self, made):
        pings = {**small("reflectors", 524 * 8 / autorate.PING / 1000), "controller": "fixed-window:60", "to": "home"}
        pings["line"] += "\nmtu = 576"
        made = {**made, "interval": autorate.PING / 2, "flows": [*made["flows"], pings]}

        def simulate(rates, until):
            text = scenario("autorate", {**made, "warmup": 0}, rates).replace(f'duration = "{made["duration"]} s"', f'duration = "{until:.3f} s"', 1)
            rows = self.simulate(text, tables)
            return rows, next(row[0] for row in rows["flows"] if row[1] == "reflectors")

        limits = [[mean_rate(rates, made["duration"]), most] for rates, most in zip(made["rates"], highest(made))]
        starts = max(float(flow.get("start", "0 s").split()[0]) + flow.get("count", 1) / 4 for flow in made["flows"])
        rates = autorate.steer(simulate, limits, made["duration"], starts)
        # It took long.
        self.keep()
        return self.simulate(scenario("autorate", made, rates), lambda folder: numbers(folder, made))

    def all(self, cases, modes):
        """The results of each case, by mode."""
        jobs = [(mode, made) for made in cases for mode in modes]
        with ThreadPoolExecutor(self.jobs) as pool:
            results = iter(list(pool.map(lambda job: self.one(*job), jobs)))
        self.keep()
        print(file=sys.stderr)
        return [{mode: next(results) for mode in modes} for _ in cases]


def judge(result, without):
    """What is worse than without: by how much the limit is missed, above 1 if it is."""
    missed = {"goodput": 0.9 * sum(without["goodput"].values()) / max(sum(result["goodput"].values()), 1e-6)}
    before = delay(without)
    missed["delay"] = delay(result) / (before + max(3, 0.1 * before))
    equal = {way: sum(rate for each, rate in without["flows"] if each == way) / max(1, sum(each == way for each, _ in without["flows"])) for way in ("down", "up")}
    missed["share"] = max(0.5 * min(before, equal[way]) / max(rate, 1e-6) for (way, rate), (_, before) in zip(result["flows"], without["flows"]))
    missed["swings"] = min(0.5, 0.9 * steadiness(without)) / max(steadiness(result), 1e-6)
    if "web" in without:
        missed["pages"] = result["web"] / max(1.15 * without["web"], 1)
    if "call_loss" in without:
        missed["call"] = result["call_loss"] / (1.15 * without["call_loss"] + 0.002)
    return missed


def delay(result):
    return result["ping"][1] if "ping" in result else sum(result["queue_p95"].values())


def steadiness(result):
    seconds = result["seconds"][len(result["seconds"]) // 2 :]
    bins = [sum(seconds[at : at + 5]) for at in range(0, len(seconds) - 4, 5)]
    return min(bins) / max(statistics.mean(bins), 1e-6)


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
        shorter = statistics.median(delay(row["results"][mode]) / max(delay(row["results"]["none"]), 1) for row in rows)
        worse = ", ".join(f"{each} {sum(row['missed'][mode].get(each, 0) > 1 for row in rows)}" for each in criteria)
        print(f"  {mode:9} worse in {worse}; median delay {shorter:.2f} of that without")
    for mode in rivals if arguments.worst else []:
        print(f"worst of {mode}: what misses its limit, and by which factor")
        for row in sorted(rows, key=lambda row: -max(row["missed"][mode].values()))[: arguments.worst]:
            failed = ", ".join(f"{each} {value:.2f}" for each, value in row["missed"][mode].items() if value > 1)
            if failed:
                print(f'  {row["case"]["class"]}: {failed}; goodput {ratio(row, mode):.2f}; {described(row["case"])}')
    return rows


def judge_links(runs, arguments):
    draw = random.Random(arguments.seed + 1000)
    cases = [made for _ in range(arguments.links) for made in links(draw, arguments.traces)]
    rows = []
    shown = [mode for mode in ("told", "autorate") if mode in arguments.modes]
    print(f"links, seed {arguments.seed}: goodput of `found` in parts of the lesser of `none` and `fq-codel`, and mean queues of the downlink in ms")
    for made, results in zip(cases, runs.all(cases, ["none", "fq-codel", "found", *shown])):
        goodput = {mode: sum(each["goodput"].values()) for mode, each in results.items()}
        part = {mode: each / max(min(goodput["none"], goodput["fq-codel"]), 1e-6) for mode, each in goodput.items()}
        queue = {mode: each["queue"]["down"] for mode, each in results.items()}
        longer = {mode: each > queue["none"] + 1 for mode, each in queue.items()}
        rows.append({"case": made, "results": results, "part": part, "longer": longer})
        parts = "".join(f"  {mode} {part[mode]:5.2f}" for mode in shown)
        delays = "  ".join(f"{mode} {each:.0f}" for mode, each in queue.items())
        print(f'{part["found"]:6.2f}  {made["class"]:42}{parts}  none {goodput["none"]:6.1f} Mb/s; queues: {delays}{", longer" * longer["found"]}')
    for mode in ["found", *shown]:
        good = sum(row["part"][mode] >= 0.85 and not row["longer"][mode] for row in rows)
        print(f'{mode}: {good} of {len(rows)} at 0.85 or above with no longer queue, {sum(row["part"][mode] < 0.6 for row in rows)} below 0.6')
    if "autorate" in shown:
        ahead = sum(row["part"]["found"] > row["part"]["autorate"] and row["results"]["found"]["queue"]["down"] <= row["results"]["autorate"]["queue"]["down"] + 1 for row in rows)
        print(f"found has more goodput than autorate at no longer a queue in {ahead} of {len(rows)}")
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


def judge_worlds(runs, arguments):
    cases = list(worlds(random.Random(arguments.seed + 2000)))
    modes = [mode for mode in ("none", "told", "found") if mode in arguments.modes]
    late = [{**made, "flows": [{**flow, "start": f"{float(flow['start'].split()[0]) + 0.05:.2f} s"} for flow in made["flows"]]} for made in cases]
    all_of = {name: runs.all(each, modes) for name, each in [("simulator", cases), ("Linux", [{**made, "on": "uml"} for made in cases]), ("later", late)]}
    rows, agree = [], {}
    print(f"worlds, seed {arguments.seed}: Mb/s and 95th percentile of queues in ms, in the simulator, Linux, and the simulator 50 ms later; ! where these differ")
    for made, *results in zip(cases, *all_of.values()):
        print(f"  {described(made)}")
        for mode in modes:
            goodput, queue = [[of(each[mode]) for each in results] for of in (lambda each: sum(each["goodput"].values()), delay)]
            text = f"    {mode:6}{goodput[0]:6.1f} Mb/s {queue[0]:6.1f} ms"
            for name, rate, wait in list(zip(all_of, goodput, queue))[1:]:
                same = abs(rate / goodput[0] - 1) <= 0.05, abs(wait - queue[0]) <= max(3, 0.15 * queue[0])
                agree.setdefault((mode, name), []).append([*same, all(same)])
                text += f' | {name} {rate:6.1f}{" " if same[0] else "!"} {wait:6.1f}{" " if same[1] else "!"}'
            print(text)
        rows.append({"case": made, **dict(zip(all_of, results))})
    for (mode, name), each in agree.items():
        goodput, queue, both = map(sum, zip(*each))
        print(f"{mode}, the simulator and {name}: of {len(cases)} homes they agree on goodput in {goodput}, on queues in {queue}, on both in {both}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--homes", type=int, default=0, metavar="N", help="homes of each class")
    parser.add_argument("--links", type=int, nargs="?", const=1, default=0, metavar="N", help="draws of each link")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--worlds", action="store_true", help="the same homes in the simulator and in Linux")
    parser.add_argument("--quick", action="store_true", help="one home of each class, which is what is done if nothing is said")
    parser.add_argument("--only", help="homes of classes whose names contain this")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=MODES[:4], help="with commas; those above but autorate if nothing is said")
    parser.add_argument("--worst", type=int, default=0, metavar="K", help="the worst homes of each mode, too")
    parser.add_argument("--traces", type=Path, help="folder with NAME.down and NAME.up of mahimahi")
    parser.add_argument("--jobs", type=int, default=2, help="simulations at once")
    arguments = parser.parse_args()
    arguments.homes = arguments.homes or int(arguments.quick or not (arguments.links or arguments.steps or arguments.worlds))
    runs = Runs(os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path"), arguments.jobs)
    rows = {"seed": arguments.seed}
    if arguments.homes:
        rows["homes"] = judge_homes(runs, arguments)
    if arguments.links:
        rows["links"] = judge_links(runs, arguments)
    if arguments.steps:
        rows["steps"] = judge_steps(runs)
    if arguments.worlds:
        rows["worlds"] = judge_worlds(runs, arguments)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
