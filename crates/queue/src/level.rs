//! A length of a queue, in bytes or in packets.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Backlog;
use headway_units::Bytes;

/// A length of a queue: text such as `30 kB` or `65 packets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Wire bytes.
    Bytes(Bytes),
    /// Packets of any size.
    Packets(u32),
}

impl Level {
    /// Whether more than this is queued.
    pub(crate) fn is_exceeded(self, backlog: &Backlog) -> bool {
        match self {
            Level::Bytes(bytes) => backlog.bytes > bytes,
            Level::Packets(packets) => backlog.packets > packets,
        }
    }

    /// Returns the length in wire bytes, if packets take `full` each.
    pub fn bytes(self, full: Bytes) -> Bytes {
        match self {
            Level::Bytes(bytes) => bytes,
            Level::Packets(packets) => full * u64::from(packets),
        }
    }
}

impl From<Bytes> for Level {
    fn from(bytes: Bytes) -> Level {
        Level::Bytes(bytes)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Bytes(bytes) => f.pad(&format!("{} B", bytes.get())),
            Level::Packets(packets) => f.pad(&format!("{packets} packets")),
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let count = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"));
        match count {
            Some(count) => count
                .trim()
                .parse()
                .map(Level::Packets)
                .map_err(|_| format!("`{text}` is not a number of packets such as `65 packets`")),
            None => text
                .parse()
                .map(Level::Bytes)
                .map_err(|error| format!("{error}; or packets, as in `65 packets`")),
        }
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_reads_back_as_it_prints() {
        for (text, level) in [
            ("30 kB", Level::Bytes(Bytes::new(30_000))),
            ("65 packets", Level::Packets(65)),
            ("1 packet", Level::Packets(1)),
        ] {
            assert_eq!(text.parse(), Ok(level));
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = "30 packages".parse::<Level>().unwrap_err();
        assert!(
            error.contains("units are B, kB") && error.ends_with("or packets, as in `65 packets`"),
            "{error}"
        );
        assert!("many packets".parse::<Level>().unwrap_err().contains("`65 packets`"));
    }
}
