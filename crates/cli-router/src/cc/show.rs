//! `headway cc list`, `status` and `stats`.

use std::time::Duration;

use anyhow::Result;
use headway_kernel::{
    Arrivals, Carrier, Changed, ChangedRoutes, Controller, Counters, CpuTime, EndCounters, Ends, Error,
    FormerDefault, Loaded, LsOptions, Note, Notes, RapidCounters, RapidFlow, Remains, StampCounters,
    StampOptions, available, counters, cpu_time, current_default, enable_timing, killed, rapid_flows,
    running, stamp_counters,
};
use headway_units::Rate;
use serde::Serialize;
use serde_json::{Value, json};

use super::stop::{describe_changed, describe_killed, describe_left, describe_routes};
use headway_program::print_error;
use headway_program::service::print_line;

/// How long calls are timed.
const TIMED: Duration = Duration::from_secs(1);

/// Warns users other than root, who cannot read the notes of other programs.
fn warn_unprivileged() {
    if !nix::unistd::geteuid().is_root() {
        print_error!("headway: run it with sudo to see which controllers are on");
    }
}

pub(super) fn list(json: bool) -> Result<()> {
    warn_unprivileged();
    let running = running();
    let on = |controller| running.iter().filter(move |note| note.controller == controller);
    if json {
        let all = Controller::ALL.map(|controller| {
            json!({
                "controller": controller,
                "name": controller.name(),
                "summary": controller.summary(),
                "on": on(controller).map(|note| &note.name).collect::<Vec<_>>(),
            })
        });
        print_line(json!(all));
        return Ok(());
    }
    for controller in Controller::ALL {
        let state = if on(controller).next().is_some() { " (on)" } else { "" };
        print_line(format_args!("{:9} {}{state}", controller.command(), controller.summary()));
    }
    Ok(())
}

pub(super) fn status(json: bool) -> Result<()> {
    warn_unprivileged();
    let (left, interfaces, routes) = left_behind()?;
    let (running, killed) = (running(), killed());
    let (default, available) = (current_default()?, available()?);
    if json {
        let killed = killed.iter().map(|note| Ok(Killed { note, kernel: Remains::of(note)? }));
        let killed: Vec<Killed<'_>> = killed.collect::<Result<_>>()?;
        print_line(json!({
            "default": default,
            "available": available,
            "on": running,
            "left_behind": killed,
            "defaults_left_behind": left,
            "interfaces_left_behind": interfaces,
            "routes_left_behind": routes,
        }));
        return Ok(());
    }
    print_line(format_args!("default of this network namespace: {default}"));
    // The kernel keeps a default whose program has ended, also one without a note.
    if !available.contains(&default) && !killed.iter().any(|note| note.name == default) {
        print_line(format_args!(
            "new connections here get {default}, although no program has it on; `sysctl -w \
             net.ipv4.tcp_congestion_control=cubic` gives them another"
        ));
    }
    if running.is_empty() {
        print_line("no program of Headway has a controller on");
    }
    for note in &running {
        print_line(describe(note));
    }
    for note in &killed {
        print_line(describe_killed(note)?);
    }
    for former in &left {
        print_line(describe_left(former)?);
    }
    for changed in &interfaces {
        print_line(describe_changed(changed)?);
    }
    for changed in &routes {
        print_line(describe_routes(changed)?);
    }
    Ok(())
}

/// The note of a killed program, and what the kernel does with its controller.
#[derive(Serialize)]
struct Killed<'a> {
    #[serde(flatten)]
    note: &'a Note,
    kernel: Remains,
}

/// Returns the defaults, interfaces and routes left behind by killed programs, and removes the notes of
/// network namespaces that are gone; none for users other than root, who cannot see them.
fn left_behind() -> Result<(Vec<FormerDefault>, Vec<Changed>, Vec<ChangedRoutes>)> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(Default::default());
    }
    let mut notes = Notes::lock()?;
    notes.remove_gone()?;
    Ok((notes.left_behind()?, notes.interfaces_left_behind(), notes.routes_left_behind()))
}

fn describe(note: &Note) -> String {
    let mut text = format!("{} is on (process {})", note.name, note.pid);
    if matches!(note.controller, Controller::LsDctcp | Controller::LsReno) {
        let LsOptions { delta, scale, floor } = note.options;
        let scale = match scale {
            0 => "auto".to_owned(),
            scale => (f64::from(scale) / f64::from(LsOptions::SCALE_ONE)).to_string(),
        };
        text += &format!(": delta {delta}, scale {scale}, floor {floor} B");
    }
    if let Some(ends) = &note.ends {
        let role = if ends.receives_only { ", answers senders only" } else { "" };
        text += &format!(": {}{role}", describe_carrier(ends));
    }
    if let Some(rapid) = &note.rapid {
        let names: Vec<&str> = rapid.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        text += &format!(": {}; single segments at {}", rapid.parameters, names.join(", "));
    }
    if let Some(options) = &note.stamps {
        text += &format!(": {}", describe_stamps(options));
    }
    if let Some(default) = &note.default {
        text += &format!("; made the default, before it was {}", default.former);
    }
    text
}

