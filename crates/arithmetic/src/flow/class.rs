//! Rules that give connections a class.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::Key;
use super::packet::words;

/// Most rules, each of which is looked at once for a new connection.
pub const MOST_RULES: usize = 64;
/// The class of a connection that meets no rule.
const NO_CLASS: u32 = u32::MAX;

/// What a connection must be to be of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rule {
    address: [u32; 4],
    mask: [u32; 4],
    codepoints: u64,
    first_port: u16,
    last_port: u16,
    version: u32,
    class: u32,
    unused: u32,
}

impl Rule {
    /// Returns the rule that every connection meets.
    pub const fn any(class: u32) -> Rule {
        Rule {
            address: [0; 4],
            mask: [0; 4],
            codepoints: u64::MAX,
            first_port: 0,
            last_port: u16::MAX,
            version: 0,
            class,
            unused: 0,
        }
    }

    /// Returns a rule that the port of the end that answered must be one of these, too.
    pub fn with_ports(self, ports: &RangeInclusive<u16>) -> Rule {
        Rule { first_port: *ports.start(), last_port: *ports.end(), ..self }
    }

    /// Returns a rule that the first `bits` of the address of an end must be these, too.
    pub fn with_prefix(self, address: IpAddr, bits: u8) -> Rule {
        let ones = |width: u8| u128::MAX.checked_shl(u32::from(width)).unwrap_or(0);
        let mask = ones(128 - bits.min(128)).to_be_bytes();
        let mask = words(IpAddr::from(mask));
        let found = words(address);
        Rule {
            address: std::array::from_fn(|word| found[word] & mask[word]),
            mask,
            version: if address.is_ipv4() { 4 } else { 6 },
            ..self
        }
    }

    /// Returns a rule that the code point of the SYN must be one of these, a bit each, too.
    pub const fn with_codepoints(self, codepoints: u64) -> Rule {
        Rule { codepoints, ..self }
    }
}

/// A list of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rules {
    count: u32,
    unused: u32,
    rule: [Rule; MOST_RULES],
}

unsafe extern "C" {
    safe fn flow_classify(rules: &Rules, key: &Key, client: u32, dscp: u32) -> u32;
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { count: 0, unused: 0, rule: [Rule::any(NO_CLASS); MOST_RULES] }
    }
}

impl Rules {
    /// Adds a rule behind the others; returns whether there was room.
    pub fn push(&mut self, rule: Rule) -> bool {
        let Some(free) = self.rule.get_mut(self.count as usize) else { return false };
        *free = rule;
        self.count += 1;
        true
    }

    /// Returns the class of the first rule that a connection meets, whose end `client` sent a SYN
    /// with this code point.
    pub fn classify(&self, key: &Key, client: usize, dscp: u8) -> Option<u32> {
        let class = flow_classify(self, key, (client & 1) as u32, u32::from(dscp));
        Some(class).filter(|class| *class != NO_CLASS)
    }
}
