//! Values of arguments that commands of several programs take.

use std::net::{Ipv4Addr, SocketAddr};

use headway_units::Rate;

/// Parses a rate above zero.
///
/// # Errors
/// What is wrong with it.
pub fn some_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    if rate > Rate::ZERO { Ok(rate) } else { Err("it must be more than 0".to_owned()) }
}

/// Parses an address with its port, or a port, which is one of 127.0.0.1.
///
/// # Errors
/// What it should be.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| "not an address such as `127.0.0.1:9187`, `[::1]:9187` or `9187`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_host_only() {
        assert_eq!(listen("9187"), Ok(SocketAddr::from(([127, 0, 0, 1], 9187))));
        assert!(listen("[::1]:1").is_ok() && listen("0.0.0.0:9187").is_ok());
        for wrong in ["", "localhost:1", "127.0.0.1", "65536", ":80"] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }
}
