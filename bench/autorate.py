"""A router at home that shapes both directions and steers its rates by pings, as cake-autorate 3 does with its defaults, for edge_links.py.

The simulator has no such router. So a case is simulated with rates at times, then the rule says which ones it would have had by what it saw, and so
on from the first difference, until there is none: a case takes up to some hundred simulations. FQ-CoDel stands for CAKE.
Pings are a flow with a segment of 576 B every 50 ms (98 kb/s; six reflectors are each asked every 300 ms with less), and half of their RTT counts in each
direction.
"""

import bisect
import itertools
import statistics
from collections import deque

# Between pings, and between readings of the achieved rates, in seconds.
PING, ACHIEVED = 0.05, 0.2
REFLECTORS = 6
# What a user tells: least, usual and highest rate, in parts of the mean, the mean and the highest rate of the link.
LEAST, USUAL, MOST = 0.2, 0.8, 1
# Extra delays in ms: up to the first the rate grows fastest, above the second a ping is late, above the third the rate falls fastest.
CALM, LATE, WORST = 10, 30, 60
# So many late pings of the last six lower the rate.
WINDOW, TOO_MANY = 6, 3
# Factors of the rate: when pings are late, at high load, and back to the usual rate; and seconds between the first and between the last ones.
DOWN, UP, BACK = (0.99, 0.75), 1.04, 0.01
REFRACTORY, DECAY = 0.3, 1
HIGH_LOAD = 0.75
# How slowly a baseline follows longer delays, and how fast shorter ones.
BASELINE = (0.001, 0.9)
# Differences of rates that are none.
SAME = 0.003
# Seconds that are simulated beyond those that are certain.
AHEAD = 4
# Bits of a full packet.
PACKET = 1538 * 8


class Direction:
    """The shaper of a direction."""

    def __init__(self, mean, highest):
        self.least, self.usual, self.most = LEAST * mean, USUAL * mean, MOST * highest
        self.rate = self.usual
        self.lowered = self.moved = self.load = 0
        self.is_new = False
        self.extra = deque([0] * WINDOW, WINDOW)
        self.late = deque([False] * WINDOW, WINDOW)

    def on_ping(self, now, extra, achieved):
        """Takes the extra delay of a ping, and the achieved rate if it is new."""
        packet = PACKET / self.rate / 1000
        self.extra.append(extra)
        self.late.append(extra > LATE + packet)
        mean = statistics.mean(self.extra) - packet
        if achieved is not None:
            self.load, self.is_new = achieved / self.rate, True
        if sum(self.late) >= TOO_MANY:
            if now > self.lowered + REFRACTORY:
                part = min(1, max(0, (mean - LATE) / (WORST - LATE)))
                self.rate *= DOWN[0] - part * (DOWN[0] - DOWN[1])
                self.lowered = self.moved = now
        elif self.load > HIGH_LOAD:
            if self.is_new and now > self.lowered + REFRACTORY:
                self.rate *= 1 + (UP - 1) * min(1, max(0, (LATE - mean) / (LATE - CALM)))
                self.is_new, self.moved = False, now
        elif now > self.moved + DECAY:
            step = self.rate * BACK
            self.rate += max(-step, min(step, self.usual - self.rate))
            self.moved = now
        self.rate = min(self.most, max(self.least, self.rate))


def replay(limits, seen, used, certain):
    """Returns the rates that the rule sets, [[s, [down, up]], ...], and when the first one after `certain` differs from those that were used."""
    directions = [Direction(*limit) for limit in limits]
    baselines = [100.0] * REFLECTORS
    rates, differs = [[0, [each.rate for each in directions]]], None
    times = [at for at, _ in used]
    for number, (now, rtt, achieved) in enumerate(seen):
        if rtt is None:
            continue
        one_way = rtt / 2
        place = number % REFLECTORS
        baselines[place] += BASELINE[one_way < baselines[place]] * (one_way - baselines[place])
        for direction, rate in zip(directions, achieved or [None, None]):
            direction.on_ping(now, one_way - baselines[place], rate)
        had = used[bisect.bisect_right(times, now) - 1][1]
        for direction, rate in zip(directions, had):
            if now <= certain or abs(direction.rate / rate - 1) <= SAME:
                direction.rate = rate
            elif differs is None:
                differs = now
        latest = [each.rate for each in directions]
        if latest != rates[-1][1]:
            rates.append([now, latest])
    return rates, differs


def seen(rows, flow, until):
    """Time, RTT of the latest ping (none while nothing passes), and achieved rates in Mb/s (where they are new), for each ping."""
    smoothed = [(int(row[0]) / 1e9, float(row[4]) / 1e6) for row in rows["tcp"] if row[1] == flow and row[4]]
    samples = {round(after[0] / PING * 2): 8 * after[1] - 7 * before[1] for before, after in itertools.pairwise(smoothed) if before[1] != after[1]}
    lowest = dict(zip((round(at / PING * 2) for at, _ in smoothed), itertools.accumulate((value for _, value in smoothed), min)))
    passed = [[0.0] * (round(until / PING) + 2) for _ in range(2)]
    for begin, _, link, _, measured, cross, *_ in rows["truth"]:
        if link in ("home->inside", "home->provider"):
            passed[link == "home->provider"][int(begin) * 2 // round(PING * 2e9)] += (float(measured) + float(cross)) * 8e-6
    rtt, every, first = smoothed[0][1], round(ACHIEVED / PING), round(smoothed[0][0] / PING) + 1
    for tick in range(1, round(until / PING) + 1):
        # With two samples in half an interval, what is computed may be below all of them.
        rtt = min(2000, max(lowest.get(2 * tick, 0), samples.get(2 * tick, samples.get(2 * tick - 1, rtt))))
        sums = [sum(each[max(0, tick - every) : tick]) / ACHIEVED for each in passed]
        if tick >= first:
            yield tick * PING, rtt if max(sums) > 0.01 else None, sums if tick % every == 0 or tick == first else None


def steer(simulate, limits, duration, starts):
    """Returns the rates of both shapers, where the last flow starts after so many seconds. `simulate` takes rates and a time,
    and returns the tables of the result and the number of the flow of pings."""
    used, certain = [[0, [USUAL * mean for mean, _ in limits]]], 0
    while True:
        until = min(duration, max(certain, starts) + AHEAD)
        rows, flow = simulate(used, until)
        rates, differs = replay(limits, seen(rows, flow, until), used, certain)
        if differs is None and until == duration:
            return used
        used, certain = rates, until if differs is None else differs
