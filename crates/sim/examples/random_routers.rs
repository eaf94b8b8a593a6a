//! Explicit routers on random paths: draws cases from a seed and runs every law on each of them.
//!
//! `cargo run --release -p headway-sim --example random_routers -- [--seed N] [--cases N] [--law
//! NAME]` prints medians and the worst cases of each law; with `--case N` and `--law
//! NAME` the scenario of one, for `headway run
//! FILE`. With `--published` routers and senders are those without this project's repairs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_traffic::random::generator;
use headway_units::Bytes;
use headway_units::statistics::{closest, sorted};
use rand::RngExt as _;

/// Bytes that a link adds to an IP packet.
const OVERHEAD: f64 = 38.0;
/// Most packets of a run; cases that need more are drawn again.
const MOST_PACKETS: f64 = 4e6;
/// Worst cases that are shown.
const WORST: usize = 10;
/// Memory of a run.
const MEMORY: Bytes = Bytes::new(4 << 30);

/// A router and the senders that it is for.
#[derive(Clone, Copy)]
struct Law {
    name: &'static str,
    controller: &'static str,
    kind: &'static str,
    /// Further keys of its queue.
    keys: &'static str,
    /// Whether it needs a capacity; the others get none.
    knows: bool,
    /// Whether router and senders are the published ones.
    published: bool,
}

impl Law {
    const fn new(name: &'static str, controller: &'static str, kind: &'static str, knows: bool) -> Law {
        Law { name, controller, kind, keys: "", knows, published: false }
    }

    fn controller(&self) -> String {
        let separator = if self.controller.contains(':') { ',' } else { ':' };
        if self.published {
            format!("{}{separator}published", self.controller)
        } else {
            self.controller.to_owned()
        }
    }

    /// Further keys of its queue.
    fn keys(&self) -> String {
        format!("{}, published = {}", self.keys, self.published)
    }
}

const LAWS: [Law; 10] = [
    Law::new("xcp", "xcp", "xcp", true),
    Law::new("xcp-b", "xcp", "xcp-b", false),
    Law::new("xcp-kappa", "xcp", "xcp-kappa", false),
    Law::new("errors", "xcp", "errors", false),
    Law::new("rcp", "rcp", "rcp", true),
    Law::new("rcp-paced", "rcp:paced", "rcp", true),
    Law { keys: ", interval-max = \"10 ms\"", ..Law::new("rcp-often", "rcp:paced", "rcp", true) },
    Law::new("rcp-b", "rcp", "rcp-b", false),
    Law::new("rcp-kappa", "rcp", "rcp-kappa", false),
    Law::new("rcp-errors", "rcp", "rcp-errors", false),
];

/// A path with its traffic.
struct Case {
    /// Rates of the routers' links, b/s.
    rates: Vec<f64>,
    /// RTTs without queues, s: one for each group of flows.
    rtts: Vec<f64>,
    /// Buffer in bandwidth-delay products of the longest RTT.
    buffer: f64,
    /// IP bytes of a packet.
    mtu: f64,
    /// Greedy flows, and flows whose application writes at a quarter of an equal part.
    flows: (u32, u32),
    /// Load of flows that come and go.
    load: f64,
    /// Whether all flows begin together.
    together: bool,
    /// The believed capacity over that of the link.
    believed: f64,
}

/// What is drawn from a distribution.
trait Draws {
    fn uniform(&mut self, low: f64, high: f64) -> f64;

    /// Draws a number whose logarithm is distributed uniformly.
    fn scaled(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    fn chance(&mut self, share: f64) -> bool {
        self.uniform(0.0, 1.0) < share
    }
}

impl Draws for headway_traffic::random::Pcg64Mcg {
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random::<f64>()
    }
}

impl Case {
    /// Draws a case that is not too long to run.
    fn draw(seed: u64, number: u64) -> Case {
        let mut random = generator(seed, "routers", number);
        loop {
            let case = Case::draw_any(&mut random);
            let packets = case.narrow() * case.length() / 8.0 / case.packet();
            if packets <= MOST_PACKETS {
                return case;
            }
        }
    }

