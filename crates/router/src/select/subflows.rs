//! What TCP connections of this host get of each path while they always have something to send.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant as Clock;

use anyhow::{Context as _, Result};
use headway_telemetry::{Connection, Diagnosis};
use headway_units::{Bytes, Duration, Rate};

/// A connection always has something to send if that is so for this part of the time. Range 0.7 to 1.
const ALWAYS: f64 = 0.9;

/// The connections of this network namespace as they were when they were looked at.
#[derive(Debug)]
pub(super) struct Subflows {
    diagnosis: Diagnosis,
    at: Clock,
    /// Of each connection by its number.
    before: HashMap<u64, Connection>,
}

impl Subflows {
    /// Opens what the kernel is asked by.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open() -> Result<Subflows> {
        let diagnosis = Diagnosis::open().context("cannot list connections")?;
        Ok(Subflows { diagnosis, at: Clock::now(), before: HashMap::new() })
    }

    /// Returns the rate since the last look of what was sent from each address and acknowledged, if one of
    /// its connections always had something to send; 0 where the kernel does not tell.
    pub(super) fn look(&mut self) -> HashMap<IpAddr, Rate> {
        let Ok(dump) = self.diagnosis.dump() else { return HashMap::new() };
        let time = std::mem::replace(&mut self.at, Clock::now()).elapsed();
        let mut found: HashMap<IpAddr, (u64, bool)> = HashMap::new();
        for now in &dump.connections {
            let Some(before) = self.before.get(&now.cookie) else { continue };
            let (bytes, is_always) = found.entry(now.local.ip()).or_default();
            *bytes += now.info.bytes_acked().saturating_sub(before.info.bytes_acked());
            let busy = backlogged(now).saturating_sub(backlogged(before));
            *is_always |= busy as f64 >= ALWAYS * time.as_micros() as f64;
        }
        self.before = dump.connections.into_iter().map(|one| (one.cookie, one)).collect();
        let found = found.into_iter().filter(|(_, (_, is_always))| *is_always);
        found
            .filter_map(|(from, (bytes, _))| Some((from, Rate::of(Bytes::new(bytes), Duration::from(time))?)))
            .collect()
    }
}

/// Returns for how long the network has kept a connection from being faster, in us.
fn backlogged(one: &Connection) -> u64 {
    let held = one.info.window_limited_us().saturating_add(one.info.buffer_limited_us());
    one.info.busy_us().saturating_sub(held)
}
