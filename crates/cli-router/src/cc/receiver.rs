//! `headway cc rapid-receiver`.

use anyhow::{Result, bail};
use clap::Args;
use headway_kernel::{
    ChangedRoutes, Controller, LsOptions, Namespace, Note, Notes, StampOptions, StampReceiver, running,
};
use headway_units::Prefix;

use super::end::restore_changed;
use super::on::{background, report_leftovers, signals, take_name, wait};
use super::show::{describe_stamp_counters, describe_stamps};
use headway_program::service::print_line;

/// The name in notes; nothing is registered under it.
const NAME: &str = "rapid_receiver";

/// Whose ACKs tell when segments arrived.
#[derive(Args, Debug)]
#[command(after_help = "\
ACKs of connections that are opened from now on carry a TCP option of 8 bytes: the arrival of the
segment that caused them. Senders with `headway cc rapid` use it, others ignore it.

Example:
  headway cc rapid-receiver --port 5201 --to 192.0.2.0/24")]
pub(super) struct ReceiverArgs {
    /// Only connections with this port at this end [default: any].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only connections with these peers, for example 192.0.2.0/24 or 2001:db8::/32 [default: any].
    #[arg(long, value_name = "PREFIX")]
    to: Option<Prefix>,
    /// Also give the routes of this network namespace timestamps of microseconds meanwhile, for senders
    /// behind a middlebox that strips unknown options.
    #[arg(long)]
    timestamps: bool,
    /// Another name in `headway cc status`, for example of another network namespace
    /// [default: rapid_receiver].
    #[arg(long)]
    name: Option<String>,
    /// Return once it is on and leave it on until `headway cc stop`.
    #[arg(long)]
    background: bool,
}

pub(super) fn run(args: &ReceiverArgs, json: bool) -> Result<()> {
    if args.background {
        return background();
    }
    // Registered before anything is attached, so that every signal leads to a cleanup.
    let end = signals()?;
    let options = StampOptions { namespace: Namespace::here()?, port: args.port, to: args.to };
    let name = args.name.clone().unwrap_or_else(|| NAME.to_owned());
    // Held until others can see this program, so that two do not start at the same time.
    let mut notes = Notes::lock()?;
    report_leftovers(&notes)?;
    restore_changed(&mut notes)?;
    take_name(&mut notes, &name)?;
    refuse_other(&options)?;
    let receiver = StampReceiver::load(&options)?;
    let routes = args.timestamps.then(|| change_routes(&mut notes, &name)).transpose()?;
    let note = Note {
        pid: std::process::id(),
        controller: Controller::Rapid,
        name,
        options: LsOptions::default(),
        ends: None,
        rapid: None,
        stamps: Some(options),
        default: None,
        namespace: None,
        counters_map: receiver.counters_map()?,
        programs: receiver.programs()?,
        registered: None,
    };
    let instance = match notes.start(note, false) {
        Ok(instance) => instance,
        Err(error) => {
            drop(receiver);
            routes.iter().try_for_each(end_routes)?;
            return Err(error.into());
        }
    };
    report_on(instance.note(), &options, routes.as_ref(), json);
    let result = wait(&end);
    let counted = receiver.counters();
    drop(receiver);
    routes.iter().try_for_each(end_routes)?;
    let name = instance.note().name.clone();
    instance.end()?;
    result?;
    let counted = counted?;
    if json {
        print_line(serde_json::json!({ "event": "off", "name": name, "counters": counted }));
    } else {
        print_line(format_args!("{name} is off\n{}", describe_stamp_counters(&counted)));
    }
    Ok(())
}

/// Changes the routes, which are noted before.
fn change_routes(notes: &mut Notes, name: &str) -> Result<ChangedRoutes> {
    let changed = ChangedRoutes::here(name)?;
    notes.keep_routes(&changed)?;
    match changed.change() {
        Ok(()) => Ok(changed),
        Err(error) => {
            notes.forget_routes(&changed)?;
            Err(error.into())
        }
    }
}

fn end_routes(changed: &ChangedRoutes) -> Result<()> {
    let mut notes = Notes::lock()?;
    changed.restore()?;
    Ok(notes.forget_routes(changed)?)
}

/// Refuses a second receiver in this network namespace: both would write the option into the same ACKs.
fn refuse_other(options: &StampOptions) -> Result<()> {
    let is_here = |other: &StampOptions| other.namespace == options.namespace;
    match running().into_iter().find(|note| note.stamps.as_ref().is_some_and(is_here)) {
        Some(other) => bail!(
            "{} (process {}) is the receiver of this network namespace; end that first with `headway cc stop {0}`",
            other.name,
            other.pid
        ),
        None => Ok(()),
    }
}

fn report_on(note: &Note, options: &StampOptions, routes: Option<&ChangedRoutes>, json: bool) {
    let routes = routes.map(|routes| &routes.routes);
    if json {
        print_line(serde_json::json!({ "event": "on", "instance": note, "routes": routes }));
        return;
    }
    print_line(format_args!("{} is on (process {})", note.name, note.pid));
    print_line(format_args!("  {}", describe_stamps(options)));
    if let Some(routes) = routes {
        print_line(format_args!("  timestamps of microseconds on routes to {}", routes.join(", ")));
    }
    print_line("Ctrl-C unloads it.");
}
