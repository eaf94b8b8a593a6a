"""Cases for edge_links.py: homes and access links, drawn or recorded, and their scenarios."""

import itertools
import json
import math

# The rate given to a middlebox that clamps nothing, in Mb/s.
INERT = 1_000_000
# Bytes of a full packet on the wire and of its payload.
PACKET, PAYLOAD = 1538, 1448
# The ping is a flow that sends a segment every 100 ms, and its RTT is read every 50 ms.
PING, INTERVAL, PINGS = 0.1, 0.05, {"ping", "reflectors"}
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


def mean_rate(rates, duration):
    if not isinstance(rates, list):
        return rates
    ends = [at for at, _ in rates[1:]] + [duration]
    return sum(rate * max(0, min(end, duration) - min(at, duration)) for (at, rate), end in zip(rates, ends)) / duration


def highest(made):
    return [max(rate for _, rate in rates) if isinstance(rates, list) else rates for rates in made["rates"]]


def middlebox(mode, made):
    """The middlebox of a mode."""
    rates = highest(made)
    if mode not in ("told", "found"):
        # Flows that pass a middlebox open with a handshake, so short ones pass one that holds nothing.
        if not any(flow.get("short") for flow in made["flows"]):
            return ""
        rates = [INERT] * 2
    text = '[[middlebox]]\nat = "home"\nkind = "receive-window"\nwan = "provider"\n'
    if mode != "found":
        text += f'rate = "{rates[0]:.4f} Mb/s"\nup = "{rates[1]:.4f} Mb/s"\n'
    held = [flow["name"] for flow in made["flows"] if not flow.get("before")]
    if len(held) < len(made["flows"]):
        text += f'[[middlebox.class]]\nname = "new"\nshare = 1.0\nflows = {json.dumps(held)}\n'
    return text


def written(steps):
    if not isinstance(steps, list):
        return f'rate = "{steps:.4f} Mb/s"'
    return "rates = [" + ", ".join(f'["{at:.3f} s", "{rate:.4f} Mb/s"]' for at, rate in steps) + "]"


def scenario(mode, made, shaped=None):
    """Servers, an access link from the provider to the home, and a laptop behind it. `shaped` has rates at times of shapers at home."""
    access = min(1, made["rtt"] / 4)
    text = f'seed = {made["seed"]}\nduration = "{made["duration"]} s"\nwarmup = "{made["warmup"]} s"\ninterval = "{made.get("interval", INTERVAL) * 1000:.0f} ms"\n'

    def link(ends, lines, duplex=False):
        nonlocal text
        text += f'[[link]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nduplex = {json.dumps(duplex)}\n' + "".join(f"{line}\n" for line in lines if line)

    for name, server in {"server": {}, **made.get("servers", {})}.items():
        rtt = server.get("rtt", made["rtt"])
        delays = [(at, f"{max(each / 2 - access, 0):.3f} ms") for at, each in (rtt if isinstance(rtt, list) else [[0, rtt]])]
        trace = ", ".join(f'["{at:.3f} s", "{each}"]' for at, each in delays)
        # The kernel has constant delays and rates only.
        delay = f"delay-trace = [{trace}]" if isinstance(rtt, list) else f'delay = "{delays[0][1]}"'
        link([name, "provider"], [delay, *server.get("lines", [])], True)
    for ends, rates, buffer, lines in zip([["provider", "home"], ["home", "provider"]], made["rates"], made["buffer"], made.get("lines", [[], []])):
        queue = 'queue = { kind = "fq-codel" }' if mode == "fq-codel" else f'buffer = "{buffer:.1f} ms"'
        silent = ", ".join(f'["{at:.3f} s", "{length:.0f} ms"]' for at, length in made.get("outages", []))
        link(ends, [written(rates), f'delay = "{access:.3f} ms"', queue, f"outages = [{silent}]" if silent else "", *lines])
    if shaped:
        for place, ends in enumerate([["home", "inside"], ["inside", "home"]]):
            link(ends, [written([[at, rates[place]] for at, rates in shaped]), 'queue = { kind = "fq-codel" }'])
    link(["inside" if shaped else "home", "laptop"], made.get("lan", []), True)
    for flow in made["flows"]:
        ends = [flow["server"], flow.get("to", "laptop")] if flow["way"] == "down" else ["laptop", flow["server"]]
        text += f'[[flow]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nname = "{flow["name"]}"\ncontroller = "{flow["controller"]}"\n'
        text += "".join(f"{key} = {json.dumps(flow[key])}\n" for key in ("count", "stagger", "start", "stop") if key in flow) + flow.get("line", "") + "\n"
    for ends in [["server", "laptop"], ["laptop", "server"]] if made.get("call") else []:
        text += f'[[traffic]]\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nmodel = "cbr"\nrate = "{made["call"]:.0f} kb/s"\nsize = "250 B"\n'
        text += f'start = "{made["warmup"]} s"\nstop = "{made["duration"] - 3} s"\n'
    return text + middlebox(mode, made)


def described(made):
    rates = " / ".join(f"{rate:.1f}" for rate in highest(made))
    flows = ", ".join(f'{flow.get("count", 1)} {flow["name"]}' for flow in made["flows"])
    return f'{rates} Mb/s, {made["rtt"]:.0f} ms, buffers {made["buffer"][0]:.0f} and {made["buffer"][1]:.0f} ms, {flows}, seed {made["seed"]}'


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


def worlds(draw):
    """Homes that the virtual-time kernel runs as the simulator does: nothing changes, and no packet is late by chance."""
    for number in range(10):
        down, part = log(draw, 5, 150), draw.uniform(1, 10)
        flows = [any_bulk(draw), any_bulk(draw, 2, "up")][: 1 + number % 2]
        made = case(down, down / part, log(draw, 8, 80), flows, (log(draw, 40, 300), log(draw, 40, 300)))
        yield made | {"class": "downloads, uploads" if number % 2 else "downloads", "seed": draw.randint(1, 10**6)}


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
