// A dumbbell for csg-htsim, to be compared with the same network in Headway; see htsim.py.
//
// Flows over one 10 Gb/s link with an RTT of 10 ms and a queue in each direction. Two models:
//
//   newreno  htsim's TCP; buffers of one bandwidth-delay product, ssthresh at the flow's share of it
//   window   htsim's TCP with its window fixed at the flow's share of 1.5 bandwidth-delay products; no losses, as the
//            buffers are large enough
//
// Arguments: model, flows, virtual milliseconds. Prints the number of data packets that arrived at their receivers.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "config.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

namespace {

// Wire bytes of a full packet; htsim does not model headers.
const uint32_t kPacket = 1538;
const uint64_t kMegabits = 10000;
const uint64_t kBdpBytes = 12500000;
const uint32_t kDelayUs = 5000;
const uint32_t kStaggerUs = 100;

struct Link {
    Link(EventList& events, mem_b buffer)
        : queue(speedFromMbps(kMegabits), buffer, events, NULL), pipe(timeFromUs(kDelayUs), events) {}
    Queue queue;
    Pipe pipe;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4 || (strcmp(argv[1], "newreno") && strcmp(argv[1], "window"))) {
        std::cerr << "usage: " << argv[0] << " newreno|window FLOWS VIRTUAL_MS\n";
        return 2;
    }
    const bool fixed = !strcmp(argv[1], "window");
    const uint32_t flows = atoi(argv[2]);
    EventList events;
    events.setEndtime(timeFromMs(atoi(argv[3])));
    Packet::set_packet_size(kPacket);

    // Silences htsim's messages about every flow.
    std::cout.setstate(std::ios::failbit);
    const mem_b buffer = fixed ? 4 * kBdpBytes : kBdpBytes;
    Link forward(events, buffer), reverse(events, buffer);
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    std::vector<TcpSink*> sinks;
    for (uint32_t flow = 0; flow < flows; flow++) {
        TcpSrc* source = new TcpSrc(NULL, NULL, events);
        TcpSink* sink = new TcpSink();
        const uint64_t share = (fixed ? kBdpBytes * 3 / 2 : kBdpBytes) / kPacket / flows * kPacket;
        source->set_ssthresh(share);
        if (fixed) {
            source->set_cwnd(share);
            source->_maxcwnd = share;
        }
        timers.registerTcp(*source);
        Route* out = new Route();
        out->push_back(&forward.queue);
        out->push_back(&forward.pipe);
        out->push_back(sink);
        Route* back = new Route();
        back->push_back(&reverse.queue);
        back->push_back(&reverse.pipe);
        back->push_back(source);
        source->connect(*out, *back, *sink, timeFromUs(flow * kStaggerUs));
        sinks.push_back(sink);
    }
    while (events.doNextEvent()) {
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < sinks.size(); i++) bytes += sinks[i]->_packets;
    std::cout.clear();
    std::cout << "{\"packets\": " << bytes / kPacket << "}\n";
    return 0;
}