/// Describes whose ACKs are stamped.
pub(super) fn describe_stamps(options: &StampOptions) -> String {
    let port = options.port.map(|port| format!(" of port {port}")).unwrap_or_default();
    let to = options.to.map(|to| format!(" with {to}")).unwrap_or_default();
    format!("ACKs of connections{port}{to} tell when segments arrived")
}

/// Describes what carries the header, and where.
pub(super) fn describe_carrier(ends: &Ends) -> String {
    match ends.options.carrier {
        Carrier::Protocol => {
            let names: Vec<&str> = ends.interfaces.iter().map(|interface| interface.name.as_str()).collect();
            format!("header in packets of {}, protocol {}", names.join(", "), ends.options.protocol)
        }
        Carrier::TcpOption => format!("header in TCP, option {}", ends.options.kind),
    }
}

/// Says why no connections of TCP Rapid stand below its counters.
const UNLISTED: &str = "  connections are not listed: this kernel refuses the program that reads them, \
                        as it does in lockdown mode `confidentiality`; boot it with `lockdown=integrity`";

pub(super) fn stats(timed: bool, json: bool) -> Result<()> {
    warn_unprivileged();
    let running = running();
    let before: Vec<Vec<CpuTime>> = running.iter().map(|note| cpu_time(&note.programs)).collect();
    if timed {
        let _timing = enable_timing()?;
        std::thread::sleep(TIMED);
    }
    let mut all = Vec::new();
    for (note, before) in running.iter().zip(before) {
        let times = if timed { called(cpu_time(&note.programs), &before) } else { Vec::new() };
        let flows = match note.controller {
            Controller::Rapid if note.stamps.is_some() => Some(Vec::new()),
            Controller::Rapid => rapid_flows(&note.programs)?,
            _ => None,
        };
        all.push((note, Totals::of(note)?, flows, times));
    }
    if json {
        print_line(Value::from_iter(all.iter().map(|(note, totals, flows, times)| {
            let times = timed.then_some(times);
            json!({
                "name": note.name,
                "open": totals.open(),
                "counters": totals,
                "flows": flows,
                "costs": times,
            })
        })));
        return Ok(());
    }
    if all.is_empty() {
        print_line("no controller of Headway is on");
    }
    for (note, totals, flows, times) in all {
        print_line(format_args!("{} (process {})", note.name, note.pid));
        print_line(totals.describe());
        match flows {
            Some(flows) => flows.iter().for_each(|flow| print_line(describe_flow(flow))),
            None if note.controller == Controller::Rapid => print_line(UNLISTED),
            None => {}
        }
        for CpuTime { program, calls, nanoseconds } in times {
            print_line(format_args!("  {program:16} {calls} calls, {} ns each", nanoseconds / calls));
        }
    }
    Ok(())
}

/// The counters of an instance.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Totals {
    Plain(Counters),
    Ends(EndCounters),
    Rapid(RapidCounters),
    Stamps(StampCounters),
}

impl Totals {
    fn of(note: &Note) -> Result<Totals, Error> {
        let map = note.counters_map;
        Ok(match note.controller {
            _ if note.stamps.is_some() => Totals::Stamps(stamp_counters(map)?),
            Controller::Rapid => Totals::Rapid(counters(map)?),
            _ if note.ends.is_some() => Totals::Ends(counters(map)?),
            _ => Totals::Plain(counters(map)?),
        })
    }

    /// Returns the counters of a controller of this process that needs no programs at interfaces.
    pub(super) fn of_loaded(loaded: &Loaded, controller: Controller) -> Result<Totals, Error> {
        Ok(match controller {
            Controller::Rapid => Totals::Rapid(loaded.rapid_counters()?),
            _ => Totals::Plain(loaded.counters()?),
        })
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Totals::Plain(counters) => describe_counters(counters),
            Totals::Ends(counters) => describe_end_counters(counters),
            Totals::Rapid(counters) => describe_rapid_counters(counters),
            Totals::Stamps(counters) => describe_stamp_counters(counters),
        }
    }

    /// Returns the number of connections that have the controller now; a receiver has none.
    fn open(&self) -> u64 {
        match self {
            Totals::Plain(counters) => counters.open(),
            Totals::Ends(counters) => counters.open(),
            Totals::Rapid(counters) => counters.open(),
            Totals::Stamps(_) => 0,
        }
    }
}

