//! Translates delays, rates and queue disciplines into `tc` commands.

use headway_queue::{
    ADAPTATION, CodelConfig, FqCodelConfig, PieConfig, QueueSpec, RampConfig, RedConfig, StepConfig,
};
use headway_scenario::{Buffer, LinkSpec};
use headway_units::{Bytes, ConfigError, Duration, Rate, WIRE_OVERHEAD};

use crate::plan::{PlannedNode, PlannedRed, PlannedRouter};

/// Wire overhead besides the IP packet and the Ethernet header, which the kernel counts itself; in bytes.
const STAB: u64 = WIRE_OVERHEAD.get() - 14;
/// Packet limit of stages that must not drop.
const UNLIMITED: u32 = 100_000_000;
/// The kernel's timer tick.
const TICK: Duration = Duration::from_ms(1);
/// Handle of the discipline below `tbf`.
const DISCIPLINE: u32 = 0x20_0000;
/// Class of `tbf` that is the parent of [`DISCIPLINE`].
const DISCIPLINE_CLASS: u32 = 0x10_0001;
/// A rate that does not limit. Given a rate, `netem` keeps packets in order and spaces them enough for
/// timers to tell them apart.
const ANY_RATE: Rate = Rate::from_bps(1_000_000_000_000);

/// A discipline that releases every packet at the departure time it carries.
pub(crate) const RELEASE: &str = "fq limit 10000000 flow_limit 10000000 timer_slack 0";

/// Installs the delay, rate and discipline of direction `index`, which belongs to link `number`, on `device`;
/// `full` is the wire size of a full packet.
pub(crate) fn install(
    (number, index): (usize, usize),
    spec: &LinkSpec,
    device: &str,
    fixed: Duration,
    full: Bytes,
    node: &mut PlannedNode,
) -> Result<(), ConfigError> {
    check(number, spec)?;
    let delay = |fixed| delay(device, fixed);
    let Some(rate) = spec.rate else {
        if fixed > Duration::ZERO {
            node.tc.push(delay(fixed));
        }
        return Ok(());
    };
    // `netem` passes on packets that come together one by one, so the first has left the queue when
    // the next needs space.
    let fixed = (fixed - ANY_RATE.time_for(full)).max(Duration::ZERO);
    node.tc.push(delay(fixed) + &format!(" rate {}bit", ANY_RATE.bps()));
    let buffer = spec.buffer_at(rate);
    let queue = spec.queue.clone().map(|queue| match buffer {
        Buffer::Bytes(bytes) => queue.with_default_limits(Some(bytes), None),
        Buffer::Packets(packets) => queue.with_default_limits(None, Some(packets)),
    });
    if let Some(router) = queue.as_ref().and_then(|queue| router(index, queue, rate, device)) {
        node.routers.push(router);
        return Ok(());
    }
    let burst = spec.burst.unwrap_or(full).get();
    let bucket = |limit: u32| {
        let rate = rate.bps();
        let peak = spec
            .peak_rate
            .map_or_else(String::new, |peak| format!(" peakrate {}bit mtu {}", peak.bps(), full.get()));
        format!(
            "qdisc add dev {device} parent 1:1 handle 10: tbf rate {rate}bit burst {burst}{peak} limit {limit}"
        )
    };
    let below = |line: &str| format!("qdisc add dev {device} parent 10:1 handle 20: {line}");
    if let Some(queue) = &spec.kernel_queue {
        node.tc.extend([bucket(u32::MAX), below(&queue.to_string())]);
        return Ok(());
    }
    let limits = Limits::new(queue.as_ref(), buffer, full, spec.burst.is_none());
    let bytes = limits.bytes.map_or(u32::MAX, whole);
    node.tc.push(bucket(bytes));
    let line = match &queue {
        None | Some(QueueSpec::DropTail(_)) => limits.packets.map(|packets| format!("pfifo limit {packets}")),
        Some(QueueSpec::Red(config)) => {
            node.red.push(red(config, &limits, device));
            None
        }
        Some(QueueSpec::Codel(config)) => Some(codel(config, &limits)),
        Some(QueueSpec::Pie(config)) => Some(pie(config, &limits)),
        Some(QueueSpec::FqCodel(config)) => Some(fq_codel(config, &limits)),
        Some(QueueSpec::Step(config)) => {
            node.red.push(step(config, &limits, device));
            None
        }
        Some(QueueSpec::Ramp(config)) => {
            node.red.push(ramp(config, &limits, device));
            None
        }
        // Rejected before.
        Some(_) => None,
    };
    node.tc.extend(line.map(|line| below(&line)));
    Ok(())
}

