#!/usr/bin/env python3
"""Delivered packets per CPU-second of ns-3, beside those of `cargo bench -p headway-sim --bench packets`.

CUBIC flows over one 10 Gb/s link with an RTT of 10 ms and a drop-tail buffer of one bandwidth-delay product, with SACK
and an ACK every two segments: the network "one link, start" of crates/sim/benches/packets.rs, for equal virtual time.
A delivered packet is a data packet that arrived at the far end of the link; ACKs do not count. Python only sets up the
network and reads counters; the simulation itself runs in C++.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "target/bench"
NETWORK = "one link, start"
RATE = 10_000_000_000
DELAY_NS = 5_000_000
SEGMENT = 1448
# Wire bytes of a full packet; the buffer is sized in packets.
PACKET = 1538
BUFFER = RATE * 2 * DELAY_NS // 8 // 1_000_000_000 // PACKET
STAGGER_NS = 100_000
# Time limit for one cell.
LIMIT_S = 150


def run(flows, virtual_s):
    """Runs one cell; the CPU time excludes setting it up."""
    from ns import ns

    # Four times the average window of a flow when link and buffer are full.
    window = 4 * 2 * BUFFER * SEGMENT // flows
    ns.Config.SetDefault("ns3::TcpL4Protocol::SocketType", ns.StringValue("ns3::TcpCubic"))
    ns.Config.SetDefault("ns3::TcpSocketBase::Sack", ns.BooleanValue(True))
    ns.Config.SetDefault("ns3::TcpSocketBase::Timestamp", ns.BooleanValue(True))
    ns.Config.SetDefault("ns3::TcpSocket::SegmentSize", ns.UintegerValue(SEGMENT))
    ns.Config.SetDefault("ns3::TcpSocket::InitialCwnd", ns.UintegerValue(10))
    ns.Config.SetDefault("ns3::TcpSocket::DelAckCount", ns.UintegerValue(2))
    ns.Config.SetDefault("ns3::TcpSocket::DelAckTimeout", ns.TimeValue(ns.MilliSeconds(40)))
    ns.Config.SetDefault("ns3::TcpSocket::SndBufSize", ns.UintegerValue(window))
    ns.Config.SetDefault("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(window))

    nodes = ns.NodeContainer()
    nodes.Create(2)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{RATE}bps"))
    link.SetChannelAttribute("Delay", ns.TimeValue(ns.NanoSeconds(DELAY_NS)))
    link.SetQueue("ns3::DropTailQueue", "MaxSize", ns.StringValue(f"{BUFFER}p"))
    devices = link.Install(nodes)
    internet = ns.InternetStackHelper()
    internet.Install(nodes)
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
    interfaces = addresses.Assign(devices)
    # Only the device's queue, without FQ-CoDel in front of it.
    control = ns.TrafficControlHelper()
    control.Uninstall(devices)

    sinks = []
    for flow in range(flows):
        port = 5000 + flow
        to = ns.InetSocketAddress(interfaces.GetAddress(1), port).ConvertTo()
        bulk = ns.BulkSendHelper("ns3::TcpSocketFactory", to)
        bulk.SetAttribute("MaxBytes", ns.UintegerValue(0))
        # The application writes whole segments, as many as the socket accepts.
        bulk.SetAttribute("SendSize", ns.UintegerValue(SEGMENT))
        bulk.Install(nodes.Get(0)).Start(ns.NanoSeconds(flow * STAGGER_NS))
        anywhere = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
        sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", anywhere).Install(nodes.Get(1))
        sinks.append(sink.Get(0))

    # Packets that have left the queue by now arrive one propagation delay later.
    end_ns = int(virtual_s * 1e9)
    before = time.process_time()
    ns.Simulator.Stop(ns.NanoSeconds(end_ns - DELAY_NS))
    ns.Simulator.Run()
    queue = devices.Get(0).GetQueue()
    packets = queue.GetTotalReceivedPackets() - queue.GetNPackets()
    ns.Simulator.Stop(ns.NanoSeconds(DELAY_NS))
    ns.Simulator.Run()
    cpu = time.process_time() - before
    received = sum(sink.GetTotalRx() for sink in sinks)
    ns.Simulator.Destroy()
    return {
        "flows": flows,
        "virtual_s": virtual_s,
        "cpu_s": cpu,
        "packets": packets,
        "goodput_bps": received * 8 / virtual_s,
    }


def main():
    """Runs ns-3 on the cells in packets.json and prints both results."""
    rows = json.loads((OUT / "packets.json").read_text())
    cells = [row for row in rows if row["network"] == NETWORK]
    print("\nns-3 beside it, from the first packet on; its set-up is not counted, that of Headway is")
    print("                  ----------- ns-3 -----------  Headway")
    print("flows  virtual s  packets  CPU s  kpackets/s  kpackets/s  ratio")
    results = []
    for row in cells:
        # One process per cell, as ns-3 keeps global state.
        command = [sys.executable, __file__, str(row["flows"]), str(row["virtual_s"])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
            result = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            print(f"{row['flows']:5} {row['virtual_s']:9.2f} ns-3 took longer than {LIMIT_S} s")
            continue
        except (subprocess.CalledProcessError, IndexError, ValueError) as error:
            print(f"ns-3 could not run: {error}")
            return
        results.append(result)
        theirs = result["packets"] / result["cpu_s"]
        ours = row["packets"] / row["cpu_s"]
        print(
            f"{row['flows']:5} {row['virtual_s']:10.2f} {result['packets']:8} {result['cpu_s']:6.1f} "
            f"{theirs / 1e3:11.1f} {ours / 1e3:11.0f} {ours / theirs:6.0f}",
            flush=True,
        )
    (OUT / "ns3.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(run(int(sys.argv[1]), float(sys.argv[2]))))
    else:
        main()
