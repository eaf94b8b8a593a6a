//! Explicit routers: XCP, XCP-b, self-tuning kappa, ErrorS, WXCP and RCP (xcp-rcp 2).

use headway_arithmetic::explicit::{self, Config, ExplicitQueue, Fault, Format, Law, ONE, Record, flags};
use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::police::Police;
use super::published::Published;
use super::{Backlog, Discipline, Packet, Verdict};
use crate::QueueSpecError;
use crate::explicit::{Header, Heard, VERSION_RCP, VERSION_XCP};
use headway_units::{Bytes, Duration, Instant, Rate, WIRE_OVERHEAD};

/// Bytes of a full IP packet.
const PACKET: u64 = 1500;
/// Most flows that can be checked at a time.
const MOST_SLOTS: u32 = 65_536;

/// When a self-tuning kappa takes the link for under-utilised (xcp-rcp 2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detector {
    /// The queue is empty (xcp-rcp 2.9: D1).
    Empty,
    /// It was empty for `n` intervals (xcp-rcp 2.9: D2).
    EmptyForN,
    /// The average queue is below a share of `kappa` (xcp-rcp 2.9: D3).
    LowAverage,
}

/// What kappa and Qmax count (xcp-rcp 2.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Packets: as many as the bytes of the keys are packets of 1500 B, rounded up.
    Packets,
}

