//! What is left of metrics in a build without a server of pages: the reason why there are none.

use std::path::Path;

use anyhow::{Result, bail};
use headway_net::ServerHandle;
use headway_program::lines::{Direction, MeasureLine};

use super::MetricsArgs;

/// Nothing, because there is no server.
pub(crate) struct Prepared;

impl Prepared {
    /// Refuses metrics.
    pub(crate) fn read(args: &MetricsArgs, _: Option<&Path>) -> Result<Option<Prepared>> {
        match args.metrics {
            Some(_) => bail!("--metrics is not in this build; build with `--features web`"),
            None => Ok(None),
        }
    }

    /// Starts nothing.
    pub(crate) fn of_server(self, _: ServerHandle) -> Result<()> {
        Ok(())
    }
}

/// Nothing, because there is no server.
pub(crate) struct MeasureMetrics;

impl MeasureMetrics {
    /// Starts nothing.
    pub(crate) fn start(_: Prepared) -> Result<MeasureMetrics> {
        Ok(MeasureMetrics)
    }

    /// Keeps nothing.
    pub(crate) fn take(&self, _: MeasureLine) {}

    /// Counts nothing.
    pub(crate) fn fail(&self, _: &[Direction]) {}
}
