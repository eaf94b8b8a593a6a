//! Long flows with a short RTT that share a link: the testbed of LS-AIMD (ls-aimd 4.1, 4.2).

mod in_world;

pub(crate) use in_world::{scenario, statistics};

use headway_control::Kind;
use headway_queue::{ADAPTATION, DropTailConfig, QueueSpec, RampConfig, RedConfig, StepConfig};
use headway_record::Histogram;
use headway_sim::config::{AckPolicy, Burst, Ecn, Service};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt as _;

use crate::outcome::{Measures, named};
use crate::statistics::{deviation, mean};

/// Ethernet overhead per IP packet as counted in the thesis, for rates and windows (ls-aimd 1.1).
const FRAME: u64 = 18;
/// Overhead as counted on our wire, with preamble and inter-frame gap.
const WIRE: u64 = 38;
/// Uniformly distributed delay of every packet at its sender; without it, saturated senders become exactly
/// periodic (ls-aimd 4.8).
const SEND_JITTER: Duration = Duration::from_us(20);
/// Sampling interval for flow state and utilisation (ls-aimd 4.3).
const SAMPLE_INTERVAL: Duration = Duration::from_ms(10);
/// The five quantiles of a box plot.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("q5", 0.05), ("q25", 0.25), ("q50", 0.5), ("q75", 0.75), ("q95", 0.95)];
/// Buffer of the bottleneck (ls-aimd 4.2).
const BUFFER: Duration = Duration::from_ms(200);

/// One column of the table of experiments (ls-aimd 4.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Name of the experiment.
    pub(crate) name: &'static str,
    /// Rate of the link, Mb/s of frames.
    pub(crate) mbps: u64,
    /// RTT without queueing, us.
    pub(crate) base: u64,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u64,
    /// Segments per ACK.
    pub(crate) stretch: u32,
    /// Number of flows; they start one second apart.
    pub(crate) flows: u64,
    /// Sending time of each flow, s.
    pub(crate) seconds: u64,
    /// Target queueing delay, us.
    pub(crate) target: u64,
}

const fn setting(name: &'static str, mbps: u64, base: u64, mtu: u64, flows: u64, seconds: u64) -> Setting {
    let target = if mbps == 200 { 500 } else { 250 };
    Setting { name, mbps, base, mtu, stretch: 1, flows, seconds, target }
}

/// All experiments.
pub(crate) const SETTINGS: [Setting; 12] = [
    setting("1", 200, 300, 1500, 1, 10),
    setting("2", 200, 300, 1500, 2, 20),
    setting("3A", 200, 100, 1500, 8, 40),
    Setting { stretch: 2, ..setting("3B", 200, 100, 1500, 8, 40) },
    setting("4A", 600, 250, 1500, 16, 40),
    setting("4B", 600, 500, 1500, 16, 40),
    setting("4C", 600, 750, 1500, 16, 40),
    setting("4D", 600, 1000, 1500, 16, 40),
    setting("4E", 600, 250, 9000, 16, 40),
    setting("4F", 600, 500, 9000, 16, 40),
    setting("4G", 600, 750, 9000, 16, 40),
    setting("4H", 600, 1000, 9000, 16, 40),
];

/// Marking schemes of the bottleneck (ls-aimd 2.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marking {
    /// Adaptive marking by the average queue length.
    Ramp,
    /// Marking of all packets above a threshold.
    Step,
    /// Marking by the instantaneous queue length.
    Instantaneous,
}

impl Marking {
    /// Returns the matching ECN echo; the Reno family uses the classic one.
    fn echo(self) -> Ecn {
        if self == Marking::Ramp { Ecn::Classic } else { Ecn::Dctcp }
    }
}

impl Setting {
    /// Returns the rate on our wire at which a full packet takes as long as in the thesis.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bps(self.mbps * 1_000_000 * (self.mtu + WIRE) / (self.mtu + FRAME))
    }

    /// Returns the bytes sent on our wire in `us` microseconds.
    fn bytes(&self, us: u64) -> Bytes {
        self.rate().bytes_in(Duration::from_us(us as i64))
    }

    fn queue(&self, marking: Marking) -> QueueSpec {
        let limit = Some(self.rate().bytes_in(BUFFER));
        let min = self.bytes(self.target);
        match marking {
            Marking::Ramp => QueueSpec::Red(RedConfig {
                min,
                max: self.bytes(3 * self.target),
                probability: 0.1,
                adaptive: true,
                adaptation: ADAPTATION,
                ecn: true,
                burst: Some(if self.mbps == 200 { 20 } else { 31 }),
                packet: Bytes::new(1000),
                limit,
                packets: None,
            }),
            // The threshold must be at least two packets of 1500 bytes; all settings satisfy this.
            Marking::Step => QueueSpec::Step(StepConfig { threshold: min.into(), limit, packets: None }),
            Marking::Instantaneous => QueueSpec::Ramp(RampConfig {
                min,
                max: self.bytes(2 * self.target),
                probability: 1.0,
                limit,
                packets: None,
            }),
        }
    }

    /// Returns the one-way delay from the bottleneck to the receiver, and from there back to a sender.
    fn half(&self) -> Duration {
        Duration::from_ns(self.base as i64 * 500)
    }

    /// Returns the start of the measured time, one second after the last flow started (ls-aimd 4.1, E21).
    fn begin(&self, second: Duration) -> Instant {
        Instant::ZERO + second * self.flows as i64
    }

    /// Returns the end of the measured time: when the first flow stops, but at least one
    /// second after the start.
    fn end(&self, second: Duration) -> Instant {
        (self.begin(second) + second).max(Instant::ZERO + second * self.seconds as i64)
    }
}

