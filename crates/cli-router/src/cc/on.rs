//! Runs a controller until this program is asked to end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headway_kernel::{
    Controller, Interface, Loaded, Loader, LsOptions, Note, Notes, RapidNote, RapidOptions, Record, killed,
    running,
};
use headway_record::csv::{self, Fixed};
use headway_record::row;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::OnArgs;
use super::end::{attach, forget, restore_changed, start};
use super::gaps::Filler;
use super::show::{Totals, describe_carrier};
use super::stop::{describe_changed, describe_killed, describe_left, describe_routes};
use headway_program::family::ROUTER;
use headway_program::print_error;
use headway_program::service::print_line;

/// Interval at which a program that records checks for a signal; one that does not record is woken by it.
const ROUND: Duration = Duration::from_millis(100);

/// What only TCP Rapid needs.
pub(super) struct Rapid<'a> {
    pub(super) options: RapidOptions,
    /// How notes describe them.
    pub(super) described: String,
    /// The interfaces to take single segments; all that are up if empty.
    pub(super) interfaces: &'a [String],
    /// Whether to turn off what merges segments there.
    pub(super) offloads_off: bool,
    /// Whether PAUSE frames make its gaps.
    pub(super) fills_gaps: bool,
}

/// How to run a controller that needs no programs at interfaces.
pub(super) struct Plain<'a> {
    pub(super) on: &'a OnArgs,
    /// The file for a line for every ACK.
    pub(super) log: Option<&'a Path>,
    /// For LS-AIMD.
    pub(super) options: LsOptions,
    pub(super) rapid: Option<Rapid<'a>>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(on: &'a OnArgs) -> Plain<'a> {
        Plain { on, log: None, options: LsOptions::default(), rapid: None }
    }

    fn loader(&self, controller: Controller, name: &str) -> Loader {
        let loader = Loader::new(controller).name(name).options(self.options).telemetry(self.log.is_some());
        let loader = loader.unrestricted(self.on.unrestricted || self.on.default);
        self.rapid
            .iter()
            .fold(loader, |loader, rapid| loader.rapid_options(rapid.options).fills_gaps(rapid.fills_gaps))
    }
}

pub(super) fn run(controller: Controller, plain: &Plain<'_>, json: bool) -> Result<()> {
    let args = plain.on;
    if args.background {
        return background();
    }
    // Registered before anything is changed, so that every signal leads to a cleanup.
    let end = signals()?;
    headway_kernel::check()?;
    let log = plain.log.map(start_log).transpose()?;
    let name = args.name.clone().unwrap_or_else(|| controller.name().to_owned());
    // Held until others can see this program, so that two do not start at the same time.
    let mut notes = Notes::lock()?;
    report_leftovers(&notes)?;
    take_name(&mut notes, &name)?;
    restore_changed(&mut notes)?;
    let loaded = plain.loader(controller, &name).load()?;
    let (interfaces, attached) = match &plain.rapid {
        Some(rapid) => attach(&loaded, &mut notes, &name, rapid.interfaces, rapid.offloads_off)?,
        None => Default::default(),
    };
    let fills_gaps = plain.rapid.as_ref().is_some_and(|rapid| rapid.fills_gaps);
    let filled = if fills_gaps { &interfaces[..] } else { &[] };
    let fillers = match filled.iter().map(|interface| Filler::start(&loaded, &interface.name)).collect() {
        Ok(fillers) => fillers,
        Err(error) => {
            drop(attached);
            return forget(&interfaces).and(Err(error));
        }
    };
    let merging = interfaces.iter().map(|interface| Ok((interface.name.clone(), interface.merging()?)));
    let merging: BTreeMap<String, Vec<String>> = merging.collect::<Result<_>>()?;
    let note = Note {
        pid: std::process::id(),
        controller,
        name: name.clone(),
        options: plain.options,
        ends: None,
        rapid: plain.rapid.as_ref().map(|rapid| RapidNote {
            parameters: rapid.described.clone(),
            interfaces: interfaces.clone(),
            merging,
        }),
        stamps: None,
        default: None,
        namespace: None,
        counters_map: loaded.counters_map()?,
        programs: loaded.programs()?,
        registered: loaded.registered_map()?,
    };
    let (instance, attached) = start(notes, note, args.default, attached, &interfaces)?;
    report_on(instance.note(), json);
    let result = wait_for_signal(&loaded, log, &end);
    // Undone in reverse order, whatever happened.
    let filled = Filler::end(fillers);
    drop(attached);
    let forgotten = forget(&interfaces);
    let restored = instance.end();
    let counted = Totals::of_loaded(&loaded, controller);
    loaded.unload();
    result?;
    forgotten?;
    restored.context("the former default is not restored")?;
    report_off(&name, counted.ok(), json);
    filled?.iter().filter(|_| !json).for_each(print_line);
    Ok(())
}

