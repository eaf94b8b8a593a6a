//! `headway proxy`: connections end here, and others go on in their place.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use headway_net::Host;
use headway_privileges::Capability;
use headway_program::{out, print_line, time};
use headway_relay::{Counts, Ended, Leg, Loop, Options, Reason, Relay, Target, leads_back};
use headway_units::{Bytes, Duration};
use serde_json::{Value, json};

use headway_program::service::signals;

/// Longest time without a look at signals, and with `--json` between two states.
const ROUND: std::time::Duration = std::time::Duration::from_millis(100);
const EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// The least window: the kernel's floor is about one full segment, with which every second
/// ACK would come late.
const LEAST_WINDOW: u64 = 2 * 1460;
/// The largest window that TCP can announce (RFC 7323, section 2.3).
const MOST_WINDOW: u64 = 1 << 30;

/// Ends the connections of clients, and opens others to one target in their place (split TCP).
///
/// Each half of the path then has its own loss recovery, congestion controller and windows: losses on a
/// long half are repaired without the other, and a host behind a short half needs no large windows.
/// Bytes pass unchanged.
///
/// Any client that reaches LISTEN reaches the target, which sees the address of this host. So listen on
/// the address where the clients are, and not on all. Needs no root. Ctrl-C ends it and breaks the
/// connections that are open.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    headway proxy 192.0.2.1:8080 server.lan:80\n  \
    headway proxy 192.0.2.1:8080 10.0.0.2:80 --client-controller bbr --target-window 64kB")]
pub(crate) struct ProxyArgs {
    /// Address and port to listen on, such as `192.0.2.1:8080`; port 0 chooses a free one.
    listen: SocketAddr,
    /// The host to connect to, with its port: `HOST:PORT`. Its name is looked up once.
    target: Host,
    /// Congestion controller towards clients [default: the kernel's].
    #[arg(long, value_name = "NAME")]
    client_controller: Option<String>,
    /// Congestion controller towards the target [default: the kernel's].
    #[arg(long, value_name = "NAME")]
    target_controller: Option<String>,
    /// The largest receive window that clients see [default: the kernel's].
    #[arg(long, value_name = "SIZE", value_parser = window)]
    client_window: Option<u32>,
    /// The largest receive window that the target sees [default: the kernel's].
    #[arg(long, value_name = "SIZE", value_parser = window)]
    target_window: Option<u32>,
    /// Buffer of a connection in each direction, in addition to the kernel's.
    #[arg(long, default_value = "256 kB", value_name = "SIZE", value_parser = buffer)]
    buffer: usize,
    /// Most connections at a time; further clients wait.
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
    /// End connections that are silent for this long.
    #[arg(long, default_value = "1 h", value_name = "TIME")]
    idle: Duration,
}

fn window(text: &str) -> Result<u32, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if !(LEAST_WINDOW..=MOST_WINDOW).contains(&size.get()) {
        return Err(format!("it must be {} to {}", Bytes::new(LEAST_WINDOW), Bytes::new(MOST_WINDOW)));
    }
    u32::try_from(size.get()).map_err(|error| error.to_string())
}

fn buffer(text: &str) -> Result<usize, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    // Less would be a system call for every few packets, more would be memory for nobody.
    let (least, most) = (Bytes::new(4096), Bytes::new(64 << 20));
    if !(least..=most).contains(&size) {
        return Err(format!("it must be {least} to {most}"));
    }
    usize::try_from(size.get()).map_err(|error| error.to_string())
}

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When it cannot listen, or the target has no address.
pub(crate) fn run(args: &ProxyArgs, json: bool) -> Result<()> {
    let end = signals()?;
    end.set_nonblocking(true)?;
    let mut relay = Relay::listen(options(args)?)?;
    // The kernel asks for it where a controller is not one that everybody may choose.
    let keep: &[Capability] =
        if args.target_controller.is_some() { &[Capability::CAP_NET_ADMIN] } else { &[] };
    headway_privileges::drop_all_but(keep)?;
    relay.check()?;
    report_on(args, relay.addresses().first().copied().unwrap_or(args.listen), json);
    let mut said = std::time::Instant::now();
    while !is_over(&end)? && !out::is_closed() {
        for ended in relay.work(ROUND)? {
            report_ended(&ended, json);
        }
        if let Some(found) = relay.take_loop() {
            report_loop(found, json);
        }
        if json && said.elapsed() >= EVERY {
            said = std::time::Instant::now();
            print_line!("{}", object("state", counters(&relay.counts())));
        }
    }
    report_off(&relay.counts(), json);
    out::check()
}

