//! `headway serve`: answers measurements of other hosts until interrupted.

use crate::metrics::{MetricsArgs, Prepared};
use anyhow::{Context, Result};
use headway_net::{Counts, DEFAULT_PORT, Limits, Server, ServerConfig, ServerHandle, TlsServer};
use headway_privileges::Capability;
use headway_program::build::BUILD;
use headway_program::line_writer::LineWriter;
use headway_program::service::start_log_to;
use headway_program::{time, token};
use headway_units::{Bytes, Duration, Rate};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use tracing::info;

/// Arguments of `headway serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Listen only on this address; may be repeated [default: all addresses, IPv4 and IPv6].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    bind: Vec<IpAddr>,
    /// Listen on this port, TCP and UDP; 0 chooses a free one.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Accept only clients that know the token in this file, or in the variable HEADWAY_TOKEN.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    token_file: Option<PathBuf>,
    /// Encrypt the control connection with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Access")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Access")]
    tls_key: Option<PathBuf>,
    /// Most concurrent sessions.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().sessions, help_heading = "Limits")]
    max_sessions: usize,
    /// Most concurrent sessions from one network (IPv4 /24 or IPv6 /48).
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().sessions_per_network, help_heading = "Limits")]
    max_sessions_per_network: usize,
    /// Highest rate of streams to clients, such as `1 Gb/s` [default: 10 Gb/s].
    #[arg(long, value_name = "RATE", value_parser = some_rate, help_heading = "Limits")]
    max_rate: Option<Rate>,
    /// Most bytes of one session, such as `10 GB` [default: 100 GB].
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    max_session_bytes: Option<Bytes>,
    /// Longest session, such as `1 h` [default: 24 h].
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    max_session_time: Option<Duration>,
    /// Close sessions that are silent for this long [default: 2 min].
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    idle_timeout: Option<Duration>,
    /// Most packets of one stream.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().stream_packets, help_heading = "Limits")]
    max_stream_packets: u32,
    /// Interval at which to log the counters, if they changed; at least `1 s`.
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = report_period, help_heading = "Output")]
    report_every: Duration,
    #[command(flatten, next_help_heading = "Output")]
    metrics: MetricsArgs,
}

/// Minimum reporting interval: nobody reads more frequent reports, and zero would be a busy loop.
const MIN_PERIOD: Duration = Duration::from_ms(1000);

/// Parses an address, which may be in brackets if it is one of IPv6.
fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let wrong = |_| "not an address such as `192.0.2.7` or `2001:db8::7`; --port sets the port".to_owned();
    match bare {
        Some(inner) => inner.parse().map(IpAddr::V6).map_err(wrong),
        None => text.parse().map_err(wrong),
    }
}

/// Parses a rate above zero.
fn some_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    if rate == Rate::ZERO {
        return Err("must be above zero, such as `10 Mb/s`".to_owned());
    }
    Ok(rate)
}

/// Parses a reporting interval.
fn report_period(text: &str) -> Result<Duration, String> {
    let period: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if period < MIN_PERIOD {
        return Err(format!("must be at least {MIN_PERIOD}"));
    }
    Ok(period)
}

/// Serves until SIGINT or SIGTERM; a second signal ends the process at once.
pub(crate) fn run(args: &Args, json: bool) -> Result<()> {
    let config = configure(args)?;
    let metrics = Prepared::read(&args.metrics, args.token_file.as_deref())?;
    // The files with secrets have been read, and no thread has been started yet.
    headway_privileges::drop_all_but(needed(args.port))?;
    let output = Output::start(json)?;
    let fingerprint = config.tls.as_ref().map(TlsServer::fingerprint);
    let server = Server::bind(config).with_context(|| format!("cannot listen on port {}", args.port))?;
    let handle = server.handle();
    stop_on_signals(handle.clone())?;
    let _metrics = metrics.map(|metrics| metrics.of_server(handle.clone())).transpose()?;
    let (port, addresses) = (server.port(), server.addresses());
    info!(port, ?addresses, fingerprint, "listening");
    output.event(serde_json::json!({
        "event": "listening", "build": BUILD, "port": port, "addresses": addresses, "fingerprint": fingerprint,
    }));
    let (ended, end) = channel::<()>();
    let (every, out, reporting) = (args.report_every.to_std(), output.clone(), handle.clone());
    let reporter = std::thread::spawn(move || report_changes(&reporting, &end, every, &out));
    let result = server.run().context("serving failed");
    drop(ended);
    let _ = reporter.join();
    report("stopped", &handle, &output);
    output.finish();
    result
}

