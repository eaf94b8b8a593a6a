"""Bulk over UDP with acknowledgements, NewReno and pacing, as RFC 9002 has them for QUIC, for the homes of edge_home.py.

Nothing is encrypted or sent again: to those on the path and to the link it is the same.
"""

import math
import select
import socket
import struct
import threading
import time

# Data of a datagram, as most programs have it, and how many of them an acknowledgement is for, in s at most.
SIZE, ACKED, DELAY = 1252, 2, 0.025
# Packets of the initial window, and least.
INITIAL, LEAST = 10, 2
# A packet is lost if so many later ones have come.
REORDERED = 3
# How much faster than a window in an RTT packets are sent, and at most so long at once, in s.
PACE, BURST = 1.25, 0.002
# If nothing is heard for so many RTTs, all that is under way is lost, in s at least.
SILENT, LEAST_SILENT = 4, 0.2
DOWNLOAD, UPLOAD = b"download", b"upload"


def new(server):
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    it.connect(server) if server else None
    return it


class Sender:
    """Sends until it is over; counts what was acknowledged."""

    def __init__(self, to, count=lambda size: None):
        self.socket, self.count = to, count
        self.window, self.threshold, self.rtt = float(INITIAL), math.inf, None
        self.under_way, self.next, self.largest, self.recovers = {}, 0, -1, -1

    def run(self):
        due = heard = time.monotonic()
        while True:
            now = time.monotonic()
            while len(self.under_way) < self.window and due <= now:
                self.put(now)
                due = max(due, now - BURST) + (self.rtt or 0) / (PACE * self.window)
            silent = heard + max(SILENT * (self.rtt or 0), LEAST_SILENT)
            until = min(due, silent) if len(self.under_way) < self.window else silent
            if select.select([self.socket], [], [], max(0, until - now))[0]:
                heard = time.monotonic()
                self.acknowledge(self.socket.recv(2048), heard)
            elif time.monotonic() >= silent:
                heard = time.monotonic()
                self.under_way.clear()
                self.threshold, self.window, self.recovers = max(self.window / 2, LEAST), float(LEAST), self.next

    def put(self, now):
        try:
            self.socket.send(struct.pack("!Q", self.next) + bytes(SIZE - 8))
        except OSError:
            pass  # It is lost, as in any other queue.
        self.under_way[self.next] = now
        self.next += 1

    def acknowledge(self, datagram, now):
        if len(datagram) % 8:
            return
        for number in struct.unpack(f"!{len(datagram) // 8}Q", datagram):
            sent = self.under_way.pop(number, None)
            if sent is None:
                continue
            self.count(SIZE)
            self.largest = max(self.largest, number)
            self.rtt = now - sent if self.rtt is None else 0.875 * self.rtt + 0.125 * (now - sent)
            if number >= self.recovers:
                self.window += 1 if self.window < self.threshold else 1 / self.window
        lost = [number for number in self.under_way if number < self.largest - REORDERED]
        for number in lost:
            del self.under_way[number]
        if lost and max(lost) >= self.recovers:
            self.threshold = self.window = max(self.window / 2, LEAST)
            self.recovers = self.next


def receive(of, first=None, count=lambda size: None):
    """Acknowledges what comes; says `first` again until something does."""
    waiting, has_begun = [], False
    while True:
        if not has_begun and first:
            of.send(first)
        if not select.select([of], [], [], DELAY if waiting else 0.5)[0]:
            has_begun = has_begun or bool(waiting)
        else:
            datagram = of.recv(2048)
            if len(datagram) != SIZE:
                continue
            has_begun = True
            count(SIZE)
            waiting.append(datagram[:8])
            if len(waiting) < ACKED:
                continue
        if waiting:
            of.send(b"".join(waiting))
            waiting = []


def serve(port):
    """Sends to whoever asks for a download, and takes an upload from others."""
    known = set()

    def accept():
        while True:
            said, peer = listener.recvfrom(2048)
            if said not in [DOWNLOAD, UPLOAD] or peer in known:
                continue
            known.add(peer)
            own = new(None)
            own.bind(("", port))
            own.connect(peer)
            act = Sender(own).run if said == DOWNLOAD else lambda own=own: (own.send(b"go"), receive(own))
            threading.Thread(target=act, daemon=True).start()

    listener = new(None)
    listener.bind(("", port))
    threading.Thread(target=accept, daemon=True).start()


class Bulk:
    """A download or an upload: bytes of data that have arrived, by time."""

    def __init__(self, server, port, is_download):
        self.bytes = 0
        self.socket = new((server, port))
        threading.Thread(target=self.download if is_download else self.upload, daemon=True).start()

    def count(self, size):
        self.bytes += size

    def download(self):
        receive(self.socket, DOWNLOAD, self.count)

    def upload(self):
        while True:
            self.socket.send(UPLOAD)
            if select.select([self.socket], [], [], 0.5)[0]:
                break
        self.socket.recv(2048)
        Sender(self.socket, self.count).run()
