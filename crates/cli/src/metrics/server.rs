//! What `headway serve` and `headway measure` tell Prometheus.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use headway_net::ServerHandle;
use headway_program::lines::{Direction, MeasureLine};
use headway_web::{MetricWriter, MetricsServer, Token};

use super::MetricsArgs;
use headway_program::token;

/// An address, and the token that was read while files of secrets could be.
pub(crate) struct Prepared {
    listen: SocketAddr,
    token: Option<Token>,
}

impl Prepared {
    /// Returns nothing if no metrics are wanted. The token of measurements, in that file or the
    /// environment, is refused.
    pub(crate) fn read(args: &MetricsArgs, measurements: Option<&Path>) -> Result<Option<Prepared>> {
        let Some(listen) = args.metrics else { return Ok(None) };
        let file = args.metrics_token_file.as_deref();
        let text = file.map(|file| token::in_plain_text(file, measurements)).transpose()?;
        Ok(Some(Prepared { listen, token: text.as_deref().map(Token::new) }))
    }

    /// Starts to serve the counters of a server of measurements.
    pub(crate) fn of_server(self, handle: ServerHandle) -> Result<MetricsServer> {
        self.start(move |out| write_server(&handle, out))
    }

    fn start(
        self,
        write: impl Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static,
    ) -> Result<MetricsServer> {
        let server = MetricsServer::start(self.listen, self.token, write).context("--metrics")?;
        tracing::info!("metrics are at http://{}/metrics", server.address());
        Ok(server)
    }
}

fn write_server(handle: &ServerHandle, out: &mut MetricWriter<'_>) -> fmt::Result {
    out.gauge("headway_serve_open_sessions", "Sessions that are open", handle.open_sessions() as f64)?;
    for (name, help, value) in handle.counts().named() {
        out.counter(&format!("headway_serve_{name}"), help.trim().trim_end_matches('.'), value)?;
    }
    Ok(())
}

/// Serves the last answer of a series of measurements, for each direction.
pub(crate) struct MeasureMetrics {
    sides: Arc<Mutex<[Side; 2]>>,
    _server: MetricsServer,
}

/// What is known of one direction.
#[derive(Default)]
struct Side {
    /// The last answer, even one without a rate.
    last: Option<MeasureLine>,
    measured: u64,
    failed: u64,
    probe_bytes: u64,
    control_bytes: u64,
    sent: u64,
    lost: u64,
}

impl MeasureMetrics {
    /// Starts to serve; there is nothing before the first answer.
    pub(crate) fn start(prepared: Prepared) -> Result<MeasureMetrics> {
        let sides = Arc::new(Mutex::new(<[Side; 2]>::default()));
        let read = Arc::clone(&sides);
        let write = move |out: &mut MetricWriter<'_>| {
            write_measurements(&read.lock().unwrap_or_else(PoisonError::into_inner), out)
        };
        Ok(MeasureMetrics { sides, _server: prepared.start(write)? })
    }

    /// Takes an answer.
    pub(crate) fn take(&self, line: MeasureLine) {
        let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        let side = &mut sides[index(line.direction)];
        side.measured += 1;
        side.failed += u64::from(line.available_bps.is_none());
        side.probe_bytes += line.probe_bytes;
        side.control_bytes += line.control_bytes;
        side.sent += line.packets_sent;
        side.lost += line.packets_lost;
        side.last = Some(line);
    }

    /// Counts measurements that failed before there was an answer. What was true before is not true now.
    pub(crate) fn fail(&self, directions: &[Direction]) {
        let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        for direction in directions {
            let side = &mut sides[index(*direction)];
            side.measured += 1;
            side.failed += 1;
            side.last = None;
        }
    }
}

fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::Reverse)
}

/// Number of microseconds and milliseconds in a second.
const US: f64 = 1e6;
const MS: f64 = 1e3;

/// A metric of the last answer: name, help, value.
type OfLast = (&'static str, &'static str, fn(&MeasureLine) -> Option<f64>);

fn bytes(bps: Option<u64>) -> Option<f64> {
    bps.map(MetricWriter::bytes_per_second)
}

const OF_LAST: [OfLast; 8] = [
    ("available_bytes_per_second", "Available bandwidth", |line| bytes(line.available_bps)),
    ("available_low_bytes_per_second", "Lower end of the 90 % interval", |line| {
        bytes(line.available_low_bps)
    }),
    ("available_high_bytes_per_second", "Upper end of the 90 % interval, if there is one", |line| {
        bytes(line.available_high_bps)
    }),
    ("capacity_bytes_per_second", "Capacity of the narrow link, if it is known", |line| {
        bytes(line.capacity_bps)
    }),
    ("rtt_seconds", "RTT of the control connection", |line| Some(line.rtt_us / US)),
    ("added_delay_seconds", "Median growth of the one-way delay during a stream", |line| {
        Some(line.added_delay_median_us / US)
    }),
    ("duration_seconds", "Time that the measurement took", |line| Some(line.duration_ms / MS)),
    ("finished_timestamp_seconds", "End of the measurement since 1970", |line| {
        Some(line.finished_unix_ns as f64 / 1e9)
    }),
];

/// A counter: name, help, value.
type Counted = (&'static str, &'static str, fn(&Side) -> u64);

const COUNTED: [Counted; 6] = [
    ("measurements", "Measurements", |side| side.measured),
    ("failures", "Measurements without a rate", |side| side.failed),
    ("probe_bytes", "Bytes of probes, on the wire", |side| side.probe_bytes),
    ("control_bytes", "Bytes of the control connection", |side| side.control_bytes),
    ("packets_sent", "Probe packets sent", |side| side.sent),
    ("packets_lost", "Probe packets lost", |side| side.lost),
];

fn write_measurements(sides: &[Side; 2], out: &mut MetricWriter<'_>) -> fmt::Result {
    let used = || ["forward", "reverse"].into_iter().zip(sides).filter(|(_, side)| side.measured > 0);
    for (name, help, value) in COUNTED {
        let each = used().map(|(direction, side)| ([("direction", direction)], value(side)));
        out.counters(&format!("headway_measure_{name}"), help, each)?;
    }
    let succeeded = |side: &Side| side.last.as_ref().is_some_and(|line| line.available_bps.is_some());
    let each =
        used().map(|(direction, side)| ([("direction", direction)], f64::from(u8::from(succeeded(side)))));
    out.gauges("headway_measure_success", "Whether the last measurement gave a rate, 0 or 1", each)?;
    for (name, help, value) in OF_LAST {
        let lasts = used().filter_map(|(direction, side)| Some((direction, value(side.last.as_ref()?)?)));
        let each = lasts.map(|(direction, value)| ([("direction", direction)], value));
        out.gauges(&format!("headway_measure_{name}"), help, each)?;
    }
    Ok(())
}
