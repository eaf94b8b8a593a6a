//! Choices among parallel paths whose packets are all simulated.

use headway_queue::{DropTailConfig, QueueSpec};
use headway_select::Settings;
use headway_sim::LinkConfig;
use headway_sim::config::Service;
use headway_sim::select::{Chooser, PacketLink, PacketPath, PacketWorld, Statement};
use headway_traffic::Traffic;
use headway_units::statistics::median;
use headway_units::{Bytes, Duration, Instant, Rate};

type Kind = fn(Rate) -> Traffic;

/// A path with this share of other traffic, and a slow one, for half an hour with users.
fn steady(load: f64, traffic: Kind, seed: u64) -> PacketWorld {
    let end = Instant::ZERO + Duration::from_ms(1_800_000);
    let link = |mbps: f64, load: f64| {
        let rate = Rate::from_mbps(mbps);
        let wire = |service: Service| {
            let limit = Some(rate.bytes_in(Duration::from_ms(100)));
            let queue = QueueSpec::DropTail(DropTailConfig { limit, packets: None }).build(Some(rate), 1);
            LinkConfig::new(service, Duration::from_ms(10), queue)
        };
        PacketLink {
            forward: wire(Service::Constant(rate)),
            back: wire(Service::Unlimited),
            sources: vec![(traffic(rate.scale(load)), Instant::ZERO, None)],
            flows: Vec::new(),
            free: vec![(Instant::ZERO, rate.scale(1.0 - load))],
        }
    };
    let path = |link: usize| PacketPath { name: format!("{link}"), link, down: Vec::new(), away: Vec::new() };
    let transfer = |number: i64| {
        let size = 20_000 << (number * 7 % 10);
        (Instant::ZERO + Duration::from_ms(20_000 + 9_000 * number), Bytes::new(size))
    };
    PacketWorld {
        links: vec![link(20.0, load), link(3.0, 0.5)],
        paths: vec![path(0), path(1)],
        transfers: (0..190).map(transfer).collect(),
        patience: Duration::from_ms(60_000),
        end,
        seed,
    }
}

/// Neither answers nor what users send make it drift: what is free on the path in use stays as it is for half an hour.
#[test]
fn what_is_said_of_a_constant_load_stays_right() {
    let poisson = |rate| Traffic::Poisson { rate, size: Bytes::new(1_538) };
    let cbr = |rate| Traffic::Cbr { rate, size: Bytes::new(1_538) };
    let loads: [(f64, Kind); 3] = [(0.2, poisson), (0.5, poisson), (0.7, cbr)];
    for (seed, (load, traffic)) in (1..).zip(loads) {
        let run = steady(load, traffic, seed).run(&Chooser::Selector(Settings::default()));
        let used: Vec<_> = run.statements.iter().filter(|one| one.is_used && one.path == 0).collect();
        assert!(used.len() > 50, "{load}: the faster path is in use");
        let error = |one: &&Statement| one.free[0].bps_f64() / one.truth.bps_f64() - 1.0;
        let median = median(used.iter().map(error).collect()).unwrap_or_default();
        let last = error(&used[used.len() - 1]);
        assert!(median.abs() <= 0.1 && last.abs() <= 0.2, "{load}: {median:.2}, {last:.2} at the end");
        let held = used.iter().filter(|one| one.free[1] <= one.truth && one.truth <= one.free[2]).count();
        assert!(held * 10 >= used.len() * 8, "{load}: {held} of {}", used.len());
    }
}
