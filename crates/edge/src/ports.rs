//! Ports as people write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Ports from one to another, written as a number or as in `"8000-8100"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

impl Ports {
    /// Returns the range.
    pub const fn range(&self) -> &RangeInclusive<u16> {
        &self.0
    }
}

impl From<u16> for Ports {
    /// Returns one port.
    fn from(port: u16) -> Ports {
        Ports(port..=port)
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Ports(first..=last)),
            (Ok(first), Ok(last)) => {
                Err(format!("`{text}` has no ports: the larger number comes last, `{last}-{first}`"))
            }
            _ => Err(format!("`{text}` is no port: a number from 0 to 65535, or two, such as `8000-8100`")),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ports, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Ports;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port such as 443, or ports such as `8000-8100`")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Ports, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Ports, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ports, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
