//! `headway cc stop`: ends programs that have controllers on.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use headway_kernel::{
    Changed, ChangedRoutes, FormerDefault, Namespace, Note, Notes, Remains, available, killed, running,
};
use headway_lab::Process;
use signal_hook::consts::SIGTERM;

use headway_program::service::print_line;

/// How long to wait for a program to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(20);

pub(super) fn run(names: &[String]) -> Result<()> {
    let names: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
    let wanted = |name: &String| names.is_empty() || names.contains(name);
    let mut found = 0;
    for note in running().into_iter().filter(|note| wanted(&note.name)) {
        end(&note)?;
        print_line(format_args!("{} is off", note.name));
        found += 1;
    }
    found += clean(&wanted)?;
    if found == 0 && !names.is_empty() {
        bail!(
            "no controller of Headway named {} is on; `headway cc status` shows those that are",
            names.join(" or ")
        );
    }
    Ok(())
}

/// Ends a program and waits until its controller is unregistered.
fn end(note: &Note) -> Result<()> {
    let process = Process::of(note.pid as i32).and_then(|process| process.open());
    // The handle is opened before this check: a process that still holds the lock has not given
    // its PID to another one.
    let alive = running().iter().any(|other| other.pid == note.pid && other.name == note.name);
    if let (Some(process), true) = (process, alive) {
        let asked = process.signal(SIGTERM);
        asked.with_context(|| format!("cannot end process {}; run this with sudo", note.pid))?;
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    // The kernel unregisters a controller a moment after its program has ended.
    while running().iter().any(|other| other.pid == note.pid) || available()?.contains(&note.name) {
        if Instant::now() > deadline {
            bail!("process {} with {} does not end; end it with: kill -9 {0}", note.pid, note.name);
        }
        sleep(ROUND);
    }
    Ok(())
}

/// Removes the leftovers of killed programs and returns their number.
fn clean(wanted: &impl Fn(&String) -> bool) -> Result<usize> {
    let killed: Vec<_> = killed().into_iter().filter(|note| wanted(&note.name)).collect();
    if !nix::unistd::geteuid().is_root() {
        return Ok(0);
    }
    let mut notes = Notes::lock()?;
    let left = notes.left_behind()?.into_iter().filter(|former| former.names.iter().any(wanted));
    let left: Vec<_> = left.collect();
    for note in &killed {
        print_line(describe_killed(note)?);
    }
    notes.remove_killed(wanted)?;
    let here = Namespace::here()?;
    for former in &left {
        print_line(describe_left(former)?);
        if former.namespace == here {
            let names: Vec<&str> = former.names.iter().map(String::as_str).collect();
            notes.restore(&names).context("the former default is not restored")?;
            print_line("restored");
        } else if !former.namespace.may_be_kept() {
            notes.remove_default(former)?;
            print_line("that namespace no longer exists; note removed");
        }
    }
    let mut interfaces = notes.interfaces_left_behind();
    interfaces.retain(|changed| wanted(&changed.by));
    for changed in &interfaces {
        print_line(describe_changed(changed)?);
        if changed.interface.namespace == here {
            notes.restore_interface(changed).context("the interface is not restored")?;
            print_line("restored");
        } else if !changed.interface.namespace.may_be_kept() {
            notes.forget_interface(&changed.interface)?;
            print_line("that namespace no longer exists; note removed");
        }
    }
    let mut routes = notes.routes_left_behind();
    routes.retain(|changed| wanted(&changed.by));
    for changed in &routes {
        print_line(describe_routes(changed)?);
        if notes.restore_routes(changed).context("the routes are not restored")? {
            print_line("restored");
        }
    }
    Ok(killed.len() + left.len() + interfaces.len() + routes.len())
}

/// Describes a killed program, and what the kernel does with its controller.
pub(super) fn describe_killed(note: &Note) -> Result<String> {
    let Note { pid, name, .. } = note;
    let kernel = match Remains::of(note)? {
        Remains { default_here: true, .. } => {
            format!("new connections here still get it, as it is the default, until `headway cc stop {name}`")
        }
        Remains { available: true, .. } => "the kernel has not unregistered it yet".to_owned(),
        Remains { loaded: true, .. } => {
            "no new connection here gets it; connections that have it keep it, and network \
                                         namespaces where it is the default"
                .to_owned()
        }
        Remains { .. } => "the kernel has unloaded it".to_owned(),
    };
    Ok(format!("process {pid} was killed while {name} was on; {kernel}"))
}

/// Describes a default that a killed program left behind, and how to restore it.
pub(super) fn describe_left(former: &FormerDefault) -> Result<String> {
    let (name, before) = (former.names.join(" or "), &former.former);
    let stop = format!("headway cc stop {}", former.names.join(" "));
    Ok(if former.namespace == Namespace::here()? {
        format!("{name} was left behind as the default here, `{stop}` restores {before}")
    } else {
        format!(
            "{name} was left behind as the default of another network namespace; `{stop}` run there restores {before}"
        )
    })
}

/// Describes routes that a killed program left changed, and how to restore them.
pub(super) fn describe_routes(changed: &ChangedRoutes) -> Result<String> {
    let ChangedRoutes { namespace, routes, by } = changed;
    let here = *namespace == Namespace::here()?;
    let place = if here { "" } else { " of another network namespace" };
    let run = if here { "" } else { " run there" };
    let routes = routes.join(", ");
    Ok(format!(
        "{by} left timestamps of microseconds on routes{place} to {routes}; `headway cc stop {by}`{run} restores them"
    ))
}

/// Describes an interface that a killed program left changed, and how to restore it.
pub(super) fn describe_changed(changed: &Changed) -> Result<String> {
    let Changed { interface, by } = changed;
    let here = interface.namespace == Namespace::here()?;
    let place = if here { "" } else { " of another network namespace" };
    let run = if here { "" } else { " run there" };
    let off = || interface.checksums.iter().chain(&interface.offloads);
    let without: String = off().map(|name| format!(" and without {name}")).collect();
    let with: String = off().map(|name| format!(" and {name}")).collect();
    Ok(format!(
        "{by} left the interface {}{place} with single segments{without}, `headway cc stop {by}`{run} restores {} at \
         once{with}",
        interface.name, interface.segments
    ))
}