/// Returns the numbers of the queueing delay in us, with five quantiles for a figure.
fn delays(waits: &Histogram) -> Measures {
    let mut numbers = named([
        ("mean", waits.mean().us()),
        ("deviation", waits.deviation().us()),
        ("p95", waits.quantile(0.95).us()),
        ("p99", waits.quantile(0.99).us()),
        ("max", waits.max().us()),
    ]);
    numbers.extend(QUANTILES.map(|(name, part)| (name.to_owned(), waits.quantile(part).us())));
    numbers
}

/// Returns the deviation of values relative to their mean, which is taken to be at least `least`.
fn spread(values: &[f64], least: f64) -> f64 {
    deviation(values) / mean(values).max(least)
}

/// Runs one experiment, with each of its seconds lasting `second`. Returns numbers of the time in which all
/// flows were active: of the queueing delay in us; of utilisation, also the lowest in any 10 ms, and marks,
/// as fractions; of the flows, the `spread` of their throughputs, and `unsteadiness`, that of one flow over
/// 10 ms; how often cwnd was at its minimum of two segments; the mean correlation of the windows of two
/// flows; and losses with timeouts, zero in all experiments.
pub(crate) fn run(
    setting: &Setting,
    marking: Marking,
    controller: Kind,
    seed: u64,
    second: Duration,
) -> Measures {
    let mut network = Network::new(seed);
    let half = setting.half();
    let queue_seed = random::generator(seed, "queue", 0).random();
    let rate = setting.rate();
    let queue = setting.queue(marking).build(Some(rate), queue_seed);
    let bottleneck = network.add_link(&LinkConfig::new(Service::Constant(rate), half, queue));
    let drop_tail = || QueueSpec::DropTail(DropTailConfig::default()).build(None, 0);
    let back = network.add_link(&LinkConfig::new(Service::Unlimited, half, drop_tail()));
    let flows: Vec<FlowId> = (0..setting.flows)
        .map(|flow| {
            let access = LinkConfig {
                jitter: SEND_JITTER.into(),
                ..LinkConfig::new(Service::Unlimited, Duration::ZERO, drop_tail())
            };
            let access = network.add_link(&access);
            let start = Instant::ZERO + second * flow as i64;
            network.add_tcp(&TcpConfig {
                start,
                stop: Some(start + second * setting.seconds as i64),
                mss: (setting.mtu - 52) as u32,
                ack: AckPolicy { every: setting.stretch, timeout: Duration::from_ms(40) },
                ecn: marking.echo(),
                burst: Burst::Single,
                ..TcpConfig::new(controller, vec![access, bottleneck], vec![back])
            })
        })
        .collect();
    network.run_until(setting.begin(second));
    network.reset_statistics();
    watch(&mut network, setting, bottleneck, &flows, setting.end(second))
}

fn watch(
    network: &mut Network,
    setting: &Setting,
    bottleneck: LinkId,
    flows: &[FlowId],
    end: Instant,
) -> Measures {
    let time = (end - network.now()).secs_f64();
    let (mut least, mut at_two) = (1.0_f64, 0.0);
    let mut windows: Vec<Vec<f64>> = vec![Vec::new(); flows.len()];
    let mut goodputs: Vec<Vec<f64>> = vec![Vec::new(); flows.len()];
    let mut delivered = vec![0; flows.len()];
    let mut sent = 0;
    while network.now() < end {
        let from = network.now();
        network.run_until((from + SAMPLE_INTERVAL).min(end));
        let capacity = setting.rate().bytes_in(network.now() - from).get() as f64;
        let now = network.link(bottleneck).statistics().served_tcp.bytes.get();
        least = least.min((now - sent) as f64 / capacity);
        sent = now;
        for (index, flow) in flows.iter().enumerate() {
            let flow = network.flow(*flow);
            windows[index].push(flow.window);
            goodputs[index].push((flow.delivered - delivered[index]) as f64);
            delivered[index] = flow.delivered;
            at_two += f64::from(u32::from(flow.cwnd <= 2));
        }
    }
    let samples = windows.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let statistics = network.link(bottleneck).statistics();
    let of = |flow: &FlowId| network.flow(*flow);
    let again: u64 = flows.iter().map(|flow| of(flow).retransmitted + of(flow).timeouts).sum();
    let shares: Vec<f64> = flows.iter().map(|flow| of(flow).delivered as f64).collect();
    let mut numbers = delays(&statistics.delay);
    numbers.extend(named([
        ("utilisation", sent as f64 * 8.0 / time / setting.rate().bps_f64()),
        ("least-utilisation", least),
        ("marked", statistics.marked as f64 / statistics.served_tcp.packets.max(1) as f64),
        ("spread", spread(&shares, 1.0)),
        ("unsteadiness", mean(&goodputs.iter().map(|flow| spread(flow, 1e-9)).collect::<Vec<f64>>())),
        ("at-two", at_two / samples),
        ("correlation", correlation(&windows)),
        ("losses", (statistics.dropped.packets + again) as f64),
    ]));
    numbers
}

/// Returns the mean correlation over all pairs of series; zero for a single series.
fn correlation(series: &[Vec<f64>]) -> f64 {
    // The variance of a sum is the sum of the variances plus twice all covariances.
    let standard: Vec<Vec<f64>> = series
        .iter()
        .filter_map(|values| {
            let (middle, width) = (mean(values), deviation(values));
            (width > 0.0).then(|| values.iter().map(|value| (value - middle) / width).collect())
        })
        .collect();
    let count = standard.len() as f64;
    let Some(length) = standard.first().map(Vec::len).filter(|_| standard.len() > 1) else { return 0.0 };
    let sums: Vec<f64> = (0..length).map(|i| standard.iter().map(|values| values[i]).sum()).collect();
    (deviation(&sums).powi(2) - count) / (count * (count - 1.0))
}
