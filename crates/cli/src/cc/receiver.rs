//! `headway cc rapid-receiver`.

use anyhow::{Result, bail};
use clap::Args;
use headway_edge::Prefix;
use headway_kernel::{Controller, LsOptions, Namespace, Note, Notes, StampOptions, StampReceiver, running};

use super::on::{background, refuse_running, report_leftovers, signals, wait};
use super::show::{describe_stamp_counters, describe_stamps};
use crate::service::print_line;

/// The name in notes; nothing is registered under it.
const NAME: &str = "rapid_receiver";

/// Whose ACKs tell when segments arrived.
#[derive(Args, Debug)]
#[command(after_help = "\
ACKs of connections that are opened from now on have an option of TCP with the time at which the segment that caused them was
handed over by the driver. Senders with `headway cc rapid` use it, others ignore it. It takes 8 bytes in each ACK.

Example:
  headway cc rapid-receiver --port 5201 --to 192.0.2.0/24")]
pub(super) struct ReceiverArgs {
    /// Only connections with this port at this end [default: any].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only connections with these peers, for example 192.0.2.0/24 or 2001:db8::/32 [default: any].
    #[arg(long, value_name = "PREFIX")]
    to: Option<Prefix>,
    /// Another name in `headway cc status`, for example of another network namespace [default: rapid_receiver].
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
    let notes = Notes::lock()?;
    report_leftovers(&notes)?;
    refuse_running(&name)?;
    refuse_other(&options)?;
    let receiver = StampReceiver::load(&options)?;
    let note = Note {
        pid: std::process::id(),
        controller: Controller::Rapid,
        name,
        options: LsOptions::default(),
        ends: None,
        rapid: None,
        stamps: Some(options),
        default: None,
        counters_map: receiver.counters_map()?,
        programs: receiver.programs()?,
    };
    let instance = notes.start(note, false)?;
    report_on(instance.note(), &options, json);
    let result = wait(&end);
    let counted = receiver.counters();
    drop(receiver);
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

fn report_on(note: &Note, options: &StampOptions, json: bool) {
    if json {
        print_line(serde_json::json!({ "event": "on", "instance": note }));
        return;
    }
    print_line(format_args!("{} is on (process {})", note.name, note.pid));
    print_line(format_args!("  {}\nCtrl-C unloads it.", describe_stamps(options)));
}