/// Parameters of an explicit router; absent ones have the published values of its law (xcp-rcp 1.7).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExplicitConfig {
    /// The capacity that the router believes in, counting wire bytes; default the rate of the
    /// link, with `rates` that at time zero, with a trace its mean. Zero is unknown, which only
    /// laws that need none accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Rate>,
    /// Queue that laws without a capacity aim at, or the least one where it tunes itself; default 6 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<Bytes>,
    /// The largest queue that these laws reckon with, Qmax; default 20 kB, with `xcp-kappa` 75 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_max: Option<Bytes>,
    /// What these two count; default `bytes`.
    #[serde(default)]
    pub unit: QueueUnit,
    /// Control intervals with an empty queue before the link counts as under-utilised, 0 to 64; default 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// How that is detected where kappa tunes itself; default `low-average`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<Detector>,
    /// Gain of the spare capacity, above 0 and up to 1; default 0.4, with ErrorS 0.6, with WXCP 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Gain of the queue, above 0 and up to 1; default 0.226, with ErrorS 0.2, with WXCP 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// Share of the input that is shuffled, so that rates converge, 0 to 1; default 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    /// Gain of the error that ErrorS integrates, 0 to 1; default 0.15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psi: Option<f64>,
    /// XCP-b's gain of an empty queue; default the most, 1 / (5 - alpha - beta).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chi: Option<f64>,
    /// Weight of the newest queue where kappa tunes itself, above 0 and up to 1; default 0.22.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
    /// Whether an interval grants no more than its feedback; default yes (xcp-rcp 2.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residues: Option<bool>,
    /// RCP's smallest rate; default 800 b/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_min: Option<Rate>,
    /// RCP's longest control interval, tau; default the average RTT (xcp-rcp 2.12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_max: Option<Duration>,
    /// The shortest control interval, 1 us to 1 s; default 5 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_min: Option<Duration>,
    /// RTT without queues, for the measures against surges; default 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_rtt: Option<Duration>,
    /// Whether RCP raises beta while the number of flows grows fast; default no (xcp-rcp 2.13).
    #[serde(default)]
    pub raise_beta: bool,
    /// Whether RCP grants new flows the smallest rate meanwhile; default no.
    #[serde(default)]
    pub admission: bool,
    /// Whether the law is the published one, without repairs, or which parts of it are; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Bytes that the router adds to each IP packet when it counts; default 38 B, as links count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Bytes>,
    /// Flows that the router checks at a time for what they say and send; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<u32>,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl ExplicitConfig {
    /// Checks the parameters for a law. Without a capacity of its own it depends on the link,
    /// which is not known here.
    pub(super) fn validate(&self, law: Law) -> Result<(), QueueSpecError> {
        for (key, share) in [
            ("alpha", self.alpha),
            ("beta", self.beta),
            ("gamma", self.gamma),
            ("psi", self.psi),
            ("chi", self.chi),
            ("rho", self.rho),
        ] {
            crate::require(
                share.is_none_or(|share| (0.0..=1.0).contains(&share)),
                key,
                "must be from 0 to 1",
            )?;
        }
        crate::require(
            self.police.is_none_or(|slots| (1..=MOST_SLOTS).contains(&slots)),
            "police",
            "must be from 1 to 65536",
        )?;
        self.published.as_ref().map_or(Ok(()), |published| published.validate(law))?;
        // On the fastest link every other parameter is within its range that is so on any.
        self.config(law, None)
            .check()
            .map_err(|fault| QueueSpecError { key: key(fault).into(), reason: reason(fault) })
    }

    /// Returns alpha, the gain of the spare capacity: that of the law unless the parameters have one.
    pub fn alpha(&self, law: Law) -> f64 {
        self.alpha.unwrap_or(f64::from(Config::new(law, 1, 1).alpha) / f64::from(ONE))
    }

    /// Returns the configuration of the C code for a link of `rate`, with a smallest rate that is
    /// not above the largest.
    pub fn at_rate(&self, law: Law, rate: Option<Rate>) -> Config {
        let mut config = self.config(law, rate);
        let most = if law == Law::Rcp { config.capacity } else { config.line };
        config.rate_min = config.rate_min.min(most);
        config
    }

    /// Returns the configuration of the C code for a link of `rate`, as the parameters have it.
    fn config(&self, law: Law, rate: Option<Rate>) -> Config {
        let link = rate.unwrap_or(Rate::from_bps(explicit::LARGEST * 8));
        let bytes_per_s = |rate: Rate| (rate.bps() / 8).min(explicit::LARGEST);
        // Only a capacity in the file may be unknown.
        let carried = bytes_per_s(link).max(1);
        let believed = self.capacity.map_or(carried, bytes_per_s);
        let line = carried.max(believed);
        let mut config = Config::new(law, believed, line);
        config.overhead = self.overhead.unwrap_or(WIRE_OVERHEAD).get().min(u32::MAX.into()) as u32;
        let sized = |bytes: Bytes| match self.unit {
            QueueUnit::Bytes => bytes.get(),
            QueueUnit::Packets => bytes.get().div_ceil(PACKET),
        };
        let set = |place: &mut u64, value: Option<u64>| *place = value.unwrap_or(*place);
        config.kappa = sized(self.kappa.unwrap_or(Bytes::new(config.kappa)));
        config.queue_max = sized(self.q_max.unwrap_or(Bytes::new(config.queue_max)));
        set(&mut config.rate_min, self.rate_min.map(|rate| rate.bps() / 8));
        let ns = |time: Duration| time.ns().unsigned_abs();
        set(&mut config.update_limit, self.interval_max.map(ns));
        set(&mut config.interval_min, self.interval_min.map(ns));
        set(&mut config.base_rtt, self.base_rtt.map(ns));
        let share = |place: &mut u32, value: Option<f64>| {
            *place = value.map_or(*place, |value| (value * f64::from(ONE)).round() as u32);
        };
        share(&mut config.alpha, self.alpha);
        share(&mut config.beta, self.beta);
        share(&mut config.gamma, self.gamma);
        share(&mut config.psi, self.psi);
        share(&mut config.chi, self.chi);
        share(&mut config.rho, self.rho);
        config.n = self.n.unwrap_or(config.n);
        config.detector = match self.detector {
            None => config.detector,
            Some(Detector::Empty) => explicit::Detector::Empty,
            Some(Detector::EmptyForN) => explicit::Detector::EmptyForN,
            Some(Detector::LowAverage) => explicit::Detector::LowAverage,
        };
        let mut flag = |flag: u32, on: bool| {
            config.flags = if on { config.flags | flag } else { config.flags & !flag };
        };
        flag(flags::RESIDUES, self.residues.unwrap_or(true));
        flag(flags::PACKETS, self.unit == QueueUnit::Packets);
        flag(flags::RAISE_BETA, self.raise_beta);
        flag(flags::ADMISSION, self.admission);
        config.flags |= self.published.as_ref().map_or(0, |published| published.flags(law));
        config
    }
}

