#!/usr/bin/env python3
"""`headway edge` with as many connections as it holds: what memory it takes.

Between two interfaces of a network namespace. The packets of handshakes are given to the programs in the kernel as if they arrived, by
BPF_PROG_TEST_RUN, so no host and no socket is needed. With --data each connection also has a segment of 500 bytes. Memory of the process
is printed every second; the kernel's tables (`memlock` of their descriptors) come to it. Needs root on x86-64 and `headway` on the path or
in $HEADWAY.
"""

import argparse
import ctypes
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
BPF = 321
TEST_RUN, NEXT_ID, BY_ID, INFO = 10, 11, 13, 15
SYN, ACK, PUSH = 2, 16, 8
SCALED = bytes([2, 4, 5, 180, 1, 3, 3, 7])
SERVER = bytes([10, 9, 9, 9])
# The place of `ingress_ifindex` in `struct __sk_buff`, and its size, in words.
INGRESS, WORDS = 9, 46


def bpf(command, attributes):
    """Returns the result and the attributes as the kernel left them."""
    buffer = ctypes.create_string_buffer(attributes, 128)
    return LIBC.syscall(BPF, command, buffer, 128), buffer.raw


def programs():
    """Returns the numbers, names and descriptors of all programs."""
    found, number = [], 0
    while True:
        result, left = bpf(NEXT_ID, struct.pack("I", number))
        if result < 0:
            return found
        number = struct.unpack_from("I", left, 4)[0]
        descriptor, _ = bpf(BY_ID, struct.pack("I", number))
        if descriptor < 0:
            continue
        info = ctypes.create_string_buffer(256)
        bpf(INFO, struct.pack("IIQ", descriptor, 232, ctypes.addressof(info)))
        found.append((number, info.raw[64:80].split(b"\0")[0].decode(), descriptor))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(ends, sequence, acknowledgement, flags, options=b"", data=b""):
    """Returns an Ethernet frame with a segment between (address, port) and (address, port)."""
    (source, source_port), (destination, destination_port) = ends
    length = 20 + len(options) + len(data)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 1, 0, 64, 6, 0, source, destination)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack("!HHIIBBHHH", source_port, destination_port, sequence, acknowledgement, offset, flags, 64000, 0, 0)
    tcp += options + data
    summed = source + destination + struct.pack("!HH", 6, length) + tcp
    tcp = tcp[:16] + struct.pack("!H", checksum(summed)) + tcp[18:]
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + tcp


def arrive(program, interface, frame):
    """Gives a frame to a program as if it came from an interface."""
    out, data = ctypes.create_string_buffer(2048), ctypes.create_string_buffer(frame, len(frame))
    context = [0] * WORDS
    context[INGRESS] = interface
    context = ctypes.create_string_buffer(struct.pack(f"{WORDS}I", *context), 4 * WORDS)
    places = [ctypes.addressof(buffer) for buffer in (data, out, context)]
    sizes = (program, 0, len(frame), 2048, *places[:2], 0, 0, 4 * WORDS, 0, places[2], 0)
    result, _ = bpf(TEST_RUN, struct.pack("IIIIQQIIIIQQ", *sizes))
    if result < 0:
        sys.exit(os.strerror(ctypes.get_errno()))


def connect(up, down, wan, number, has_data):
    client = (struct.pack("!I", 0x0A010000 + number), 1000)
    there, back = (client, (SERVER, 443)), ((SERVER, 443), client)
    arrive(up, wan, segment(there, 1000, 0, SYN, SCALED))
    arrive(down, wan, segment(back, 5000, 1001, SYN | ACK, SCALED))
    arrive(up, wan, segment(there, 1001, 5001, ACK))
    if has_data:
        arrive(down, wan, segment(back, 5001, 1001, ACK | PUSH, b"", bytes(500)))
        arrive(up, wan, segment(there, 1001, 5501, ACK))


def memory(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return {line.split(":")[0]: int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith(("VmRSS", "VmHWM"))}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=65_536)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--data", action="store_true")
    parser.add_argument("options", nargs="*", default=["--json", "--flows"], help="of the edge, after --")
    arguments = parser.parse_args()
    headway = os.environ.get("HEADWAY") or shutil.which("headway") or sys.exit("no headway: set HEADWAY to its path")
    space, before = f"edge-size-{os.getpid()}", {number for number, _, _ in programs()}
    ip("netns", "add", space)
    edge = None
    try:
        for name in ("lan", "wan"):
            ip("-n", space, "link", "add", name, "type", "veth", "peer", "name", f"{name}0")
            for end in (name, f"{name}0"):
                ip("-n", space, "link", "set", end, "up")
        wan = ["ip", "netns", "exec", space, "cat", "/sys/class/net/wan/ifindex"]
        wan = int(subprocess.check_output(wan))
        command = ["edge", "--lan", "lan", "--wan", "wan", "--rate", "50Mb/s", *arguments.options]
        edge = subprocess.Popen(["ip", "netns", "exec", space, headway, *command], stdout=subprocess.DEVNULL)
        found = {}
        while not {"edge_up", "edge_down"} <= found.keys():
            time.sleep(0.2)
            found = {name: descriptor for number, name, descriptor in programs() if number not in before}
        for number in range(arguments.connections):
            connect(found["edge_up"], found["edge_down"], wan, number, arguments.data)
        for _ in range(arguments.seconds):
            time.sleep(1)
            print(" ".join(f"{name} {size} MiB" for name, size in memory(edge.pid).items()), flush=True)
    finally:
        if edge:
            edge.terminate()
            edge.wait()
        ip("netns", "del", space)


if __name__ == "__main__":
    main()