    fn draw_any(random: &mut impl Draws) -> Case {
        let narrow = random.scaled(0.3e6, 10e9);
        let wide = narrow * random.uniform(1.0, 2.0);
        let rates = match random.uniform(0.0, 3.0) as u32 {
            0 => vec![narrow],
            1 => vec![narrow, wide],
            _ => vec![wide, narrow],
        };
        let groups = if random.chance(0.5) { 1 } else { 4 };
        let all = random.scaled(1.0, 300.0).round() as u32;
        let limited = if random.chance(0.3) { all / 2 } else { 0 };
        Case {
            rates,
            rtts: (0..groups).map(|_| random.scaled(0.002, 0.3)).collect(),
            buffer: random.scaled(0.3, 3.0),
            mtu: if random.chance(0.5) { 1500.0 } else { 9000.0 },
            flows: (all - limited, limited),
            load: if random.chance(0.3) { random.uniform(0.1, 0.5) } else { 0.0 },
            together: random.chance(0.5),
            believed: if random.chance(0.5) { 1.0 } else { random.uniform(0.8, 1.2) },
        }
    }

    fn narrow(&self) -> f64 {
        self.rates.iter().fold(f64::INFINITY, |least, rate| rate.min(least))
    }

    fn longest_rtt(&self) -> f64 {
        self.rtts.iter().fold(0.0, |most, rtt| rtt.max(most))
    }

    fn packet(&self) -> f64 {
        self.mtu + OVERHEAD
    }

    /// Flows that stay.
    fn all(&self) -> u32 {
        self.flows.0 + self.flows.1
    }

    /// Time before the measured time, and the measured time, in s: many round trips, and some
    /// packets of every flow.
    fn half(&self) -> f64 {
        let packets = (f64::from(self.all()) * 5.0).max(300.0) * self.packet() * 8.0 / self.narrow();
        packets.max(40.0 * self.longest_rtt()).max(1.0)
    }

    fn length(&self) -> f64 {
        2.0 * self.half()
    }

    /// Returns the buffer of a link in bytes.
    fn buffer(&self, rate: f64) -> f64 {
        (self.buffer * rate / 8.0 * self.longest_rtt()).max(10.0 * self.packet())
    }

    fn queue(&self, rate: f64, law: &Law) -> String {
        let buffer = self.buffer(rate);
        if law.knows {
            let believed = self.believed * rate;
            return format!("{{ kind = \"{}\", capacity = \"{believed:.0} b/s\"{} }}", law.kind, law.keys());
        }
        // A tenth of the bandwidth-delay product, four packets at least, and what the buffer holds.
        let product = rate / 8.0 * self.longest_rtt();
        let kappa = (product / 10.0).max(4.0 * self.mtu).min(buffer / 2.0);
        let most = product.max(13.0 * self.mtu).min(buffer);
        format!(
            "{{ kind = \"{}\", capacity = \"0 b/s\", kappa = \"{kappa:.0} B\", q-max = \"{most:.0} B\"{} }}",
            law.kind,
            law.keys()
        )
    }

    /// Returns the scenario file.
    fn scenario(&self, law: &Law) -> String {
        let half = self.half();
        let mut text = format!(
            "duration = \"{:.0} us\"\nwarmup = \"{:.0} us\"\nmtu = {:.0}\n",
            2e6 * half,
            1e6 * half,
            self.mtu
        );
        for (hop, rate) in self.rates.iter().enumerate() {
            let _ = write!(
                text,
                "[[link]]\nfrom = \"r{hop}\"\nto = \"r{}\"\nduplex = false\nrate = \"{rate:.0} b/s\"\nbuffer = \"{:.0} B\"\nqueue = {}\n",
                hop + 1,
                self.buffer(*rate),
                self.queue(*rate, law),
            );
        }
        let end = self.rates.len();
        for (group, rtt) in self.rtts.iter().enumerate() {
            let delay = 1e6 * rtt / 2.0;
            let _ = write!(
                text,
                "[[link]]\nfrom = \"s{group}\"\nto = \"r0\"\nduplex = false\ndelay = \"{delay:.0} us\"\n\
                 [[link]]\nfrom = \"r{end}\"\nto = \"s{group}\"\nduplex = false\ndelay = \"{delay:.0} us\"\n"
            );
            self.flows(&mut text, group, law);
        }
        text
    }