/// Returns the command that delays packets on `device`.
fn delay(device: &str, fixed: Duration) -> String {
    let fixed = time(fixed);
    format!(
        "qdisc add dev {device} root handle 1: stab overhead {STAB} linklayer ethernet netem limit {UNLIMITED} delay {fixed}"
    )
}

/// Whether a link has neither bursts nor a discipline that must see every packet.
pub(crate) fn is_plain(spec: &LinkSpec) -> bool {
    let is_explicit = spec.queue.as_ref().is_some_and(|queue| queue.explicit().is_some());
    spec.burst.is_none() && spec.peak_rate.is_none() && spec.kernel_queue.is_none() && !is_explicit
}

/// Installs delay and rate of link `number` on `device`, in a direction where nothing queues. `netem` adds to
/// the delay the time in which it transmits each packet, one after the other.
pub(crate) fn install_for_acks(
    number: usize,
    spec: &LinkSpec,
    device: &str,
    rate: Rate,
    node: &mut PlannedNode,
) -> Result<(), ConfigError> {
    check(number, spec)?;
    node.tc.push(delay(device, spec.delay) + &format!(" rate {}bit", rate.bps()));
    Ok(())
}

/// Returns the link with its router, if the discipline is an explicit router.
fn router(index: usize, queue: &QueueSpec, rate: Rate, device: &str) -> Option<PlannedRouter> {
    let (law, config) = queue.explicit()?;
    let (limit, packets) = queue.limits();
    Some(PlannedRouter {
        device: device.to_owned(),
        direction: u32::try_from(index).unwrap_or(u32::MAX),
        rate,
        limit,
        packets,
        config: config.at_rate(law, Some(rate)).to_bytes().to_vec(),
    })
}

/// Whether the kernel, or a module of ours, has this discipline.
fn is_in_linux(queue: &QueueSpec) -> bool {
    let simple = matches!(
        queue,
        QueueSpec::DropTail(_)
            | QueueSpec::Red(_)
            | QueueSpec::Codel(_)
            | QueueSpec::Pie(_)
            | QueueSpec::FqCodel(_)
            | QueueSpec::Step(_)
            | QueueSpec::Ramp(_)
    );
    simple || queue.explicit().is_some()
}

/// Rejects what the kernel cannot do; errors name the key.
fn check(number: usize, spec: &LinkSpec) -> Result<(), ConfigError> {
    let red = |queue: &QueueSpec| match queue {
        QueueSpec::Red(config) => config.adaptive && config.adaptation != ADAPTATION,
        _ => false,
    };
    let explicit = spec.queue.as_ref().and_then(QueueSpec::explicit);
    let rules = [
        (
            "queue.kind",
            matches!(spec.queue, Some(QueueSpec::Classes(_))),
            "the kernel's routers serve one class of senders; use `--on sim`",
        ),
        (
            "queue.kind",
            spec.queue.as_ref().is_some_and(|queue| !is_in_linux(queue)),
            "Linux 6.12 has no such queue; use `--on sim`",
        ),
        (
            "queue.police",
            explicit.is_some_and(|(_, config)| config.police.is_some()),
            "the kernel's routers do not check senders; use `--on sim`",
        ),
        (
            "burst",
            explicit.is_some() && spec.burst.is_some(),
            "an explicit router sends no bursts in the kernel; use `--on sim`",
        ),
        (
            "queue.adaptation",
            spec.queue.as_ref().is_some_and(red),
            "the kernel adapts RED every 500 ms only; use `--on sim` for other intervals",
        ),
        (
            "jitter",
            spec.jitter.as_uniform().is_none(),
            "`--on uml` has uniform jitter only; use `--on sim` or `--on lab`",
        ),
    ];
    match rules.iter().find(|(_, wanted, _)| *wanted) {
        Some((key, _, what)) => Err(ConfigError::new(&format!("link[{number}].{key}"), what)),
        None => Ok(()),
    }
}

