//! The emulator between two interfaces that exist already: a router on real packets.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use headway_scenario::Scenario;

use crate::claim::{self, Claim};
use crate::control::{LinkStatus, Status};
use crate::emulator::{Command, Emulator, prioritise_thread};
use crate::error::Error;
use crate::existing::{self, Guard};
use crate::port::Port;
use crate::spec::Spec;
use crate::writer::Writer;

/// The largest IP packet that the emulator takes.
const MAX_MTU: u32 = 9_000;

/// A link between two interfaces of this network namespace. Frames that arrive at one leave at the other.
///
/// It works until the process ends. The interfaces keep their addresses and everything else; while it works
/// they hear frames to all destinations and do not merge received packets.
pub struct Router {
    interfaces: [String; 2],
    status: Arc<Mutex<Status>>,
    /// The other end of a pipe that the emulator watches.
    _wake: UnixStream,
    /// Returns the number of an interface that has gone.
    emulator: Option<JoinHandle<usize>>,
    /// Nobody sends commands, but the emulator would take the end of this for one.
    _commands: Sender<Command>,
    _guard: Guard,
    /// The process of the guard has them, too: nobody else begins before it has restored the settings.
    _claims: Vec<Claim>,
}

impl Router {
    /// Starts to forward between two interfaces, through the only link of a scenario; forward is from the
    /// first to the second. The records of control intervals go to `records`, if given. This process must
    /// have one thread, and gives up all its privileges.
    ///
    /// # Errors
    /// If the scenario has several links or a value out of range, an interface cannot be used or has a
    /// router, or a privilege is missing.
    pub fn start(
        interfaces: [&str; 2],
        scenario: &Scenario,
        records: Option<&Path>,
    ) -> Result<Router, Error> {
        let spec = prepare(interfaces, scenario)?;
        for refusal in prioritise_thread() {
            tracing::info!("{refusal}");
        }
        let claims = claim::all(interfaces)?;
        let guard = Guard::start(&interfaces)?;
        let ports = interfaces.map(open).into_iter().collect::<Result<Vec<Port>, Error>>()?;
        let writer = Writer::of_routers(records, spec.lane_names())?;
        let status = Arc::new(Mutex::new(Status::new(&spec)));
        let (wake, woken) = UnixStream::pair().map_err(Error::system("make a pipe to the emulator"))?;
        let (commands, incoming) = channel();
        let (reports, reported) = channel();
        let failed = Error::system("watch the interfaces");
        let emulator = Emulator::new(&spec, ports, incoming, woken, reports).map_err(failed)?;
        // From here on strangers' packets are read.
        headway_privileges::drop_all_but(&[])?;
        let emulator = Some(spawn("emulator", move || emulator.run_while_complete())?);
        let shared = Arc::clone(&status);
        spawn("writer", move || writer.write(&reported, &shared))?;
        let interfaces = interfaces.map(str::to_owned);
        Ok(Router {
            interfaces,
            status,
            _wake: wake,
            emulator,
            _commands: commands,
            _guard: guard,
            _claims: claims,
        })
    }

    /// Returns what happened so far.
    ///
    /// # Errors
    /// If the router has stopped because an interface has gone, also where another one now has its name,
    /// or because of a panic.
    pub fn status(&mut self) -> Result<LinkStatus, Error> {
        if let Some(emulator) = self.emulator.take_if(|emulator| emulator.is_finished()) {
            return Err(match emulator.join() {
                Ok(number) => Error::Interface {
                    name: self.interfaces[number].clone(),
                    reason: "has been removed or moved to another network namespace; \
                             start the router again when it is back"
                        .to_owned(),
                },
                Err(_) => stopped(),
            });
        }
        let status = self.status.lock().map_err(|_| stopped())?;
        status.links.first().cloned().ok_or_else(stopped)
    }
}

/// Checks everything that can be checked before anything is changed; returns the scenario with the
/// MTU of the interfaces.
fn prepare(interfaces: [&str; 2], scenario: &Scenario) -> Result<Spec, Error> {
    let spec = Spec::of(scenario)?;
    if spec.links.len() != 1 {
        return Err(Error::Link("a router has one link: `[forward]` and `[reverse]`".to_owned()));
    }
    if interfaces[0] == interfaces[1] {
        let reason = "cannot be both ends; name two interfaces".to_owned();
        return Err(Error::Interface { name: interfaces[0].to_owned(), reason });
    }
    let mut mtu = spec.mtu;
    for name in interfaces {
        mtu = mtu.max(existing::check(name)?);
    }
    // Buffers and buckets must hold such packets.
    Spec::of(&Scenario { mtu: mtu.min(MAX_MTU), ..scenario.clone() }.checked()?)
}

fn stopped() -> Error {
    Error::Daemon("the router has stopped working".to_owned())
}

fn open(name: &str) -> Result<Port, Error> {
    let action = "open a packet socket; run as root or with CAP_NET_RAW";
    let port = Port::open(name).map_err(Error::system(action))?;
    port.hear_all().map_err(Error::system("hear all frames of an interface"))?;
    Ok(port)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::system("start a thread"))
}
