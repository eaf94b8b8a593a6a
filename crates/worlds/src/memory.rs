//! Memory available to runs.

use headway_units::Bytes;

use crate::error::Error;
use anyhow::Context as _;

/// Returns three quarters of the memory that the system can provide without swapping.
///
/// # Errors
/// When the system does not report it.
pub fn available() -> Result<Bytes, Error> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    let kibibytes = kibibytes.context("/proc/meminfo does not say what is available: give --memory")?;
    Ok(Bytes::new(kibibytes * 1024 / 4 * 3))
}
