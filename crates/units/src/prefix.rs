//! Prefixes of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::text::serde_as_text;

/// Addresses with the same beginning, written as in `192.0.2.0/24` or `2001:db8::/32`; without a
/// length, one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Returns all addresses whose first `bits` bits, at most 32 or 128, are those of `address`.
    pub fn around(address: IpAddr, bits: u8) -> Prefix {
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits.into())).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits.into())).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Prefix { address, bits: bits.min(length(address)) }
    }

    /// Returns the first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of bits that are the same.
    pub const fn bits(&self) -> u8 {
        self.bits
    }
}

/// Returns the number of bits of an address.
const fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl From<Ipv4Addr> for Prefix {
    /// Returns one address.
    fn from(address: Ipv4Addr) -> Prefix {
        Prefix { address: address.into(), bits: 32 }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("`{text}` is no prefix such as `192.0.2.0/24` or `2001:db8::/32`");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = length(address);
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse()).map_err(|_| wrong())?;
        if bits > most {
            return Err(format!("`{text}` has a length above {most}"));
        }
        let prefix = Prefix::around(address, bits);
        if prefix.address != address {
            return Err(format!("`{text}` has an address with bits behind its length; write `{prefix}`"));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

serde_as_text!(Prefix, "a prefix such as `192.0.2.0/24`", |prefix| prefix.to_string());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_reads_as_it_is_written() {
        for (text, written) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            (" 2001:db8:: / 32 ", "2001:db8::/32"),
            ("198.51.100.7", "198.51.100.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!(prefix.to_string(), written);
            let json = serde_json::to_string(&prefix).unwrap();
            assert_eq!(json, format!("\"{written}\""));
            assert_eq!(serde_json::from_str::<Prefix>(&json).unwrap(), prefix);
        }
    }

    #[test]
    fn a_mistake_is_told_with_what_to_write() {
        for (text, told) in [
            (
                "192.0.2.1/24",
                "`192.0.2.1/24` has an address with bits behind its length; write `192.0.2.0/24`",
            ),
            ("192.0.2.0/33", "`192.0.2.0/33` has a length above 32"),
            ("::/129", "`::/129` has a length above 128"),
            ("::/300", "`::/300` is no prefix such as `192.0.2.0/24` or `2001:db8::/32`"),
            ("example.org", "`example.org` is no prefix such as `192.0.2.0/24` or `2001:db8::/32`"),
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap_err(), told);
        }
    }

    #[test]
    fn what_is_around_an_address_begins_like_it() {
        let around = |address: &str, bits| Prefix::around(address.parse().unwrap(), bits).to_string();
        assert_eq!(around("192.0.2.200", 24), "192.0.2.0/24");
        assert_eq!(around("192.0.2.200", 0), "0.0.0.0/0");
        assert_eq!(around("192.0.2.200", 200), "192.0.2.200/32");
        assert_eq!(around("2001:db8:1:2ff::1", 56), "2001:db8:1:200::/56");
    }
}
