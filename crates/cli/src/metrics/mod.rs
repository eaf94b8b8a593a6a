//! `--metrics`: numbers for Prometheus, of commands that go on.

mod server;

use std::net::SocketAddr;
use std::path::PathBuf;

use headway_program::arguments::listen;
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