/// Returns the `netem` discipline for random loss, delay and reordering; `None` if the link has none of them.
pub(crate) fn random_stage(spec: &LinkSpec) -> Option<String> {
    let mut line = format!("netem limit {UNLIMITED}");
    let jitter = spec.jitter.most();
    if jitter > Duration::ZERO {
        // Uniform between zero and the jitter.
        let half = time(Duration::from_ns(jitter.ns() / 2));
        line += &format!(" delay {half} {half}");
    }
    if spec.loss > 0.0 {
        line += &format!(" loss random {}%", spec.loss * 100.0);
    }
    if jitter > Duration::ZERO && !spec.reordering {
        line += &format!(" rate {}bit", ANY_RATE.bps());
    }
    (jitter > Duration::ZERO || spec.loss > 0.0).then_some(line)
}

/// Formats a time for `tc` in microseconds. Adds a fraction of a nanosecond, because `tc`
/// truncates what rounding left.
fn time(time: Duration) -> String {
    format!("{}.{:03}4us", time.ns() / 1000, time.ns() % 1000)
}

/// Limits of a queue below `tbf`. `tbf` has already dequeued the packet in transmission, so the limits are
/// one packet smaller than in the scenario.
struct Limits {
    bytes: Option<Bytes>,
    packets: Option<u32>,
    full: Bytes,
    /// The packet in transmission while others wait.
    sending: Bytes,
}

impl Limits {
    /// Returns the limits of a discipline, or of `buffer` if there is none. `steady` says that packets take
    /// time to be sent; otherwise they wait for tokens and leave at once.
    fn new(queue: Option<&QueueSpec>, buffer: Buffer, full: Bytes, steady: bool) -> Limits {
        let (bytes, packets) = queue.map_or(
            match buffer {
                Buffer::Bytes(bytes) => (Some(bytes), None),
                Buffer::Packets(packets) => (None, Some(packets)),
            },
            QueueSpec::limits,
        );
        let sending = if steady { full } else { Bytes::ZERO };
        Limits {
            // At least a full packet, because every packet passes through the queue.
            bytes: bytes.map(|bytes| Bytes::new(bytes.get().saturating_sub(sending.get())).max(full)),
            packets: packets.map(|packets| packets.saturating_sub(u32::from(steady)).max(1)),
            full,
            sending,
        }
    }

    /// Converts a queue length of the scenario to the length that the kernel sees.
    fn seen(&self, length: Bytes) -> u32 {
        whole(Bytes::new(length.get().saturating_sub(self.sending.get())))
    }

    /// The limit in packets, for disciplines that count packets.
    fn in_packets(&self) -> u32 {
        let full = self.bytes.map(|bytes| whole(Bytes::new(bytes.get() / self.full.get())).max(1));
        self.packets.or(full).unwrap_or(UNLIMITED)
    }

    /// The limit in bytes, for disciplines that count bytes.
    fn in_bytes(&self) -> u32 {
        let full = self.packets.map(|packets| self.full * u64::from(packets));
        self.bytes.or(full).map_or(u32::MAX, whole)
    }
}