/// Takes a name from instances that were killed; refuses one that another instance has.
pub(super) fn take_name(notes: &mut Notes, name: &str) -> Result<()> {
    if let Some(other) = running().into_iter().find(|note| note.name == name) {
        bail!("{name} is on already (process {}); end that with `headway cc stop {name}`", other.pid);
    }
    Ok(notes.remove_killed(|killed| killed == name)?)
}

fn start_log(path: &Path) -> Result<csv::Writer<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(csv::begin(file, csv_row(&Record::default()))?)
}

/// Returns a row of the log; values that do not apply are empty.
fn csv_row(record: &Record) -> impl Serialize + use<> {
    let bytes = |q9: u64| Fixed::<3>(q9 as f64 / 512.0);
    let unless_all = |value: u64| Some(value).filter(|value| *value != u64::MAX);
    row! {
        time_ns: record.time,
        local_port: record.local_port,
        peer_port: record.peer_port,
        window_bytes: bytes(record.window),
        ssthresh_bytes: unless_all(record.ssthresh).map(bytes),
        add_bytes: bytes(record.add.into()),
        scale: Fixed::<6>(f64::from(record.scale) / f64::from(1 << 16)),
        alpha: Fixed::<6>(f64::from(record.alpha) / f64::from(1 << 20)),
        rtt_pace_ns: record.rtt_pace,
        rtt_loss_ns: record.rtt_loss,
        pacing_bytes_per_s: unless_all(record.pacing_rate),
        cwnd: record.cwnd,
        acked: record.acked,
        marked: record.marked,
        submss: record.submss,
    }
}

/// Waits for a signal to end.
fn wait_for_signal(loaded: &Loaded, log: Option<csv::Writer<File>>, end: &UnixStream) -> Result<()> {
    match log {
        None => wait(end),
        Some(log) => record(loaded, log, end),
    }
}

/// Waits until a stream of [`signals`] becomes readable.
pub(super) fn wait(mut end: &UnixStream) -> Result<()> {
    Ok(end.read_exact(&mut [0])?)
}

/// Writes records until a signal arrives.
fn record(loaded: &Loaded, mut log: csv::Writer<File>, end: &UnixStream) -> Result<()> {
    end.set_nonblocking(true)?;
    let mut failed = None;
    let mut stopping = false;
    while failed.is_none() && !stopping {
        // Checked before polling, so that the last round reads everything recorded until the signal.
        stopping = (&*end).read(&mut [0]).is_ok();
        let wait = if stopping { Duration::ZERO } else { ROUND };
        loaded.poll(wait, |record| {
            if let Err(reason) = log.serialize(csv_row(&record)) {
                failed.get_or_insert(io::Error::from(reason));
            }
        })?;
    }
    match failed.map_or_else(|| log.flush(), Err) {
        Ok(()) => Ok(()),
        Err(reason) => Err(reason).context("cannot write the log"),
    }
}

/// Reports the leftovers of killed programs.
pub(super) fn report_leftovers(notes: &Notes) -> Result<()> {
    for note in killed() {
        print_error!("headway: {}", describe_killed(&note)?);
    }
    for former in notes.left_behind()? {
        print_error!("headway: {}", describe_left(&former)?);
    }
    for changed in notes.interfaces_left_behind() {
        print_error!("headway: {}", describe_changed(&changed)?);
    }
    for changed in notes.routes_left_behind() {
        print_error!("headway: {}", describe_routes(&changed)?);
    }
    Ok(())
}

