//! Ports and prefixes as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
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

/// Addresses with the same beginning, written as in `192.0.2.0/24` or `2001:db8::/32`; without a length, one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Returns the first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of bits that are the same.
    pub const fn bits(&self) -> u8 {
        self.bits
    }
}

impl From<Ipv4Addr> for Prefix {
    /// Returns one address.
    fn from(address: Ipv4Addr) -> Prefix {
        Prefix { address: address.into(), bits: 32 }
    }
}

/// Returns the first address of those that begin like another.
fn first(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("`{text}` is no prefix such as `192.0.2.0/24` or `2001:db8::/32`");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse()).map_err(|_| wrong())?;
        if bits > most {
            return Err(format!("`{text}` has a length above {most}"));
        }
        let first = first(address, bits);
        if first != address {
            return Err(format!(
                "`{text}` has an address with bits behind its length; write `{first}/{bits}`"
            ));
        }
        Ok(Prefix { address, bits })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Prefix, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
