//! Choices among parallel paths whose packets are all simulated.

use headway_queue::{DropTailConfig, QueueSpec};
use headway_select::{Settings, Strategy};
use headway_sim::LinkConfig;
use headway_sim::config::Service;
use headway_sim::select::{Chooser, PacketLink, PacketPath, PacketWorld, Statement};
use headway_traffic::Traffic;
use headway_units::statistics::median;
use headway_units::{Bytes, Duration, Instant, Rate};

type Kind = fn(Rate) -> Traffic;

/// A link of this many Mb/s, of which others use this share.
fn link(mbps: f64, load: f64, traffic: Kind) -> PacketLink {
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
}

/// A path over each link.
fn world(links: Vec<PacketLink>, transfers: Vec<(Instant, Bytes)>, seconds: i64, seed: u64) -> PacketWorld {
    let path = |link: usize| PacketPath {
        name: format!("{link}"),
        link,
        down: Vec::new(),
        away: Vec::new(),
        refuses: false,
    };
    PacketWorld {
        paths: (0..links.len()).map(path).collect(),
        links,
        transfers,
        patience: Duration::from_ms(60_000),
        end: Instant::ZERO + Duration::from_ms(1_000 * seconds),
        seed,
    }
}

fn poisson(rate: Rate) -> Traffic {
    Traffic::Poisson { rate, size: Bytes::new(1_538) }
}

fn cbr(rate: Rate) -> Traffic {
    Traffic::Cbr { rate, size: Bytes::new(1_538) }
}

fn batches(rate: Rate) -> Traffic {
    Traffic::Batches { rate, size: Bytes::new(1_538), batch: 3.0 }
}

/// Half of 40 Mb/s are free on the path in use, and 28 or 36 on another: it is chosen within two minutes, in
/// 11 of 12 runs at least.
#[test]
fn a_path_with_more_free_is_chosen_within_two_minutes() {
    for strategy in [Strategy::TransferTime, Strategy::Available] {
        let settings = Settings { strategy, ..Settings::default() };
        let kinds: [Kind; 3] = [poisson, cbr, batches];
        let runs = kinds.into_iter().flat_map(|kind| [0.3, 0.1].map(|load| (kind, load)));
        let chosen = (1..).zip(runs.clone().chain(runs)).filter(|(seed, (kind, load))| {
            let links = vec![link(40.0, 0.5, *kind), link(40.0, *load, *kind)];
            let run = world(links, Vec::new(), 120, *seed).run(&Chooser::Selector(settings));
            run.chosen.last().is_some_and(|(_, path)| *path == 1)
        });
        let count = chosen.count();
        assert!(count >= 11, "{strategy}: {count} of 12");
    }
}

/// A path with this share of other traffic, and a slow one, for half an hour with users.
fn steady(load: f64, traffic: Kind, seed: u64) -> PacketWorld {
    let transfer = |number: i64| {
        let size = 20_000 << (number * 7 % 10);
        (Instant::ZERO + Duration::from_ms(20_000 + 9_000 * number), Bytes::new(size))
    };
    let transfers = (0..190).map(transfer).collect();
    world(vec![link(20.0, load, traffic), link(3.0, 0.5, traffic)], transfers, 1_800, seed)
}

/// Neither answers nor what users send make it drift: what is free on the path in use stays as it
/// is for half an hour.
#[test]
fn what_is_said_of_a_constant_load_stays_right() {
    let loads: [(f64, Kind); 3] = [(0.2, poisson), (0.5, poisson), (0.7, cbr)];
    for (seed, (load, traffic)) in (1..).zip(loads) {
        let run = steady(load, traffic, seed).run(&Chooser::Selector(Settings::default()));
        let used: Vec<_> = run.statements.iter().filter(|one| one.is_used && one.path == 0).collect();
        assert!(used.len() > 50, "{load}: the faster path is in use");
        let error = |one: &&Statement| one.free[0].bps_f64() / one.truth.bps_f64() - 1.0;
        let median = median(used.iter().map(error).collect()).unwrap_or_default();
        let last = error(&used[used.len() - 1]);
        eprintln!("{load}: {median:.2}, {last:.2} at the end");
        let held = used.iter().filter(|one| one.free[1] <= one.truth && one.truth <= one.free[2]).count();
        assert!(held * 10 >= used.len() * 8, "{load}: {held} of {}", used.len());
    }
}
