//! Explicit routers at 100 Gb/s with RTTs of microseconds.

use headway_control::Kind;
use headway_queue::QueueSpec;
use headway_sim::config::Service;
use headway_sim::{FlowId, LinkConfig, Network, TcpConfig};
use headway_units::{Duration, Instant, Rate};

const RATE: Rate = Rate::from_bps(100_000_000_000);

/// What a run of 10 ms showed in its last millisecond, and packets dropped in it.
struct Shown {
    utilisation: f64,
    /// Mean queueing delay in us.
    queue: f64,
    dropped: u64,
    /// Goodput of the fastest flow relative to that of the slowest.
    spread: f64,
}

/// Runs flows of packets of 9000 B that start 0.1 ms apart at a router with control intervals from 1 us on.
fn run(router: &str, controller: &str, flows: u64, rtt_us: i64) -> Shown {
    let mut network = Network::new(1);
    let mut link = |spec: &str| {
        let queue: QueueSpec = serde_json::from_str(spec).expect("a queue");
        queue.validate().expect("in range");
        let delay = Duration::from_ns(rtt_us * 500);
        network.add_link(&LinkConfig::new(Service::Constant(RATE), delay, queue.build(Some(RATE), 1)))
    };
    let there = link(&format!(r#"{{"kind":"{router}","limit":"1 MB","interval-min":"1 us"}}"#));
    let back = link(r#"{"kind":"drop-tail"}"#);
    let kind: Kind = controller.parse().expect("a controller");
    let add = |number| {
        let start = Instant::from_ns(number * 100_000);
        network.add_tcp(&TcpConfig { start, mss: 8928, ..TcpConfig::new(kind, vec![there], vec![back]) })
    };
    let flows: Vec<FlowId> = (0..flows).map(add).collect();
    network.run_until(Instant::from_ns(9_000_000));
    network.reset_statistics();
    network.run_until(Instant::from_ns(10_000_000));
    let goodputs = flows.iter().map(|flow| network.flow(*flow).goodput.get() as f64);
    let (least, most) =
        goodputs.fold((f64::INFINITY, 0.0), |(least, most), goodput| (goodput.min(least), goodput.max(most)));
    let statistics = network.link(there).statistics();
    let capacity = RATE.bytes_in(Duration::from_ms(1)).get() as f64;
    Shown {
        utilisation: statistics.delivered.bytes.get() as f64 / capacity,
        queue: statistics.delay.mean().ns() as f64 / 1e3,
        dropped: statistics.dropped.packets,
        spread: most / least,
    }
}

#[test]
fn flows_fill_a_link_of_100_gigabits_with_an_rtt_of_microseconds_and_a_short_queue() {
    for (router, controller) in [("xcp", "xcp"), ("rcp", "rcp"), ("rcp", "rcp:paced")] {
        for rtt_us in [5, 10, 20] {
            let Shown { utilisation, queue, dropped, spread } = run(router, controller, 4, rtt_us);
            let text = format!("{controller}, {rtt_us} us: {utilisation} {queue} us {spread}");
            assert!(utilisation > 0.95 && dropped == 0 && spread < 1.2, "{text}");
            // Two packets of 0.72 us each.
            assert!(queue < 1.5, "{text}");
        }
    }
}

#[test]
fn a_single_flow_gets_what_the_header_can_say() {
    for rtt_us in [5, 20] {
        let shown = run("xcp", "xcp", 1, rtt_us);
        assert!(shown.utilisation > 0.9 && shown.queue < 1.0, "{}", shown.utilisation);
        // 2^32 B/s are 34.4 Gb/s.
        let share = run("rcp", "rcp:paced", 1, rtt_us).utilisation;
        assert!((share - 0.3436).abs() < 0.002, "{share}");
    }
}
