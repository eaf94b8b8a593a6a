//! What a lab has of a scenario: the ranges of its values, and the NICs of its hosts.

use std::ops::RangeInclusive;

use headway_host::nic::Coalescing;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate};

use crate::model::{FlowSpec, HostSpec, LinkSpec, Scenario, TrafficSpec, Wire};
use crate::route::Topology;

/// Rates in a lab. Its emulator has one thread, which cannot keep up with more, by far.
const RATES: RangeInclusive<Rate> = Rate::from_bps(1_000)..=Rate::from_bps(10_000_000_000);
const RATE_RULE: &str = "must lie between 1 kb/s and 10 Gb/s in a lab";
/// The largest buffer: frames that wait are in memory.
const MAX_BUFFER: Bytes = Bytes::new(1_000_000_000);
const MAX_DELAY: Duration = Duration::from_ms(10_000);
const MAX_JITTER: Duration = Duration::from_ms(1_000);
/// Beyond it the machine, not the path, would limit the flows.
const MAX_FLOWS: u64 = 100;
/// The shortest intervals of a truth log, and of what the ends of flows say of themselves.
const LEAST_INTERVAL: Duration = Duration::from_ms(1);
const LEAST_SAMPLED: Duration = Duration::from_ms(10);
/// Kinds of TCP options for experiments (RFC 4727).
const OPTION_KINDS: [u8; 2] = [253, 254];
/// Protocols that hosts use, and extension headers of IPv6: hop-by-hop options, ICMP, IGMP, TCP, UDP,
/// routing, fragments, ICMPv6, no next header, destination options.
const TAKEN_PROTOCOLS: [u8; 10] = [0, 1, 2, 6, 17, 43, 44, 58, 59, 60];

/// Whether a lab, and its nodes and links, can have this name: 1 to 32 letters, digits, `-`, `_` or `.`, not
/// starting with a dot.
pub fn is_lab_name(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    !name.is_empty() && name.len() <= 32 && !name.starts_with('.') && letters
}

impl Scenario {
    /// Rejects values that only a lab does not have, and NICs that it cannot have.
    pub(crate) fn check_lab(&self) -> Result<(), ConfigError> {
        check("mtu", (1280..=9000).contains(&self.mtu), "must lie between 1280 and 9000 bytes in a lab")?;
        let least = if self.flow.is_empty() { LEAST_INTERVAL } else { LEAST_SAMPLED };
        let rule = "must be at least 1 ms in a lab, and 10 ms in one where flows run";
        check("interval", self.interval >= least, rule)?;
        let free = !TAKEN_PROTOCOLS.contains(&self.header_protocol);
        let rule = "must be the number of no other protocol: 253 and 254 are for experiments";
        check("header-protocol", free, rule)?;
        let rule = "must be 253 or 254, the kinds of TCP options for experiments";
        check("header-option", OPTION_KINDS.contains(&self.header_option), rule)?;
        let flows = self.flow_count();
        check("flow", flows <= MAX_FLOWS, &format!("are {flows} flows; a lab runs at most {MAX_FLOWS}"))?;
        for (index, link) in self.link.iter().enumerate() {
            self.check_lab_link(&format!("link[{index}]"), link)?;
        }
        for (index, traffic) in self.traffic.iter().enumerate() {
            let right = traffic.traffic.mean_rate().is_none_or(|rate| RATES.contains(&rate));
            check(&format!("traffic[{index}].rate"), right, RATE_RULE)?;
        }
        self.check_lab_nics()
    }

    fn check_lab_link(&self, table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
        let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
        let rule = "must be 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot";
        check("name", link.name.as_deref().is_none_or(is_lab_name), rule)?;
        let policed = link.police.map(|policer| policer.rate);
        let rates = [
            ("rate", link.rate),
            ("peak-rate", link.peak_rate),
            ("line", link.line),
            ("police.rate", policed),
            // A slow one costs nothing.
            ("trace", link.trace.as_ref().map(|trace| trace.mean_rate().max(*RATES.start()))),
        ];
        for (key, rate) in rates {
            check(key, rate.is_none_or(|rate| RATES.contains(&rate)), RATE_RULE)?;
        }
        let all = link.rates.iter().flat_map(|rates| rates.list()).all(|(_, rate)| RATES.contains(&rate));
        check("rates", all, "must have rates between 1 kb/s and 10 Gb/s in a lab")?;
        check("delay", link.delay <= MAX_DELAY, "must be at most 10 s in a lab")?;
        let wires = [("jitter", link.wire(false)), ("reverse.jitter", link.wire(true))];
        for (key, Wire { jitter, .. }) in wires {
            let Some((part, rule)) = jitter.mistake(MAX_JITTER) else { continue };
            check(&format!("{key}{part}"), false, &format!("{rule} in a lab"))?;
        }
        let small = |rate| link.buffer_at(rate).bytes(self.mtu) <= MAX_BUFFER;
        check("buffer", link.queue_rate().is_none_or(small), "must be at most 1 GB in a lab")
    }

    /// Returns the direction whose queue a source of traffic occupies in a lab.
    ///
    /// # Errors
    /// Names the source if its path has no link with a rate, or several.
    pub fn lab_queue(&self, topology: &Topology, source: usize) -> Result<usize, ConfigError> {
        let TrafficSpec { from, to, via, .. } = &self.traffic[source];
        let wrong = |reason: &str| ConfigError::new(&format!("traffic[{source}].to"), reason);
        let path = topology.route(from, to, via).map_err(|reason| wrong(&reason))?;
        let limited = |lane: &usize| self.link[topology.directions()[*lane].link].is_limited();
        let mut limited = path.into_iter().filter(limited);
        match (limited.next(), limited.next()) {
            (Some(lane), None) => Ok(lane),
            _ => Err(wrong(
                "traffic of a lab occupies the queue of one link with a rate, and its path has none or several",
            )),
        }
    }

    /// Returns the interrupt coalescing of a host's NIC in a lab, which holds up all
    /// packets that arrive there.
    pub fn lab_nic(&self, host: &str) -> Option<Coalescing> {
        let host = self.host.get(host)?;
        host.coalescing.or(host.ack_coalescing)
    }

    /// Rejects hosts that want only a part of what arrives there held up.
    pub(crate) fn check_lab_nics(&self) -> Result<(), ConfigError> {
        for (name, HostSpec { coalescing, ack_coalescing }) in &self.host {
            let gets = |end: fn(&FlowSpec) -> &String| self.flow.iter().any(|flow| end(flow) == name);
            let (key, other) = match (coalescing, ack_coalescing) {
                (Some(segments), Some(acks)) if segments != acks => ("ack-coalescing", "coalescing"),
                (Some(_), None) if gets(|flow| &flow.from) => ("coalescing", "ack-coalescing"),
                (None, Some(_)) if gets(|flow| &flow.to) => ("ack-coalescing", "coalescing"),
                _ => continue,
            };
            let rule = format!("needs the same `{other}` in a lab: the NIC there holds up all packets");
            return Err(ConfigError::new(&format!("host.{name}.{key}"), &rule));
        }
        Ok(())
    }
}
