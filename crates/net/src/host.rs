//! The host to measure, as users write it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A name or an address, and the port if the text has one: `HOST`, `HOST:PORT`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name or address, without brackets.
    pub name: String,
    /// The port, 1 to 65535.
    pub port: Option<u16>,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let text = text.trim();
        if text.contains('/') {
            return Err(format!("`{text}` is not a host; give a name or an address, without `//` and `/`"));
        }
        let (name, port) = match (text.strip_prefix('['), text.matches(':').count()) {
            (Some(inner), _) => {
                let (address, rest) = inner.split_once(']').ok_or("the bracket `[` has no `]`")?;
                check_v6(address)?;
                let port = rest.strip_prefix(':');
                if port.is_none() && !rest.is_empty() {
                    return Err(format!(
                        "`{rest}` follows the address; a port looks like `[{address}]:4433`"
                    ));
                }
                (address, port)
            }
            (None, 0) => (text, None),
            (None, 1) => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
            (None, _) => {
                check_v6(text)?;
                (text, None)
            }
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("`{text}` is not a host: give a name or an address"));
        }
        Ok(Host { name: name.to_owned(), port: port.map(read_port).transpose()? })
    }
}

/// Checks an IPv6 address, with or without the interface behind a percent sign.
fn check_v6(text: &str) -> Result<(), String> {
    let (address, _) = text.split_once('%').unwrap_or((text, ""));
    let wrong = |_| {
        format!(
            "`{text}` is not an IPv6 address; a port follows an address in brackets, as in `[2001:db8::1]:4433`"
        )
    };
    address.parse::<Ipv6Addr>().map(|_| ()).map_err(wrong)
}

fn read_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("`{text}` is not a port: 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_people_write_them() {
        for (text, name, port) in [
            ("example.org", "example.org", None),
            ("example.org:4433", "example.org", Some(4433)),
            ("192.0.2.7", "192.0.2.7", None),
            ("192.0.2.7:1", "192.0.2.7", Some(1)),
            ("2001:db8::1", "2001:db8::1", None),
            ("::1", "::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[::1]:65535", "::1", Some(65535)),
            ("[fe80::1%eth0]:4433", "fe80::1%eth0", Some(4433)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
        ] {
            assert_eq!(text.parse(), Ok(Host { name: name.to_owned(), port }), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "is not a host"),
            ("a b", "is not a host"),
            ("http://example.org", "without `//`"),
            ("example.org:http", "is not a port: 1 to 65535"),
            ("example.org:0", "is not a port"),
            ("example.org:65536", "is not a port"),
            ("example.org:", "is not a port"),
            (":4433", "is not a host"),
            ("[::1", "has no `]`"),
            ("[::1]4433", "a port looks like `[::1]:4433`"),
            ("[192.0.2.7]:4433", "is not an IPv6 address"),
            ("192.0.2.7:4433:1", "in brackets"),
        ] {
            let error = text.parse::<Host>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