fn whole(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

fn fq_codel(config: &FqCodelConfig, limits: &Limits) -> String {
    let us = |time: Duration| time.ns() / 1000;
    format!(
        "fq_codel limit {} flows {} quantum {} target {}us interval {}us {}",
        limits.in_packets(),
        config.flows,
        config.quantum.get(),
        us(config.target),
        us(config.interval),
        if config.ecn { "ecn" } else { "noecn" },
    )
}

fn codel(config: &CodelConfig, limits: &Limits) -> String {
    let ecn = if config.ecn { "ecn" } else { "noecn" };
    let us = |time: Duration| time.ns() / 1000;
    let (target, interval) = (us(config.target), us(config.interval));
    format!("codel limit {} target {target}us interval {interval}us {ecn}", limits.in_packets())
}

fn pie(config: &PieConfig, limits: &Limits) -> String {
    let us = |time: Duration| time.ns() / 1000;
    let ecn = if config.ecn_threshold > 0.0 { "ecn" } else { "noecn" };
    // A kernel timer set for n ticks fires at tick n + 1.
    let update = (config.update - TICK).max(TICK);
    let (target, update) = (us(config.target), us(update));
    format!("pie limit {} target {target}us tupdate {update}us {ecn}", limits.in_packets())
}

fn red(config: &RedConfig, limits: &Limits, device: &str) -> PlannedRed {
    PlannedRed {
        limit: limits.in_bytes(),
        min: limits.seen(config.min).max(1),
        max: limits.seen(config.max).max(2),
        probability: config.probability,
        // Computed from the scenario's thresholds, not from the reduced ones.
        weight_log: config.weight_log().unwrap_or(0),
        adaptive: config.adaptive,
        ecn: config.ecn,
        ..place(device, limits)
    }
}

fn step(config: &StepConfig, limits: &Limits, device: &str) -> PlannedRed {
    // A packet is marked if it finds more than the threshold queued.
    let threshold = limits.seen(config.threshold.bytes(limits.full)).saturating_add(1);
    PlannedRed { min: threshold, max: threshold, probability: 1.0, ..place(device, limits) }
}

fn ramp(config: &RampConfig, limits: &Limits, device: &str) -> PlannedRed {
    let (min, max) = (limits.seen(config.min), limits.seen(config.max));
    // The kernel spaces marks evenly: the gap between two marks is uniform up to 1/p packets, half as long on
    // average. Independent decisions would leave 1/p packets on average.
    PlannedRed { min, max, probability: config.probability / 2.0, ..place(device, limits) }
}

fn place(device: &str, limits: &Limits) -> PlannedRed {
    PlannedRed {
        device: device.to_owned(),
        parent: DISCIPLINE_CLASS,
        handle: DISCIPLINE,
        limit: limits.bytes.map_or(u32::MAX, whole),
        probability: 1.0,
        ecn: true,
        ..PlannedRed::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Bytes = Bytes::new(1538);

    #[test]
    fn the_packet_that_is_being_sent_has_left_the_kernels_queue() {
        let limits = Limits::new(None, Buffer::Bytes(FULL * 8), FULL, true);
        assert_eq!((limits.bytes, limits.seen(FULL * 5)), (Some(FULL * 7), 4 * 1538));
        assert_eq!(Limits::new(None, Buffer::Packets(8), FULL, true).packets, Some(7));
        // A packet waiting for tokens is still in the queue.
        let bucket = Limits::new(None, Buffer::Bytes(FULL * 8), FULL, false);
        assert_eq!((bucket.bytes, bucket.seen(FULL)), (Some(FULL * 8), 1538));
    }

    #[test]
    fn red_has_the_weight_and_the_wishes_of_the_scenario() {
        let config = RedConfig {
            min: Bytes::new(18_750),
            max: Bytes::new(56_250),
            probability: 0.1,
            adaptive: true,
            adaptation: ADAPTATION,
            ecn: true,
            burst: Some(31),
            packet: Bytes::new(1000),
            limit: Some(Bytes::new(15_000_000)),
            packets: None,
        };
        // A jumbo frame is half of `min`, which must not make the average slower.
        for full in [FULL, Bytes::new(9038)] {
            let spec = QueueSpec::Red(config.clone());
            let limits = Limits::new(Some(&spec), Buffer::Packets(1), full, true);
            let red = red(&config, &limits, "l0-0a");
            assert_eq!((red.weight_log, red.adaptive, red.ecn), (4, true, true));
            assert_eq!(u64::from(red.min), 18_750 - full.get());
            assert_eq!((red.max - red.min, u64::from(red.limit)), (37_500, 15_000_000 - full.get()));
        }
    }

    #[test]
    fn the_smallest_queue_has_room_for_what_is_sent_next() {
        let limits = |buffer| Limits::new(None, buffer, FULL, true);
        assert_eq!(limits(Buffer::Bytes(FULL)).bytes, Some(FULL));
        assert_eq!(limits(Buffer::Packets(1)).packets, Some(1));
        assert_eq!(limits(Buffer::Bytes(FULL)).seen(Bytes::new(1_000)), 0);
    }
}
