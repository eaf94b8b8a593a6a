//! Kinds of worlds whose packets are all simulated, each drawn by a seed.

use clap::ValueEnum;
use headway_control::Kind;
use headway_queue::{DropTailConfig, QueueSpec};
use headway_scenario::SelectCross;
use headway_sim::config::Service;
use headway_sim::select::{PacketLink, PacketPath, PacketWorld};
use headway_sim::{LinkConfig, TcpConfig};
use headway_traffic::channel::{Delays, Jitter};
use headway_traffic::{Traffic, random};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use rand::RngExt;

/// What a world is about. Paths have 5 to 60 Mb/s and 5 to 120 ms, if nothing else is said, and other traffic
/// takes any share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Class {
    /// Other traffic at a constant rate.
    Cbr,
    /// Packets of others with exponential gaps.
    Poisson,
    /// 16 sources with Pareto-distributed gaps.
    Pareto,
    /// Batches of 4 to 12 packets.
    Batches,
    /// TCP whose programs write at a constant rate.
    Tcp,
    /// Sources that are on and off for about a second.
    OnOff,
    /// Poisson traffic whose rate changes every 1 to 4 minutes.
    Steps,
    /// Links whose rate changes every 1 to 4 minutes.
    Rates,
    /// Half of the paths lose 0.2 to 3 % of all packets.
    Lossy,
    /// A near slow path, and fast far ones.
    Far,
    /// The far end of the path with most free refuses to be asked.
    Refusing,
    /// The far end of a path comes and goes.
    Absent,
    /// The path with most free goes down again and again for 3 to 200 s.
    Flapping,
    /// Transfers of 5 to 300 kB.
    Small,
    /// Transfers of 10 to 100 MB.
    Large,
    /// Buffers of 0.3 to 1.5 s.
    Bloated,
    /// Token buckets of 20 to 400 kB.
    Buckets,
    /// Paths that have about the same free.
    Alike,
    /// Eight paths.
    Eight,
    /// Paths of 1 to 8 Mb/s.
    Slow,
    /// Delays that vary by 1 to 20 ms.
    Jitter,
    /// Several paths over one link.
    Shared,
}

const FULL: Bytes = Bytes::new(1_538);
/// The length of a run.
const LENGTH: f64 = 600.0;

struct Draw {
    rng: rand_pcg::Pcg64Mcg,
    class: Class,
    end: Instant,
}

