//! `--metrics`: numbers for Prometheus, of commands that go on.

#[cfg_attr(not(feature = "web"), path = "without_web.rs")]
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub(crate) use server::{MeasureMetrics, Prepared};

/// Where numbers can be fetched.
#[derive(Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Serve metrics to Prometheus at `http://ADDR/metrics`; a port alone is one of 127.0.0.1.
    #[arg(long, value_name = "ADDR", value_parser = listen)]
    pub(crate) metrics: Option<SocketAddr>,
    /// File with the token for fetching them, which an address that other hosts reach needs.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
}

/// Parses an address with its port, or a port.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
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