    /// Adds the flows of a group.
    fn flows(&self, text: &mut String, group: usize, law: &Law) {
        let groups = self.rtts.len() as u32;
        let part = |all: u32| all / groups + u32::from((group as u32) < all % groups);
        let flow = format!(
            "[[flow]]\nfrom = \"s{group}\"\nto = \"r{}\"\ncontroller = \"{}\"\nreceive-buffer = \"1 GB\"\n",
            self.rates.len(),
            law.controller()
        );
        let stagger = if self.together { 0.0 } else { 5e5 * self.half() / f64::from(self.all()) };
        let share = self.narrow() / f64::from(self.all()) / 4.0;
        for (name, count, keys) in [
            ("greedy", part(self.flows.0), String::new()),
            ("limited", part(self.flows.1), format!("application-rate = \"{share:.0} b/s\"\n")),
        ] {
            if count > 0 {
                let stagger = stagger * f64::from(groups);
                let _ = write!(
                    text,
                    "{flow}name = \"{name}{group}\"\ncount = {count}\nstagger = \"{stagger:.0} us\"\n{keys}"
                );
            }
        }
        if self.load > 0.0 {
            let rate = self.load * self.narrow() / f64::from(groups);
            let mean = 20.0 * self.mtu;
            let _ = write!(
                text,
                "{flow}name = \"web{group}\"\narrivals = {{ rate = \"{rate:.0} b/s\", size-distribution = \
                 {{ kind = \"exponential\", mean = \"{mean:.0} B\" }} }}\n"
            );
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("{:.3} Mb/s", self.narrow() / 1e6);
        if self.rates.len() > 1 {
            let hop = if self.rates[0] > self.rates[1] { 0 } else { 1 };
            let _ = write!(text, " (router {hop}: {:.3})", self.rates[hop] / 1e6);
        }
        let rtts: Vec<String> = self.rtts.iter().map(|rtt| format!("{:.0}", 1e3 * rtt)).collect();
        let product = self.narrow() / 8.0 * self.longest_rtt() / self.packet();
        let _ = write!(
            text,
            ", {} ms, {product:.1} packets, buffer {:.2}, mtu {:.0}, {}+{} flows{}",
            rtts.join(" "),
            self.buffer,
            self.mtu,
            self.flows.0,
            self.flows.1,
            if self.together { " together" } else { "" }
        );
        if self.load > 0.0 {
            let _ = write!(text, ", load {:.2}", self.load);
        }
        if self.believed != 1.0 {
            let _ = write!(text, ", believes {:.2}", self.believed);
        }
        text
    }
}

/// The numbers of a run.
#[derive(Clone, Copy)]
struct Numbers {
    number: u64,
    /// Share of what the router may use, %: of its link, or of less where it believes in less.
    utilisation: f64,
    /// The 95 % quantile of the queueing delay, ms, and over the longest RTT.
    queue: f64,
    queue_rtts: f64,
    /// Packets dropped, % of those that arrived.
    dropped: f64,
    /// Jain's index of the greedy flows.
    fairness: f64,
}

impl Numbers {
    fn new(number: u64, case: &Case, law: &Law, results: &Results) -> Numbers {
        let narrow = if case.rates.len() > 1 && case.rates[0] > case.rates[1] { 1 } else { 0 };
        let links = &results.summary.links;
        let may = if law.knows { case.believed.min(1.0) } else { 1.0 };
        let queue = results.delays[narrow].quantile(0.95).ms();
        let (sum, squares, count) = results
            .flows
            .iter()
            .filter(|flow| flow.group.starts_with("greedy"))
            .map(|flow| flow.goodput_bps as f64)
            .fold((0.0, 0.0, 0.0), |(sum, squares, count), rate| {
                (sum + rate, squares + rate * rate, count + 1.0)
            });
        let dropped: u64 = links.iter().map(|link| link.dropped).sum();
        Numbers {
            number,
            utilisation: 100.0 * links[narrow].utilisation.unwrap_or_default() / may,
            queue,
            queue_rtts: queue / 1e3 / case.longest_rtt(),
            dropped: 100.0 * dropped as f64 / links[0].arrived.max(1) as f64,
            fairness: sum * sum / (count * squares),
        }
    }

