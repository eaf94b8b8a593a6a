//! How soon a new flow of TCP Rapid is at the available bandwidth (rapid 2.14, F53): draws paths from a seed
//! and runs controllers on each of them.
//!
//! `cargo run --release -p headway-sim --example start_up -- [SEED [PATHS [CONTROLLER
//! ...]]]` prints for each controller and kind of cross traffic the round trips, from the connection's first
//! packet, until its pace is 80 % of what is free in the mean; the longest queue, and the segments sent
//! again, of 40 round trips; each as median, 90 % and worst; what the second half of them used of what was
//! free (10 % and median); and the worst paths.

use std::error::Error;
use std::path::Path;

use headway_record::{Results, TcpInterval};
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_traffic::random::generator;
use headway_units::Bytes;
use headway_units::statistics::{closest, sorted};
use rand::RngExt as _;

/// Memory of a run.
const MEMORY: Bytes = Bytes::new(4 << 30);
/// Round trips of a run.
const ROUND_TRIPS: u32 = 40;
/// Values in the series of a run, per round trip.
const PER_ROUND_TRIP: u32 = 10;
/// The kinds of cross traffic.
const CROSS: [&str; 4] = ["none", "cbr", "poisson", "bct"];
/// Worst paths that are shown.
const WORST: usize = 6;

/// A path, and what others send.
struct Case {
    mbps: f64,
    mtu: u32,
    rtt_us: f64,
    buffer: f64,
    coalescing_us: u32,
    cross: usize,
    share: f64,
    line: Option<f64>,
    seed: u64,
}

impl Case {
    fn draw(seed: u64, number: u64) -> Case {
        let mut random = generator(seed, "start-up", number);
        let mut between = |low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
        let mbps = between(10.0, 10_000.0);
        let mtu = if mbps > 2_000.0 { 9000 } else { 1500 };
        let rtt_us = between(2_000.0, 200_000.0);
        let product = mbps * rtt_us / 8.0;
        let buffer = (product * between(0.25, 2.0)).max(32.0 * f64::from(mtu));
        let share = between(0.1, 0.6);
        let fast = between(1.0, 2.0) > 1.41;
        let coalescing_us = if between(1.0, 2.0) > 1.41 { 120 } else { 0 };
        let cross = (number % 4) as usize;
        let line = fast.then(|| (mbps * between(1.5, 100.0)).min(10_000.0).max(mbps * 1.05));
        Case { mbps, mtu, rtt_us, buffer, coalescing_us, cross, share, line, seed: seed + number }
    }

    fn text(&self, controller: &str) -> String {
        let Case { mbps, mtu, rtt_us, buffer, coalescing_us, share, .. } = self;
        let traffic = match CROSS[self.cross] {
            "none" => String::new(),
            "bct" => format!("model = \"bct\"\nscale = {}\n", mbps * share / 2_510.0),
            model => format!("model = \"{model}\"\nrate = \"{:.3} Mb/s\"\n", mbps * share),
        };
        let traffic = match traffic.is_empty() {
            true => traffic,
            false => format!("[[traffic]]\nfrom = \"a\"\nto = \"b\"\n{traffic}"),
        };
        let line = self.line.map_or(String::new(), |line| format!("line = \"{line:.3} Mb/s\"\n"));
        format!(
            "duration = \"{:.0} us\"\ninterval = \"{:.0} us\"\nmtu = {mtu}\n\
             [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbps:.3} Mb/s\"\ndelay = \"{:.0} us\"\n\
             buffer = \"{buffer:.0} B\"\n\
             [host.b]\ncoalescing = {{ kind = \"fixed\", interval = \"{coalescing_us} us\" }}\n{traffic}\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\noffload = false\n\
             receive-buffer = \"1 GB\"\n{line}",
            rtt_us * f64::from(ROUND_TRIPS),
            rtt_us / f64::from(PER_ROUND_TRIP),
            rtt_us / 2.0,
        )
    }

    fn run(&self, controller: &str) -> Result<Results, Box<dyn Error>> {
        let scenario = Scenario::parse(&self.text(controller), Path::new("start-up.toml"), &[])?;
        let mut run = Run::new(&scenario, self.seed, MEMORY)?;
        while run.step()? {}
        Ok(run.finish())
    }

    fn free(&self) -> f64 {
        if CROSS[self.cross] == "none" { self.mbps } else { self.mbps * (1.0 - self.share) }
    }
}

/// Round trips until the pace is there and infinity otherwise, the longest queue in ms, segments sent again,
/// and the share of what is free that the second half used.
fn judge(case: &Case, results: &Results) -> [f64; 4] {
    let enough = 0.8 * case.free();
    let is_there = |tcp: &TcpInterval| tcp.pacing.is_some_and(|pace| pace.mbps() >= enough);
    let at = results.series.tcp[0].iter().position(is_there);
    let flow = &results.flows[0];
    let sent: f64 = results.series.goodput[0].iter().skip(200).map(|bytes| bytes.get() as f64).sum();
    let later = sent * 8.0 / (0.5 * f64::from(ROUND_TRIPS) * case.rtt_us) / case.free();
    [
        at.map_or(f64::INFINITY, |at| (at + 1) as f64 / f64::from(PER_ROUND_TRIP)),
        results.summary.links[0].delay_max_ns as f64 / 1e6,
        flow.retransmitted as f64,
        later,
    ]
}

fn at(sorted: &[f64], part: f64) -> f64 {
    closest(sorted, part).unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let paths = arguments.next().map_or(Ok(100), |paths| paths.parse())?;
    let mut controllers: Vec<String> = arguments.collect();
    if controllers.is_empty() {
        controllers.push("rapid".to_owned());
    }
    for controller in &controllers {
        let mut judged: Vec<(u64, Case, [f64; 4])> = Vec::new();
        for number in 0..paths {
            let case = Case::draw(seed, number);
            let found = judge(&case, &case.run(controller)?);
            judged.push((number, case, found));
        }
        println!("{controller}: round trips; longest queue, ms; sent again; later share of what is free");
        for (kind, name) in CROSS.iter().enumerate() {
            let of: Vec<&[f64; 4]> =
                judged.iter().filter(|(_, case, _)| case.cross == kind).map(|(_, _, found)| found).collect();
            let column = |k: usize| {
                let values = sorted(of.iter().map(|found| found[k]).collect());
                format!("{:7.1} {:7.1} {:8.1}", at(&values, 0.5), at(&values, 0.9), at(&values, 1.0))
            };
            let within = of.iter().filter(|found| found[0] <= 8.0).count();
            let low = sorted(of.iter().map(|found| found[3]).collect());
            println!(
                "  {name:8} {within:3} of {:3} in 8 | {} | {} | {} | {:.2} {:.2}",
                of.len(),
                column(0),
                column(1),
                column(2),
                at(&low, 0.1),
                at(&low, 0.5)
            );
        }
        let mut worst: Vec<_> = judged.iter().collect();
        worst.sort_by(|a, b| b.2[0].total_cmp(&a.2[0]));
        for (number, case, found) in worst.iter().take(WORST) {
            println!(
                "  {number}: {:.0} Mb/s, {:.1} ms, {} {:.2}, buffer {:.0} kB, coalescing {}, line {:?}: {found:.2?}",
                case.mbps,
                case.rtt_us / 1e3,
                CROSS[case.cross],
                case.share,
                case.buffer / 1e3,
                case.coalescing_us,
                case.line
            );
        }
    }
    Ok(())
}
