//! Long flows with a short RTT that share a link: the testbed of LS-AIMD (ls-aimd 4.1, 4.2).

mod in_world;

pub(crate) use in_world::{scenario, statistics};

use headway_control::Kind;
use headway_queue::{ADAPTATION, DropTailConfig, QueueSpec, RampConfig, RedConfig, StepConfig};
use headway_sim::config::{AckPolicy, Burst, Ecn, Service};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt as _;

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
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
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

    /// Returns the end of the measured time: when the first flow stops, but at least one second after the start.
    fn end(&self, second: Duration) -> Instant {
        (self.begin(second) + second).max(Instant::ZERO + second * self.seconds as i64)
    }
}

/// Statistics over the time in which all flows were active. Times in us, fractions of 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    /// 5th, 25th, 50th, 75th and 95th percentiles.
    pub(crate) quantiles: [f64; 5],
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) utilisation: f64,
    /// Lowest utilisation in any 10 ms.
    pub(crate) min_utilisation: f64,
    pub(crate) marked: f64,
    /// Standard deviation of the flows' throughputs, relative to their mean.
    pub(crate) spread: f64,
    /// The same for the throughputs of one flow over 10 ms, averaged over all flows.
    pub(crate) unsteadiness: f64,
    /// Fraction of samples in which a flow's cwnd was at its minimum of two segments.
    pub(crate) at_two: f64,
    /// Mean correlation of the windows of two flows; NaN where windows are only known in whole segments.
    pub(crate) correlation: f64,
    /// Packets dropped and retransmitted, and timeouts; zero in all experiments.
    pub(crate) losses: u64,
}

/// Runs one experiment, with each of its seconds lasting `second`.
pub(crate) fn run(
    setting: &Setting,
    marking: Marking,
    controller: Kind,
    seed: u64,
    second: Duration,
) -> Statistics {
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
) -> Statistics {
    let time = (end - network.now()).secs_f64();
    let mut stats = Statistics { min_utilisation: 1.0, ..Statistics::default() };
    let mut windows: Vec<Vec<f64>> = vec![Vec::new(); flows.len()];
    let mut goodputs: Vec<Vec<f64>> = vec![Vec::new(); flows.len()];
    let mut delivered = vec![0; flows.len()];
    let mut sent = 0;
    while network.now() < end {
        let from = network.now();
        network.run_until((from + SAMPLE_INTERVAL).min(end));
        let capacity = setting.rate().bytes_in(network.now() - from).get() as f64;
        let now = network.link(bottleneck).statistics().served_tcp.bytes.get();
        stats.min_utilisation = stats.min_utilisation.min((now - sent) as f64 / capacity);
        sent = now;
        for (index, flow) in flows.iter().enumerate() {
            let flow = network.flow(*flow);
            windows[index].push(flow.window);
            goodputs[index].push((flow.delivered - delivered[index]) as f64);
            delivered[index] = flow.delivered;
            stats.at_two += f64::from(u32::from(flow.cwnd <= 2));
        }
    }
    let samples = windows.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    stats.at_two /= samples;
    stats.utilisation = sent as f64 * 8.0 / time / setting.rate().bps_f64();
    let statistics = network.link(bottleneck).statistics();
    let delay = &statistics.delay;
    stats.mean = delay.mean().us();
    stats.deviation = delay.deviation().us();
    stats.quantiles = QUANTILES.map(|share| delay.quantile(share).us());
    stats.p95 = delay.quantile(0.95).us();
    stats.p99 = delay.quantile(0.99).us();
    stats.max = delay.max().us();
    stats.marked = statistics.marked as f64 / statistics.served_tcp.packets.max(1) as f64;
    let of = |flow: &FlowId| network.flow(*flow);
    let again: u64 = flows.iter().map(|flow| of(flow).retransmitted + of(flow).timeouts).sum();
    stats.losses = statistics.dropped.packets + again;
    let shares: Vec<f64> = flows.iter().map(|flow| of(flow).delivered as f64).collect();
    stats.spread = deviation(&shares) / mean(&shares).max(1.0);
    let steady: Vec<f64> = goodputs.iter().map(|flow| deviation(flow) / mean(flow).max(1e-9)).collect();
    stats.unsteadiness = mean(&steady);
    stats.correlation = correlation(&windows);
    stats
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