/// Returns the key of a parameter that is out of range.
fn key(fault: Fault) -> String {
    match fault {
        Fault::Line => "capacity".to_owned(),
        Fault::QueueMax => "q-max".to_owned(),
        Fault::UpdateLimit => "interval-max".to_owned(),
        Fault::Law | Fault::Flags => "raise-beta".to_owned(),
        other => other.key().replace('_', "-"),
    }
}

/// Returns what a parameter out of range violates.
fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::Kappa => "must not be above `q-max`",
        Fault::Flags => "and `admission` need RCP with a capacity",
        other => other.range(),
    }
}

/// Rewrites congestion headers; drops what does not fit and headers of a version or format
/// that it does not serve.
#[derive(Clone, Debug)]
pub struct Explicit {
    limit: Limit,
    queue: ExplicitQueue,
    /// Bytes and packets that wait, without the one in transmission: IP packets, without overhead.
    waiting: (u64, u32),
    /// One for each control interval since the last call of [`Explicit::take_records`]; `None` unless wanted.
    records: Option<Vec<Record>>,
    /// Checks senders, where the flow of a packet is known.
    police: Option<Box<Police>>,
}

impl Explicit {
    /// Creates the queue of a link of `rate` at time `start`; `seed` shifts its timers. The
    /// parameters must be valid.
    ///
    /// # Panics
    /// With invalid parameters: [`QueueSpec::validate`](super::QueueSpec::validate) refuses them.
    pub(super) fn new(
        config: &ExplicitConfig,
        law: Law,
        rate: Option<Rate>,
        seed: u64,
        start: Instant,
    ) -> Explicit {
        let queue = ExplicitQueue::new(&config.at_rate(law, rate), start.ns(), (seed >> 32) as u32);
        Explicit {
            limit: Limit::new(config.limit, config.packets),
            queue: queue.expect("validated parameters"),
            waiting: (0, 0),
            records: None,
            police: config.police.map(|slots| Box::new(Police::new(slots, law.is_rate()))),
        }
    }

    /// Takes over packets that already wait: `bytes` of IP packets.
    pub(super) fn with_waiting(mut self, bytes: u64, packets: u32) -> Explicit {
        self.waiting = (bytes, packets);
        self
    }

    /// Adopts other parameters, another law or another rate of the link at `now`; what the laws before and
    /// after have in common stays (xcp-rcp F25, F42). The parameters must be valid.
    ///
    /// # Panics
    /// With invalid parameters: [`QueueSpec::validate`](super::QueueSpec::validate) refuses them.
    pub(super) fn adopt(&mut self, config: &ExplicitConfig, law: Law, rate: Option<Rate>, now: Instant) {
        self.advance(now);
        self.limit = Limit::new(config.limit, config.packets);
        self.queue.set_config(&config.at_rate(law, rate)).expect("validated parameters");
        let is_kept = self.police.as_ref().is_some_and(|police| police.is_like(config.police, law.is_rate()));
        if !is_kept {
            self.police = config.police.map(|slots| Box::new(Police::new(slots, law.is_rate())));
        }
    }

    /// Takes over a packet that already waits: of `size` on the wire.
    pub(super) fn take_over(&mut self, size: Bytes) {
        self.waiting = (self.waiting.0 + u64::from(ip_bytes(size)), self.waiting.1 + 1);
    }