fn options(args: &ProxyArgs) -> Result<Options> {
    let Some(port) = args.target.port else {
        bail!("the target {} has no port; say {}:PORT", args.target, args.target)
    };
    let found = (args.target.name.as_str(), port).to_socket_addrs();
    let target: Vec<SocketAddr> =
        found.with_context(|| format!("cannot find the target {}", args.target))?.collect();
    if target.iter().any(|target| leads_back(args.listen, *target)) {
        bail!("the target is where the proxy listens; it would connect to itself");
    }
    let leg = |controller: &Option<String>, window| Leg { controller: controller.clone(), window };
    Ok(Options {
        listen: vec![args.listen],
        target: Target::Host(target),
        legs: [
            leg(&args.client_controller, args.client_window),
            leg(&args.target_controller, args.target_window),
        ],
        buffer: args.buffer,
        connections: args.connections as usize,
        idle: args.idle.to_std(),
    })
}

/// Whether a signal has arrived.
fn is_over(mut end: &UnixStream) -> Result<bool> {
    match end.read(&mut [0]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}

fn report_on(args: &ProxyArgs, address: SocketAddr, json: bool) {
    if json {
        let said = json!({
            "listen": address,
            "target": args.target.name,
            "target_port": args.target.port,
            "buffer_bytes": args.buffer,
            "connections": args.connections,
        });
        print_line!("{}", object("on", said));
        return;
    }
    let port = args.target.port.unwrap_or_default();
    print_line!("passing connections from {address} on to {} port {port}; Ctrl-C ends it", args.target);
}

fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Complete => "complete",
        Reason::Broken => "broken",
        Reason::Unreachable => "target unreachable",
        Reason::Silent => "silent",
    }
}

fn report_ended(ended: &Ended, json: bool) {
    let [from, to] = ended.bytes;
    if json {
        let said = json!({
            "client": ended.client,
            "reason": name(ended.reason),
            "client_bytes": from,
            "target_bytes": to,
            "duration_ms": Duration::from(ended.time).ms(),
        });
        print_line!("{}", object("ended", said));
    } else if ended.reason == Reason::Unreachable {
        print_line!("{}: the target does not answer", ended.client);
    }
}

fn report_loop(found: Loop, json: bool) {
    let sentence = match found {
        Loop::Itself(target) => {
            format!(
                "the target {target} is this proxy itself; connections are refused, so give it another target"
            )
        }
        Loop::Over(client, places) => format!(
            "what goes to the target comes back from {client}, as between two proxies whose targets are each other; that address may \
             have {places} connections at a time for ten minutes"
        ),
    };
    if json {
        print_line!("{}", object("warning", json!({ "sentence": sentence })));
    } else {
        print_line!("{sentence}");
    }
}

fn counters(counts: &Counts) -> Value {
    let [complete, broken, unreachable, silent] = counts.ended;
    json!({
        "counters": {
            "accepted": counts.accepted,
            "open": counts.open,
            "complete": complete,
            "broken": broken,
            "target_unreachable": unreachable,
            "silent": silent,
            "client_bytes": counts.bytes[0],
            "target_bytes": counts.bytes[1],
        }
    })
}

fn report_off(counts: &Counts, json: bool) {
    if json {
        print_line!("{}", object("off", counters(counts)));
        return;
    }
    let [complete, broken, unreachable, silent] = counts.ended;
    print_line!(
        "{} connections: {complete} complete, {broken} broken, {unreachable} without an answer of the target, {silent} \
         silent, {} open at the end; {} from clients, {} from the target.",
        counts.accepted,
        counts.open,
        Bytes::new(counts.bytes[0]),
        Bytes::new(counts.bytes[1])
    );
}

/// Adds what kind of object it is, and its time.
fn object(event: &str, mut said: Value) -> Value {
    let now = time::now();
    said["event"] = event.into();
    said["at_unix_ns"] = now.ns().into();
    said["at_rfc3339"] = time::rfc3339(now).into();
    said
}
