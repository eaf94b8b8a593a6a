#!/usr/bin/env python3
"""Downloads and uploads over random access links in the simulator: without a middlebox, with one that is told the rate, and one that finds it.

40 paths of --seed: 8 to 300 Mb/s down and half of that up, 4 to 240 ms, one to eight downloads of CUBIC, Reno or BBR, buffers of 20 to 500 ms.
Six have downloads only, twelve one or two uploads beside them, 15 downloads and steps of the rates to 0.4 or 0.2 after 30 s and back after 60 s,
and seven all of it. Goodput is that of both directions, in parts of what it is without a middlebox, and the queue that of the downlink,
the mean of each path: medians, least and largest. `headway` is that of the path, or $HEADWAY.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = [("downloads", 6, False, False), ("uploads beside them", 12, True, False), ("downloads, with steps", 15, False, True),
         ("with uploads and steps", 7, True, True)]
MODES = {"without": None, "told": "by-use = true", "found": "find-rate = true"}
PAYLOAD = 1448 / 1538


def logarithmic(draw, least, most):
    return least * (most / least) ** draw.random()


def path_of(draw, uploads, steps):
    """A path: rates in Mb/s, delays in ms, flows, and the part that is left of the rates in the step."""
    down = logarithmic(draw, 8, 300)
    return {
        "rates": [down, down / 2], "rtt": logarithmic(draw, 4, 240), "buffer": logarithmic(draw, 20, 500),
        "downloads": draw.randint(1, 8), "uploads": draw.randint(1, 2) if uploads else 0,
        "controller": draw.choice(["cubic", "reno", "bbr"]), "part": draw.choice([0.4, 0.2]) if steps else None,
    }


def scenario(path, keys):
    text = 'duration = "80 s"\nwarmup = "5 s"\n'

    def link(ends, rate):
        rates = f'rate = "{rate:.3f} Mb/s"'
        if path["part"]:
            step = ", ".join(f'["{at} s", "{rate * part:.3f} Mb/s"]' for at, part in [(0, 1), (30, path["part"]), (60, 1)])
            rates = f"rates = [{step}]"
        return f'[[link]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nduplex = false\n{rates}\ndelay = "1 ms"\nbuffer = "{path["buffer"]:.1f} ms"\n'

    text += f'[[link]]\nfrom = "server"\nto = "provider"\ndelay = "{path["rtt"] / 2 - 1:.3f} ms"\n'
    text += link(["provider", "home"], path["rates"][0]) + link(["home", "provider"], path["rates"][1])
    text += '[[link]]\nfrom = "home"\nto = "laptop"\n'
    for ends, count in [(["server", "laptop"], path["downloads"]), (["laptop", "server"], path["uploads"])]:
        if count:
            text += f'[[flow]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\ncount = {count}\ncontroller = "{path["controller"]}"\nstagger = "250 ms"\n'
    if keys:
        told = [10_000, 10_000] if "find" in keys else [rate * PAYLOAD for rate in path["rates"]]
        text += f'[[middlebox]]\nat = "home"\nkind = "receive-window"\nwan = "provider"\n{keys}\n'
        text += f'rate = "{told[0]:.3f} Mb/s"\nup = "{told[1]:.3f} Mb/s"\n'
    return text


def run(headway, folder, text):
    file = folder / "path.toml"
    file.write_text(text)
    command = [headway, "run", file, "--on", "sim", "--output", folder / "out", "--force"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    summary = json.loads((folder / "out/summary.json").read_text())
    queue = next(link["delay_mean_ns"] for link in summary["links"] if link["link"] == "provider->home") / 1e6
    return summary["total"]["goodput_bps"], queue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="each path, too")
    arguments = parser.parse_args()
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        for name, count, uploads, steps in KINDS:
            rows = {mode: [] for mode in MODES}
            for _ in range(count):
                path = path_of(draw, uploads, steps)
                results = {mode: run(headway, Path(folder), scenario(path, keys)) for mode, keys in MODES.items()}
                for mode, (goodput, queue) in results.items():
                    rows[mode].append((goodput / results["without"][0], queue))
                if arguments.show:
                    print(path, {mode: (round(each[-1][0], 2), round(each[-1][1])) for mode, each in rows.items()}, flush=True)
            for mode, each in rows.items():
                cells = [f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" for values in zip(*each)]
                print(f"{count:3} {name:24} {mode:8} goodput {cells[0]:24} queue, ms {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