    /// Makes the router believe in `capacity`, in B/s, which must not exceed the one that it was built with;
    /// one below RCP's smallest rate becomes that.
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        let mut config = *self.queue.config();
        config.capacity = capacity.max(config.rate_min).max(1);
        // Every other parameter was valid before.
        let _ = self.queue.set_config(&config);
    }

    /// Notes what the MAC has counted until `now`, if the law asks for it.
    pub(crate) fn hear(&mut self, now: Instant, heard: &Heard) {
        if self.queue.config().law == Law::Wxcp {
            self.advance(now);
            self.queue.hear(heard);
        }
    }

    /// Returns the version of the headers that the router serves.
    pub(crate) fn version(&self) -> u8 {
        if self.queue.config().law.is_rate() { VERSION_RCP } else { VERSION_XCP }
    }

    /// Keeps a record of every control interval from now on.
    pub(crate) fn keep_records(&mut self) {
        self.records.get_or_insert_default();
    }

    /// Returns the records of the control intervals that ended since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        self.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs the timers that fell due by `now`.
    fn advance(&mut self, now: Instant) {
        if self.queue.due() <= now.ns() {
            self.run_timers(now);
        }
    }

    #[inline(never)]
    fn run_timers(&mut self, now: Instant) {
        let (bytes, packets) = self.waiting;
        while let Some(event) = self.queue.run_timer(bytes, packets, now.ns()) {
            if event != explicit::Event::Controlled {
                continue;
            }
            if let Some(records) = &mut self.records {
                records.push(*self.queue.record());
            }
            if let Some(police) = &mut self.police {
                police.end_interval(self.queue.record());
            }
        }
    }

    /// Returns the header of an arriving packet as it counts, and whether the packet may pass; `None`
    /// if nothing checks it.
    fn check(&mut self, now: Instant, ip: u32, header: &Header, flow: Option<u32>) -> Option<(Header, bool)> {
        let (police, flow) = self.police.as_mut().zip(flow)?;
        if header.format != Format::Standard as u8 {
            return None;
        }
        let (x, passes) = police.on_arrival(flow, now.ns(), ip, (header.rtt, header.x));
        Some((Header { x, ..*header }, passes))
    }
}

/// Returns the size of the IP packet in a packet of `size` bytes on the wire.
fn ip_bytes(size: Bytes) -> u32 {
    u32::try_from(size.get().saturating_sub(WIRE_OVERHEAD.get())).unwrap_or(u32::MAX)
}

impl Discipline for Explicit {
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        self.advance(now);
        let ip = ip_bytes(packet.size);
        let header = packet.header.as_deref();
        let accepted = match header.and_then(|header| self.check(now, ip, header, packet.flow)) {
            None => self.queue.arrive(header, ip) == explicit::Verdict::Accepted,
            // What a check drops is no demand that others should make room for.
            Some((counted, passes)) => {
                passes && self.queue.arrive(Some(&counted), ip) == explicit::Verdict::Accepted
            }
        };
        if !accepted {
            return Verdict::Drop;
        }
        if !self.limit.admits(backlog, packet.size) {
            self.queue.drop_packet();
            return Verdict::Drop;
        }
        self.waiting = (self.waiting.0 + u64::from(ip), self.waiting.1 + 1);
        Verdict::Accept
    }

    fn on_departure(&mut self, now: Instant, _: &Backlog, _: Duration, packet: &mut Packet<'_>) -> Verdict {
        self.advance(now);
        let ip = ip_bytes(packet.size);
        self.waiting = (self.waiting.0.saturating_sub(ip.into()), self.waiting.1.saturating_sub(1));
        let (bytes, packets) = self.waiting;
        match (self.police.as_mut().zip(packet.flow), packet.header.as_deref_mut()) {
            (Some((police, flow)), Some(header)) if header.format == Format::Standard as u8 => {
                let said = header.x;
                header.x = police.spacing(flow, said);
                self.queue.depart(Some(header), ip, bytes, packets);
                header.x = said;
                police.on_grant(flow, header.delta());
            }
            (_, header) => _ = self.queue.depart(header, ip, bytes, packets),
        }
        Verdict::Accept
    }

    fn judges_departures(&self) -> bool {
        true
    }

    fn delays_departures(&self) -> bool {
        false
    }
}
