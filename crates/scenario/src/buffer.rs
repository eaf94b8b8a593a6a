//! The limit of a queue, as scenarios give it.

use std::fmt;
use std::str::FromStr;

use headway_units::{Bytes, Duration, WIRE_OVERHEAD};
use serde::{Deserialize, Deserializer};

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// A limit in wire bytes.
    Bytes(Bytes),
    /// A limit in packets of any size.
    Packets(u32),
}

/// The limit of a queue, as scenarios give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSize {
    /// A limit in bytes or packets.
    Limit(Buffer),
    /// The longest time that a packet waits at the link's rate. Behind a token bucket the bytes of a full
    /// bucket, which need not wait, come on top, as with `latency` of the kernel's `tbf`.
    Latency(Duration),
}

impl Buffer {
    /// Returns the approximate capacity in wire bytes, assuming full packets of `mtu` IP bytes.
    pub fn bytes(self, mtu: u32) -> Bytes {
        match self {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Packets(packets) => (Bytes::new(u64::from(mtu)) + WIRE_OVERHEAD) * u64::from(packets),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffer::Bytes(bytes) => bytes.fmt(f),
            Buffer::Packets(packets) => f.pad(&format!("{packets} packets")),
        }
    }
}

impl FromStr for Buffer {
    type Err = String;

    /// Reads `250 kB` or `100 packets`.
    fn from_str(text: &str) -> Result<Buffer, String> {
        let packets = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"));
        let wrong = || format!("`{text}` is not a buffer such as `250 kB` or `100 packets`");
        match packets {
            Some(count) => count.trim().parse().map(Buffer::Packets).map_err(|_| wrong()),
            None => text.parse().map(Buffer::Bytes).map_err(|_| wrong()),
        }
    }
}

impl FromStr for BufferSize {
    type Err = String;

    /// Reads `250 kB`, `100 packets` or `50 ms`.
    fn from_str(text: &str) -> Result<BufferSize, String> {
        let limit = text.parse().map(BufferSize::Limit);
        limit.or_else(|_: String| text.parse().map(BufferSize::Latency)).map_err(|_| {
            format!(
                "`{text}` is not a buffer such as `250 kB`, `100 packets` or, as a time at the rate, `50 ms`"
            )
        })
    }
}

impl<'de> Deserialize<'de> for BufferSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BufferSize, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
