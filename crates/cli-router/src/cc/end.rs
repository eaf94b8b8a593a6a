//! Runs XCP or RCP, a controller with programs at interfaces, until this program is asked to end.

use anyhow::{Context as _, Result, bail};
use headway_kernel::{
    Attached, Carrier, Changed, Controller, EndCounters, EndOptions, Ends, Instance, Interface, Loaded,
    Loader, LsOptions, Namespace, Note, Notes, running,
};

use super::EndArgs;
use super::on::{background, report_leftovers, report_on, signals, take_name, wait};
use super::show::describe_end_counters;
use headway_program::service::print_line;

pub(super) fn run(controller: Controller, options: EndOptions, args: &EndArgs, json: bool) -> Result<()> {
    if args.on.background {
        return background();
    }
    if args.receive && args.on.default {
        bail!("`--receive` has no controller that `--default` could choose; leave one of them out");
    }
    if options.carrier == Carrier::TcpOption && !args.interface.is_empty() {
        bail!(
            "with `--carrier option` TCP carries the header through any interface; leave out `--interface`"
        );
    }
    // Registered before anything is changed, so that every signal leads to a cleanup.
    let end = signals()?;
    headway_kernel::check()?;
    let role = if args.receive { "_receiver" } else { "" };
    let name = args.on.name.clone().unwrap_or_else(|| format!("{}{role}", controller.name()));
    // Held until others can see this program, so that two do not start at the same time.
    let mut notes = Notes::lock()?;
    restore_changed(&mut notes)?;
    report_leftovers(&notes)?;
    take_name(&mut notes, &name)?;
    refuse_other_carrier(&options)?;
    let loader = Loader::new(controller).name(&name).end_options(options).receives_only(args.receive);
    let loaded = loader.unrestricted(args.on.unrestricted || args.on.default).load()?;
    let (interfaces, attached) = match options.carrier {
        Carrier::Protocol => attach(&loaded, &mut notes, &name, &args.interface, false)?,
        Carrier::TcpOption => Default::default(),
    };
    let note = Note {
        pid: std::process::id(),
        controller,
        name: name.clone(),
        options: LsOptions::default(),
        rapid: None,
        stamps: None,
        ends: Some(Ends { options, receives_only: args.receive, interfaces: interfaces.clone() }),
        default: None,
        namespace: None,
        counters_map: loaded.counters_map()?,
        programs: loaded.programs()?,
        registered: loaded.registered_map()?,
    };
    let (instance, attached) = start(notes, note, args.on.default, attached, &interfaces)?;
    report_on(instance.note(), json);
    let result = wait(&end);
    // Whatever happened. The note of this program goes last, so that nobody takes the
    // interfaces for left behind.
    let counted = loaded.end_counters();
    drop(attached);
    let forgotten = forget(&interfaces);
    let restored = instance.end();
    loaded.unload();
    result?;
    forgotten?;
    restored.context("the former default is not restored")?;
    report_off(&name, counted.ok(), json);
    Ok(())
}

/// Refuses a second instance in this network namespace if one of the two has the option of TCP as its
/// carrier: both would write it into the same packets.
fn refuse_other_carrier(options: &EndOptions) -> Result<()> {
    let other = running().into_iter().find(|note| {
        note.ends.as_ref().is_some_and(|ends| {
            let carriers = [ends.options.carrier, options.carrier];
            ends.options.namespace == options.namespace && carriers.contains(&Carrier::TcpOption)
        })
    });
    match other {
        Some(other) => bail!(
            "{} (process {}) is on here, and only one program can have TCP carry the header; end that first with \
             `headway cc stop {0}`",
            other.name,
            other.pid
        ),
        None => Ok(()),
    }
}

/// Prepares interfaces for a controller, each noted before it is changed; with `offloads_off` without
/// offloads that merge segments.
pub(super) fn attach(
    loaded: &Loaded,
    notes: &mut Notes,
    by: &str,
    names: &[String],
    offloads_off: bool,
) -> Result<(Vec<Interface>, Vec<Attached>)> {
    let names = if names.is_empty() { Interface::all()? } else { names.to_vec() };
    if names.is_empty() {
        bail!("no Ethernet interface of this network namespace is up; name one with `--interface`");
    }
    let mut interfaces: Vec<Interface> = Vec::new();
    for name in names {
        let mut interface = loaded.interface(&name)?;
        if offloads_off {
            interface.offloads = interface.merging()?;
        }
        if !interfaces.contains(&interface) {
            interfaces.push(interface);
        }
    }
    let mut noted = 0;
    let mut attach = |interface: &Interface| {
        notes.keep_interface(&Changed { interface: interface.clone(), by: by.to_owned() })?;
        noted += 1;
        Ok(loaded.attach_to(interface.clone())?)
    };
    let attached: Result<Vec<Attached>> = interfaces.iter().map(&mut attach).collect();
    if attached.is_err() {
        // What was attached is detached and restored by now.
        interfaces[..noted].iter().try_for_each(|interface| notes.forget_interface(interface))?;
    }
    Ok((interfaces, attached?))
}

/// Restores what killed programs left changed in this network namespace, and forgets
/// namespaces that are gone.
pub(super) fn restore_changed(notes: &mut Notes) -> Result<()> {
    let here = Namespace::here()?;
    for changed in notes.interfaces_left_behind() {
        let namespace = changed.interface.namespace;
        if namespace == here {
            notes.restore_interface(&changed)?;
        } else if !namespace.may_be_kept() {
            notes.forget_interface(&changed.interface)?;
        }
    }
    for changed in notes.routes_left_behind() {
        notes.restore_routes(&changed)?;
    }
    Ok(())
}

/// Shows others that this program is on; detaches from interfaces if that fails.
pub(super) fn start(
    notes: Notes,
    note: Note,
    default: bool,
    attached: Vec<Attached>,
    interfaces: &[Interface],
) -> Result<(Instance, Vec<Attached>)> {
    match notes.start(note, default) {
        Ok(instance) => Ok((instance, attached)),
        Err(error) => {
            drop(attached);
            forget(interfaces).and(Err(error.into()))
        }
    }
}

pub(super) fn forget(interfaces: &[Interface]) -> Result<()> {
    let mut notes = Notes::lock()?;
    interfaces.iter().try_for_each(|interface| Ok(notes.forget_interface(interface)?))
}

fn report_off(name: &str, counted: Option<EndCounters>, json: bool) {
    if json {
        print_line(serde_json::json!({ "event": "off", "name": name, "counters": counted }));
        return;
    }
    print_line(format_args!("{name} is off; connections that have it send plain TCP until they end"));
    if let Some(counted) = counted {
        print_line(describe_end_counters(&counted));
    }
}