impl Draw {
    fn part(&mut self) -> f64 {
        self.rng.random()
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    /// Draws from low to high, in equal parts of the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.part())
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Draws a world of a class.
pub(super) fn world(class: Class, seed: u64) -> PacketWorld {
    let mut draw = Draw { rng: random::generator(seed, "world", class as u64), class, end: at(LENGTH) };
    let count = match class {
        Class::Eight => 8,
        Class::Far => 2 + (2.0 * draw.part()) as usize,
        _ => 2 + (3.0 * draw.part()) as usize,
    };
    let alike = draw.scale(8.0, 40.0);
    let mut links: Vec<PacketLink> = (0..count).map(|number| draw.link(number, alike)).collect();
    let mut paths: Vec<PacketPath> = (0..count)
        .map(|number| PacketPath {
            name: format!("path {}", number + 1),
            link: number,
            down: Vec::new(),
            away: Vec::new(),
            refuses: false,
        })
        .collect();
    let free = |link: &PacketLink| link.free.first().map_or(Rate::ZERO, |(_, rate)| *rate);
    let best = (0..count).max_by_key(|number| free(&links[*number])).unwrap_or(0);
    match class {
        Class::Refusing => paths[best].refuses = true,
        Class::Absent => paths[best].away = draw.outages([4.0, 120.0], [4.0, 120.0]),
        Class::Flapping => {
            paths[best].down = draw.outages([5.0, 400.0], [3.0, 200.0]);
            let down = paths[best].down.clone();
            fail(&mut links[best], &down);
        }
        Class::Shared => {
            let of = |number: usize| if number < 2 { 0 } else { number };
            paths.iter_mut().enumerate().for_each(|(number, path)| path.link = of(number));
        }
        _ => {}
    }
    let transfers = draw.transfers();
    PacketWorld { links, paths, transfers, patience: Duration::from_ms(60_000), end: draw.end, seed }
}

/// Stops a link while it is down.
fn fail(link: &mut PacketLink, down: &[(Instant, Instant)]) {
    let steps = match &link.forward.service {
        Service::Constant(rate) => RateSteps::try_from(vec![(Duration::ZERO, *rate)]),
        _ => return,
    };
    let Ok(steps) = steps else { return };
    let outages = || down.iter().map(|(from, to)| (*from - Instant::ZERO, *to - *from));
    link.forward.service = Service::Steps(steps.with_outages(outages()));
}

impl Draw {
    fn outages(&mut self, up: [f64; 2], down: [f64; 2]) -> Vec<(Instant, Instant)> {
        let mut outages = Vec::new();
        let mut now = 0.0;
        loop {
            now += self.scale(up[0], up[1]);
            let to = now + self.scale(down[0], down[1]);
            if at(to) >= self.end {
                return outages;
            }
            outages.push((at(now), at(to)));
            now = to;
        }
    }

    fn transfers(&mut self) -> Vec<(Instant, Bytes)> {
        let [low, high, think] = match self.class {
            Class::Small => [5e3, 3e5, 6.0],
            Class::Large => [1e7, 1e8, 60.0],
            Class::Slow => [1e4, 3e6, 12.0],
            _ => [2e4, 4e7, 10.0],
        };
        let (mut transfers, mut now) = (Vec::new(), 20.0);
        while now < LENGTH - 60.0 {
            transfers.push((at(now), Bytes::new(self.scale(low, high) as u64)));
            now += 1.0 + self.exponential(think);
        }
        transfers
    }

    fn link(&mut self, number: usize, alike: f64) -> PacketLink {
        let class = self.class;
        let (mbps, rtt) = match class {
            Class::Slow => (self.scale(1.0, 8.0), self.scale(0.01, 0.12)),
            Class::Far if number == 0 => (self.scale(5.0, 15.0), self.scale(0.005, 0.02)),
            Class::Far => (self.scale(40.0, 90.0), self.scale(0.12, 0.4)),
            Class::Alike => (alike * self.between(0.95, 1.05), self.scale(0.005, 0.12)),
            _ => (self.scale(5.0, 60.0), self.scale(0.005, 0.12)),
        };
        let load = match class {
            Class::Alike => 0.4,
            Class::Bloated => self.between(0.0, 0.6),
            _ => self.between(0.0, 0.9),
        };
        let (rate, delay) = (Rate::from_mbps(mbps), Duration::from_secs_f64(rtt / 2.0));
        let buffer = if class == Class::Bloated { self.scale(0.3, 1.5) } else { self.scale(0.03, 0.25) };
        let limit = Some(rate.bytes_in(Duration::from_secs_f64(buffer)).max(FULL * 12));
        let queue = QueueSpec::DropTail(DropTailConfig { limit, packets: None });
        let service = match class {
            Class::Buckets => {
                Service::TokenBucket { rate, burst: Bytes::new(self.scale(2e4, 4e5) as u64), peak: None }
            }
            _ => Service::Constant(rate),
        };
        let mut forward = LinkConfig::new(service, delay, queue.build(Some(rate), 1));
        let back = LinkConfig::new(Service::Unlimited, delay, queue.build(None, 1));
        if class == Class::Lossy && (number == 0 || self.part() < 0.5) {
            forward.loss = self.scale(0.002, 0.03);
        }
        if class == Class::Jitter {
            let deviation = Duration::from_secs_f64(self.scale(0.001, 0.02));
            let distribution = Delays::Normal { mean: deviation * 2, deviation };
            forward.jitter = Jitter { distribution, correlation: 0.0 };
        }
        let mut link = PacketLink { forward, back, sources: Vec::new(), flows: Vec::new(), free: Vec::new() };
        self.traffic(&mut link, rate, load);
        link
    }

    /// Adds the traffic of others.
    fn traffic(&mut self, link: &mut PacketLink, rate: Rate, load: f64) {
        match self.class {
            Class::Steps => self.levels(link, rate),
            Class::Rates => {
                let mut steps = vec![(Duration::ZERO, rate)];
                let mut now = 0.0;
                loop {
                    now += self.between(60.0, 240.0);
                    if now >= LENGTH {
                        break;
                    }
                    steps.push((Duration::from_secs_f64(now), rate.scale(self.scale(0.2, 1.0))));
                }
                let cross = rate.scale(0.15);
                link.sources.push((self.kind(cross), Instant::ZERO, None));
                let free =
                    |(from, rate): &(Duration, Rate)| (Instant::ZERO + *from, rate.saturating_sub(cross));
                link.free = steps.iter().map(free).collect();
                if let Ok(steps) = RateSteps::try_from(steps) {
                    link.forward.service = Service::Steps(steps);
                }
            }
            Class::Tcp => {
                let flows = 2 + (4.0 * self.part()) as u32;
                for _ in 0..flows {
                    // Payload, of which the wire has more.
                    let application = rate.scale(load / f64::from(flows) * 1_448.0 / 1_538.0);
                    let start = at(self.part());
                    let application_rate = Some(application);
                    let config = TcpConfig::new(Kind::Cubic, Vec::new(), Vec::new());
                    link.flows.push(TcpConfig { start, application_rate, ..config });
                }
                link.free = vec![(Instant::ZERO, rate.scale(1.0 - load))];
            }
            _ => {
                let cross = rate.scale(load);
                link.sources.push((self.kind(cross), Instant::ZERO, None));
                link.free = vec![(Instant::ZERO, rate.saturating_sub(cross))];
            }
        }
    }

    fn levels(&mut self, link: &mut PacketLink, rate: Rate) {
        let mut now = 0.0;
        while now < LENGTH {
            let to = now + self.between(60.0, 240.0);
            let cross = rate.scale(self.between(0.0, 0.9));
            link.sources.push((self.kind(cross), at(now), Some(at(to))));
            link.free.push((at(now), rate.saturating_sub(cross)));
            now = to;
        }
    }

    fn kind(&mut self, rate: Rate) -> Traffic {
        let drawn = self.part();
        match self.class {
            Class::Cbr => Traffic::Cbr { rate, size: FULL },
            Class::Poisson | Class::Steps | Class::Rates => Traffic::Poisson { rate, size: FULL },
            Class::Batches => Traffic::Batches { rate, size: FULL, batch: 4.0 + 8.0 * drawn },
            Class::OnOff => {
                let sources = 3 + (6.0 * drawn) as u32;
                let time = Duration::from_ms(1_000);
                let peak = rate.scale(2.0 / f64::from(sources));
                Traffic::ParetoOnOff { sources, peak, on: time, off: time, shape: 1.7, size: FULL }
            }
            _ if drawn < 0.4 => Traffic::Poisson { rate, size: FULL },
            _ if drawn < 0.5 => Traffic::Cbr { rate, size: FULL },
            _ if drawn < 0.6 => Traffic::Batches { rate, size: FULL, batch: 6.0 },
            _ => SelectCross::Pareto.traffic(rate),
        }
    }
}