/// Ports below this one need a privilege (`net.ipv4.ip_unprivileged_port_start` of a host
/// that was not changed).
const UNPRIVILEGED: u16 = 1024;

/// Returns the privileges that a server uses if it has them: raw sockets when clients ask for probes by ICMP,
/// and sockets at a port of the system for every session.
fn needed(port: u16) -> &'static [Capability] {
    let all = &[Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE];
    if (1..UNPRIVILEGED).contains(&port) { all } else { &all[..1] }
}

/// The log and event output of a server. It may be full, closed or unread, which must not block the server or
/// the handling of signals.
#[derive(Clone, Debug)]
struct Output {
    log: LineWriter,
    /// Events as JSON, if requested.
    events: Option<LineWriter>,
}

impl Output {
    fn start(json: bool) -> Result<Output> {
        let log = LineWriter::start(std::io::stderr()).context("cannot start the log")?;
        let writer = log.clone();
        start_log_to(move || writer.clone(), "info")?;
        let events = json.then(|| LineWriter::start(std::io::stdout())).transpose();
        Ok(Output { log, events: events.context("cannot write to standard output")? })
    }

    /// Writes an event with its time.
    fn event(&self, mut event: serde_json::Value) {
        if let Some(mut events) = self.events.clone() {
            let now = time::now();
            event["at_unix_ns"] = now.ns().into();
            event["at_rfc3339"] = time::rfc3339(now).into();
            // `LineWriter::write` never fails.
            let _ = events.write_all(format!("{event}\n").as_bytes());
        }
    }

    /// Returns the number of lines that were not written.
    fn lost(&self) -> u64 {
        self.log.lost() + self.events.as_ref().map_or(0, LineWriter::lost)
    }

    fn finish(&self) {
        self.log.finish();
        self.events.iter().for_each(LineWriter::finish);
    }
}

/// Converts the arguments to a configuration.
fn configure(args: &Args) -> Result<ServerConfig> {
    let mut config = ServerConfig { port: args.port, ..ServerConfig::default() };
    if !args.bind.is_empty() {
        config.bind.clone_from(&args.bind);
    }
    config.token = token::read(args.token_file.as_deref())?;
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        config.tls = Some(TlsServer::from_files(certificate, key)?);
    }
    let limits = &mut config.limits;
    limits.sessions = args.max_sessions;
    limits.sessions_per_network = args.max_sessions_per_network;
    limits.stream_packets = args.max_stream_packets.min(Limits::default().stream_packets);
    limits.reverse_rate = args.max_rate.unwrap_or(limits.reverse_rate);
    limits.session_bytes = args.max_session_bytes.unwrap_or(limits.session_bytes);
    limits.session_time = args.max_session_time.map_or(limits.session_time, Duration::to_std);
    limits.idle = args.idle_timeout.map_or(limits.idle, Duration::to_std);
    Ok(config)
}

/// Stops the server on the first signal, and ends the process on the second.
fn stop_on_signals(handle: ServerHandle) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            handle.stop();
            info!("stopping");
        }
        if let Some(signal) = signals.next() {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Reports the counters periodically, until the sender of `end` is dropped.
fn report_changes(handle: &ServerHandle, end: &Receiver<()>, every: std::time::Duration, output: &Output) {
    let mut shown = Counts::default();
    while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let counts = handle.counts();
        if counts != shown {
            shown = counts;
            report("counters", handle, output);
        }
    }
}

/// Reports the counters, one line in the log and, if requested, one of JSON.
fn report(event: &str, handle: &ServerHandle, output: &Output) {
    let (counts, open, lost_lines) = (handle.counts(), handle.open_sessions(), output.lost());
    info!(open, lost_lines, ?counts, "{event}");
    output.event(serde_json::json!({
        "event": event, "open_sessions": open, "lost_lines": lost_lines, "counts": counts,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_brackets_but_no_port() {
        assert_eq!(address("[::1]"), Ok(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])));
        assert!(address("::1").is_ok() && address("192.0.2.7").is_ok());
        for wrong in ["192.0.2.7:4433", "[::1]:4433", "localhost", "[192.0.2.7]"] {
            assert!(address(wrong).is_err_and(|reason| reason.contains("--port sets the port")), "{wrong}");
        }
    }

    #[test]
    fn zero_rates_and_busy_reports_are_refused() {
        assert_eq!(some_rate("10 Mb/s"), Ok(Rate::from_bps(10_000_000)));
        assert!(some_rate("0 Mb/s").is_err() && some_rate("fast").is_err());
        assert_eq!(report_period("1 s"), Ok(MIN_PERIOD));
        assert!(report_period("0 s").is_err() && report_period("999 ms").is_err());
    }
}