pub(super) fn report_on(note: &Note, json: bool) {
    if json {
        print_line(serde_json::json!({ "event": "on", "instance": note }));
        return;
    }
    let name = &note.name;
    print_line(format_args!("{name} is on (process {})", note.pid));
    if let Some(ends) = &note.ends {
        let segments = if ends.interfaces.is_empty() { "" } else { ", in single segments" };
        print_line(format_args!("  {}{segments}", describe_carrier(ends)));
        for interface in ends.interfaces.iter().filter(|interface| !interface.checksums.is_empty()) {
            print_line(format_args!(
                "  checksums:  of {} by the kernel, because its NIC expects TCP behind the IP header ({} off)",
                interface.name,
                interface.checksums.join(", ")
            ));
        }
        if ends.receives_only {
            print_line("  it answers senders only\nCtrl-C unloads it.");
            return;
        }
    }
    if let Some(rapid) = &note.rapid {
        rapid.interfaces.iter().for_each(|interface| print_line(describe_offloads(interface, rapid)));
    }
    if let Some(default) = &note.default {
        print_line(format_args!(
            "  it is now the default of this network namespace (before: {})",
            default.former
        ));
    } else {
        print_line(format_args!("  a program:  iperf3 -C {name} -c HOST"));
        print_line(format_args!("  a route:    ip route change PREFIX via GATEWAY congctl {name}"));
    }
    let needs = match note.controller {
        Controller::LsDctcp | Controller::HwDctcp => "needs ECN marking on the path, and DCTCP at both ends",
        Controller::LsReno | Controller::HwReno => "needs ECN: sysctl -w net.ipv4.tcp_ecn=1",
        Controller::Xcp | Controller::Rcp => {
            "needs a router of its kind on the path, and the header at both ends"
        }
        Controller::Rapid => "its connections send single segments; a quiet processor keeps their gaps even",
    };
    print_line(format_args!("  {needs}\nCtrl-C unloads it."));
}

/// Says what merges segments at an interface of TCP Rapid, and what does not any more.
fn describe_offloads(interface: &Interface, rapid: &RapidNote) -> String {
    let name = &interface.name;
    let off = usual_names(interface.offloads.iter());
    // Those at departure find single segments, and nothing to split.
    let merging = rapid.merging.get(name).into_iter().flatten().filter(|offload| offload.starts_with("rx-"));
    let merging = usual_names(merging);
    let mut text = format!("  {name}: single segments (gso_max_segs 1)");
    if !off.is_empty() {
        text += &format!(", {off} off");
    }
    if !merging.is_empty() {
        text += &format!("; {merging} merges what arrives: `--offloads-off`, if this host also receives");
    }
    text
}

/// Returns the names by which everybody knows offloads that merge segments.
fn usual_names<'a>(offloads: impl Iterator<Item = &'a String>) -> String {
    let usual = |offload: &String| match offload.as_str() {
        "tx-generic-segmentation" => "GSO",
        "rx-lro" => "LRO",
        offload if offload.starts_with("rx-") => "GRO",
        _ => "TSO",
    };
    offloads.map(usual).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

fn report_off(name: &str, counted: Option<Totals>, json: bool) {
    if json {
        print_line(serde_json::json!({ "event": "off", "name": name, "counters": counted }));
        return;
    }
    print_line(format_args!("{name} is off; connections that have it keep it until they end"));
    if let Some(counted) = counted {
        print_line(counted.describe());
    }
}

/// Returns a stream that becomes readable when this process is asked to end.
pub(super) fn signals() -> Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Starts this command again in its own session and returns once the controller is on.
pub(super) fn background() -> Result<()> {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    // With the same name, it says the same.
    command.arg0(arguments.next().unwrap_or_default());
    command.args(arguments.filter(|argument| argument != "--background"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let alone = || {
        nix::unistd::setsid()?;
        // The child must not inherit our open files: somebody may wait until they are closed.
        // SAFETY: a plain system call; it marks descriptors to be closed on exec and closes nothing before.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: only plain system calls are made between fork and exec.
    unsafe { command.pre_exec(alone) };
    let mut child = command.spawn().context("cannot start in the background")?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        bail!("cannot read from the background process");
    };
    let mut first = String::new();
    BufReader::new(stdout).read_line(&mut first)?;
    if first.is_empty() {
        let mut said = String::new();
        stderr.read_to_string(&mut said)?;
        let said = said.trim_end().trim_start_matches(&format!("{}: ", ROUTER.called())).to_owned();
        bail!(if said.is_empty() {
            "it ended in the background without an error message".to_owned()
        } else {
            said
        });
    }
    print_line(first.trim_end());
    if !first.starts_with('{') {
        print_line("  end it with: headway cc stop");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_leave_out_what_does_not_apply() {
        let unset = Record { ssthresh: u64::MAX, pacing_rate: u64::MAX, ..Record::default() };
        let record = Record { time: 7, local_port: 1, peer_port: 2, window: 1024, scale: 1 << 15, ..unset };
        let line = csv::lines([csv_row(&record)]);
        assert_eq!(line, "7,1,2,2.000,,0.000,0.500000,0.000000,0,0,,0,0,0,0\n");
    }
}