    /// What is left of the link after losses: cases are worse the less it is.
    fn useful(&self) -> f64 {
        self.utilisation - self.dropped
    }
}

fn run(number: u64, case: &Case, law: &Law) -> Result<Numbers, String> {
    let path = Path::new("case.toml");
    let scenario = Scenario::parse(&case.scenario(law), path, &[]).map_err(|error| error.to_string())?;
    let mut run = Run::new(&scenario, number + 1, MEMORY).map_err(|error| error.to_string())?;
    while run.step().map_err(|error| error.to_string())? {}
    Ok(Numbers::new(number, case, law, &run.finish()))
}

/// Runs all cases of a law on all processors.
fn run_all(seed: u64, cases: u64, law: &Law) -> Result<Vec<Numbers>, String> {
    let next = AtomicU64::new(0);
    let done = Mutex::new(Ok(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cases {
                return;
            }
            let result = run(number, &Case::draw(seed, number), law);
            let mut done = done.lock().expect("no run panics");
            match (&mut *done, result) {
                (Ok(all), Ok(numbers)) => all.push(numbers),
                (Ok(_), Err(error)) => *done = Err(format!("case {number}: {error}")),
                (Err(_), _) => return,
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    done.into_inner().expect("no run panics")
}

fn quantiles(all: &[Numbers], value: fn(&Numbers) -> f64, parts: [f64; 2]) -> [f64; 2] {
    let values = sorted(all.iter().map(value).filter(|value| !value.is_nan()).collect());
    parts.map(|part| closest(&values, part).unwrap_or(f64::NAN))
}

fn report(seed: u64, law: &Law, all: &mut [Numbers], worst: bool) {
    let [median, low] = quantiles(all, |n| n.utilisation, [0.5, 0.05]);
    let [queue, queue_high] = quantiles(all, |n| n.queue_rtts, [0.5, 0.95]);
    let [dropped, dropped_high] = quantiles(all, |n| n.dropped, [0.5, 0.95]);
    let [fair, unfair] = quantiles(all, |n| n.fairness, [0.5, 0.05]);
    let bad = all.iter().filter(|n| n.useful() < 80.0).count();
    println!(
        "| {} | {median:.1}, {low:.1} | {queue:.2}, {queue_high:.2} | {dropped:.2}, {dropped_high:.2} | \
         {fair:.3}, {unfair:.3} | {bad} |",
        law.name
    );
    if !worst {
        return;
    }
    all.sort_by(|a, b| a.useful().total_cmp(&b.useful()));
    for n in all.iter().take(WORST) {
        println!(
            "    --seed {seed} --law {} --case {}: used {:.1} %, p95 {:.1} ms ({:.2} RTT), dropped {:.2} %, Jain {:.3}\n        {}",
            law.name,
            n.number,
            n.utilisation,
            n.queue,
            n.queue_rtts,
            n.dropped,
            n.fairness,
            Case::draw(seed, n.number).describe()
        );
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| arguments.iter().position(|a| a == key).and_then(|at| arguments.get(at + 1));
    let number = |key: &str, default| value(key).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, cases) = (number("--seed", 1), number("--cases", 200));
    let wanted = value("--law");
    let published = arguments.iter().any(|argument| argument == "--published");
    let all = LAWS.map(|law| Law { published, ..law });
    let chosen: Vec<&Law> = all.iter().filter(|law| wanted.is_none_or(|name| name == law.name)).collect();
    if chosen.is_empty() || cases == 0 {
        let names: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
        eprintln!("--law takes one of {}, and --cases a number above 0", names.join(", "));
        return ExitCode::FAILURE;
    }
    if value("--case").is_some() {
        print!("{}", Case::draw(seed, number("--case", 0)).scenario(chosen[0]));
        return ExitCode::SUCCESS;
    }
    println!(
        "| law | used %, 5 % | p95 of the queue / RTT, 95 % | dropped %, 95 % | Jain, 5 % | below 80 % |"
    );
    println!("|---|---|---|---|---|---|");
    for law in chosen {
        match run_all(seed, cases, law) {
            Ok(mut all) => {
                report(seed, law, &mut all, wanted.is_some() || arguments.iter().any(|a| a == "--worst"))
            }
            Err(error) => {
                eprintln!("{}: {error}", law.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