/// Returns the CPU time since `before` of all programs that were called.
fn called(now: Vec<CpuTime>, before: &[CpuTime]) -> Vec<CpuTime> {
    let since = |mut now: CpuTime| {
        if let Some(before) = before.iter().find(|before| before.program == now.program) {
            now.calls -= before.calls.min(now.calls);
            now.nanoseconds -= before.nanoseconds.min(now.nanoseconds);
        }
        now
    };
    now.into_iter().map(since).filter(|time| time.calls > 0).collect()
}

/// Describes a connection of TCP Rapid in one line and a second one for what went wrong.
fn describe_flow(flow: &RapidFlow) -> String {
    let arrivals = match flow.arrivals {
        Arrivals::Unknown | Arrivals::Acks => "ACKs",
        Arrivals::Timestamps => "timestamps",
        Arrivals::Option => "the receiver's option",
    };
    let ms = |time: u64| time as f64 / 1e6;
    format!(
        "  {} > {}: R_avg {}{}, latest estimate {}, RTT {:.1} ms, queue {:.1} ms, arrivals by {arrivals}\n    \
           p-streams: {} begun, {} with an estimate, {} too short, {} sent back to back; \
         {} loss episodes, {} timeouts, {} segments sent again",
        flow.local,
        flow.remote,
        Rate::from_bps(flow.rate_bps),
        if flow.starts { " (start-up)" } else { "" },
        Rate::from_bps(flow.estimate_bps),
        ms(flow.rtt_ns),
        ms(flow.queue_ns),
        flow.streams,
        flow.estimated,
        flow.too_short,
        flow.back_to_back,
        flow.losses,
        flow.timeouts,
        flow.retransmitted,
    )
}

fn describe_rapid_counters(counters: &RapidCounters) -> String {
    format!(
        "  connections      {} now, {} in all; {} for which there was no memory (switched to reno)\n  \
           segments         {} of p-streams, {} beside\n  \
           p-streams        {} with an estimate, {} without\n  \
           arrivals         {} connections told by the receiver before TCP, {} by microsecond timestamps, {} by ACKs\n  \
           clocks           moved {} times; {} connections were told arrivals by another clock\n  \
           losses           {} episodes, {} timeouts, {} spurious\n  \
           no data          at {} departures; {} packets in flight for which there was no room",
        counters.open(),
        counters.connections,
        counters.without_memory,
        counters.probes,
        counters.beside,
        counters.estimated,
        counters.refused,
        counters.by_driver,
        counters.stamped,
        counters.unstamped,
        counters.moved,
        counters.refused_options,
        counters.losses,
        counters.timeouts,
        counters.undone,
        counters.empty,
        counters.forgotten,
    )
}

pub(super) fn describe_stamp_counters(counters: &StampCounters) -> String {
    format!(
        "  connections      {}\n  \
           ACKs             {} with the arrival of their segment, {} for which it was not known, {} without room for it\n  \
           packets          {} with strange sequence numbers, which were not noted",
        counters.connections, counters.stamped, counters.missed, counters.without_room, counters.strange,
    )
}

fn describe_counters(counters: &Counters) -> String {
    let mut text = format!(
        "  connections      {} now, {} in all, {} more without the ECN they need (switched to reno)\n  \
           marks            {} segments, {} reductions\n  \
           losses           {} reductions, {} timeouts, {} undone\n  \
           below delta      {} times",
        counters.open(),
        counters.connections,
        counters.fallbacks_to_reno,
        counters.marked,
        counters.mark_cuts,
        counters.loss_cuts,
        counters.timeouts,
        counters.spurious_undone,
        counters.below_delta,
    );
    if counters.records_lost > 0 {
        text += &format!("\n  records          {} lost, the log has gaps", counters.records_lost);
    }
    text
}

pub(super) fn describe_end_counters(counters: &EndCounters) -> String {
    format!(
        "  connections      {} now, {} in all; {} peers knew the header\n  \
           switched to reno {} without a header in ACKs, {} without a router of this kind, {} for losses\n  \
           with header      {} packets sent, {} received; {} sent without for lack of room\n  \
           bad headers      {} cut, in fragments or of another length; {} of another version or format and {} out of sequence ignored\n  \
           losses           {} reductions, {} timeouts",
        counters.open(),
        counters.connections,
        counters.answered,
        counters.without_peer,
        counters.without_router,
        counters.yielded,
        counters.sent,
        counters.received,
        counters.too_large,
        counters.malformed,
        counters.unknown,
        counters.strange,
        counters.loss_cuts,
        counters.timeouts,
    )
}
