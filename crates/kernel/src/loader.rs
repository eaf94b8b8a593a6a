//! Loads a controller's programs into the kernel and registers it.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use libbpf_rs::{
    Link, Map, MapCore as _, MapInfo, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel,
    RingBufferBuilder, set_print,
};

use crate::attached::Attached;
use crate::cgroup;
use crate::controller::{Carrier, Controller, EndOptions, LsOptions, RapidOptions};
use crate::default::available;
use crate::device::Interface;
use crate::error::Error;
use crate::gaps::DepartureTimes;
use crate::query::{READER, program_ids, read_counters};
use crate::support::Ops;
use crate::telemetry::{Counters, EndCounters, RapidCounters, Record};

/// Longest name of a controller: the kernel has 16 bytes, including a terminating zero.
const LONGEST_NAME: usize = 15;
/// Offset from the name to the flags in `struct tcp_congestion_ops` of `bpf/vmlinux.h`.
const FLAGS_AFTER_NAME: usize = 16;
/// Lets unprivileged programs and other network namespaces choose the controller (linux/tcp.h).
const TCP_CONG_NON_RESTRICTED: u8 = 1;
/// Size of the buffer for records: 40 ms at a million ACKs per second.
const RECORDS: u32 = 4 << 20;

/// Loads a controller with options.
#[derive(Clone, Debug)]
pub struct Loader {
    controller: Controller,
    name: String,
    options: LsOptions,
    end_options: EndOptions,
    rapid_options: Option<RapidOptions>,
    telemetry: bool,
    unrestricted: bool,
    receives: bool,
    fills_gaps: bool,
}

impl Loader {
    /// Creates a loader for a controller under its own name, without telemetry.
    pub fn new(controller: Controller) -> Loader {
        Loader {
            controller,
            name: controller.name().to_owned(),
            options: LsOptions::default(),
            end_options: EndOptions::default(),
            rapid_options: None,
            telemetry: false,
            unrestricted: false,
            receives: false,
            fills_gaps: false,
        }
    }

    /// Registers it under another name; names are global to the host.
    pub fn name(mut self, name: &str) -> Loader {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the options of LS-AIMD; other controllers ignore them.
    pub fn options(mut self, options: LsOptions) -> Loader {
        self.options = options;
        self
    }

    /// Sets the options of XCP and RCP; other controllers ignore them.
    pub fn end_options(mut self, options: EndOptions) -> Loader {
        self.end_options = options;
        self
    }

    /// Sets the options of TCP Rapid; other controllers ignore them.
    pub fn rapid_options(mut self, options: RapidOptions) -> Loader {
        self.rapid_options = Some(options);
        self
    }

    /// Only answers senders: loads XCP or RCP without registering the controller, which so needs no name.
    pub fn receives_only(mut self, on: bool) -> Loader {
        self.receives = on && self.controller.is_explicit();
        self
    }

    /// Enables a record of every ACK, see [`Loaded::poll`].
    pub fn telemetry(mut self, on: bool) -> Loader {
        self.telemetry = on;
        self
    }

    /// Lets programs without CAP_NET_ADMIN and other network namespaces choose the controller.
    pub fn unrestricted(mut self, on: bool) -> Loader {
        self.unrestricted = on;
        self
    }

    /// Has TCP Rapid leave its gaps to one who takes its [`Departures`](crate::Departures).
    pub fn fills_gaps(mut self, on: bool) -> Loader {
        self.fills_gaps = on;
        self
    }

    /// Loads and registers the controller.
    ///
    /// # Errors
    /// When the kernel does not support it, the user lacks privileges, or the name is taken.
    pub fn load(&self) -> Result<Loaded, Error> {
        crate::support::check()?;
        let ops = Ops::here()?;
        if self.controller.is_explicit() {
            crate::support::check_casts()?;
        }
        check_name(&self.name)?;
        if !self.receives && available()?.contains(&self.name) {
            return Err(Error::NameTaken(
                self.name.clone(),
                "another program or the kernel itself".to_owned(),
            ));
        }
        listen();
        let refused = |reason| self.refused(reason);
        let mut object = self.load_programs(ops).map_err(refused)?;
        if self.controller == Controller::Rapid {
            Loader::check_memory(&object)?;
        }
        let tcp_options = self.attach_options(&object)?;
        let registered = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
        let link = match registered {
            Some(_) if self.receives => None,
            Some(mut registered) => Some(registered.attach_struct_ops().map_err(refused)?),
            None => return Err(Error::Internal(format!("{} has no struct_ops map", self.name))),
        };
        let (controller, outlives) = (self.controller, !ops.links && link.is_some());
        Ok(Loaded { controller, name: self.name.clone(), link, outlives, _tcp_options: tcp_options, object })
    }

    /// Loads the programs of the controller. The one that lists the connections of TCP Rapid is left out if
    /// the kernel refuses it: with lockdown in its mode `confidentiality` (`man 7 kernel_lockdown`), programs
    /// of that type may not be loaded.
    fn load_programs(&self, ops: Ops) -> libbpf_rs::Result<Object> {
        match self.configured(ops)?.load() {
            Err(reason)
                if self.controller == Controller::Rapid
                    && reason.kind() == libbpf_rs::ErrorKind::PermissionDenied =>
            {
                let mut open = self.configured(ops)?;
                for mut program in open.progs_mut().filter(|program| program.name() == READER) {
                    program.set_autoload(false);
                }
                let object = open.load()?;
                tracing::info!("connections of TCP Rapid cannot be listed: {reason}");
                Ok(object)
            }
            result => result,
        }
    }

    /// Checks that the kernel gives a socket the memory that a connection of TCP Rapid needs, as it does
    /// since Linux 6.7 by itself. Older ones tell it only in the network namespace that the host began with.
    fn check_memory(object: &Object) -> Result<(), Error> {
        /// What the kernel adds to the state (`struct bpf_local_storage_elem` and that of all of a socket).
        const OVERHEAD: u64 = 512;
        let given = std::fs::read_to_string("/proc/sys/net/core/optmem_max").unwrap_or_default();
        let map = object.maps().find(|map| map.name() == "connections");
        match (given.trim().parse(), map) {
            (Ok(given), Some(map)) if given < u64::from(map.value_size()) + OVERHEAD => {
                Err(Error::LittleMemory { given, needed: u64::from(map.value_size()) + OVERHEAD })
            }
            _ => Ok(()),
        }
    }

    /// Opens the programs of the controller and writes the options into them.
    fn configured(&self, ops: Ops) -> libbpf_rs::Result<OpenObject> {
        let mut open = ObjectBuilder::default().open_memory(self.controller.object())?;
        adapt(&mut open, ops)?;
        self.configure(&mut open)?;
        Ok(open)
    }

    /// Attaches the program that reads and writes options of TCP.
    fn attach_options(&self, object: &Object) -> Result<Option<OwnedFd>, Error> {
        match self.controller {
            Controller::Rapid => Ok(attach_stamps(object)),
            _ => self.attach_header(object),
        }
    }

    /// Attaches the program that gives connections the header as a TCP option. Without it, senders whose
    /// carrier is another lose nothing, and receivers do not answer in it.
    fn attach_header(&self, object: &Object) -> Result<Option<OwnedFd>, Error> {
        if !self.controller.is_explicit() || self.end_options.namespace.is_none() {
            return Ok(None);
        }
        let required = self.end_options.carrier == Carrier::TcpOption;
        let check = if required { crate::support::check_options() } else { Ok(()) };
        match check.and_then(|()| cgroup::attach(object, "hw_option", cgroup::EVENTS)) {
            Err(reason) if !required => {
                tracing::warn!("senders that ask in a TCP option get no answer: {reason}");
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    fn configure(&self, open: &mut OpenObject) -> libbpf_rs::Result<()> {
        for mut map in open.maps_mut() {
            match map.name().to_str() {
                Some(".rodata.options") if self.controller.is_explicit() => {
                    map.set_initial_value(&self.end_options.to_bytes())?;
                }
                Some(".rodata.options") if self.controller == Controller::Rapid => {
                    self.rapid_options
                        .map_or(Ok(()), |options| map.set_initial_value(&options.to_bytes()))?;
                }
                Some(".rodata.options") => map.set_initial_value(&self.options.to_bytes())?,
                Some(".rodata.gaps") => map.set_initial_value(&u64::from(self.fills_gaps).to_ne_bytes())?,
                Some(".rodata.telemetry") => {
                    map.set_initial_value(&u32::from(self.telemetry).to_ne_bytes())?;
                }
                Some("records") if self.telemetry => map.set_max_entries(RECORDS)?,
                _ if map.map_type() == MapType::StructOps => self.configure_ops(&mut map),
                _ => {}
            }
        }
        Ok(())
    }

    /// Overwrites the name and flags that the operations were compiled with.
    fn configure_ops(&self, map: &mut OpenMapMut<'_>) {
        let Some(value) = map.initial_value_mut() else { return };
        let compiled = padded(self.controller.name());
        let Some(at) = value.windows(compiled.len()).position(|window| window == compiled) else { return };
        value[at..at + compiled.len()].copy_from_slice(&padded(&self.name));
        if self.unrestricted {
            // Little-endian or not, the flags in use are all in one byte.
            let flags = &mut value[at + FLAGS_AFTER_NAME..at + FLAGS_AFTER_NAME + 4];
            let set = u32::from_ne_bytes([flags[0], flags[1], flags[2], flags[3]])
                | u32::from(TCP_CONG_NON_RESTRICTED);
            flags.copy_from_slice(&set.to_ne_bytes());
        }
    }

    fn refused(&self, reason: libbpf_rs::Error) -> Error {
        match reason.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => {
                Error::NameTaken(self.name.clone(), "another program".to_owned())
            }
            _ => refused(&self.name)(reason),
        }
    }
}

/// A registered controller: connections can choose it until this is dropped, and those that have it keep it.
#[derive(Debug)]
pub struct Loaded {
    controller: Controller,
    name: String,
    // Declared before `object`, so that dropping unregisters first.
    link: Option<Link>,
    /// Whether it stays registered if this process is killed.
    outlives: bool,
    _tcp_options: Option<OwnedFd>,
    object: Object,
}

impl Loaded {
    /// Returns the name under which connections choose it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the BPF ID of the map with the counters, for [`counters`](crate::counters).
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn counters_map(&self) -> Result<u32, Error> {
        let map = self.map(".bss")?;
        Ok(MapInfo::new(map.as_fd()).map_err(Error::bpf("inspect a BPF map"))?.info.id)
    }

    /// Returns the BPF ID of the map by which it stays registered if this process is killed,
    /// as before Linux 6.4.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn registered_map(&self) -> Result<Option<u32>, Error> {
        let map = self.object.maps().find(|map| self.outlives && map.map_type() == MapType::StructOps);
        let info = map.map(|map| MapInfo::new(map.as_fd()).map_err(Error::bpf("inspect a BPF map")));
        Ok(info.transpose()?.map(|info| info.info.id))
    }

    /// Returns the counters of a controller other than XCP, RCP and TCP Rapid.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn counters(&self) -> Result<Counters, Error> {
        read_counters(&self.map(".bss")?)
    }

    /// Returns the counters of TCP Rapid.
    ///
    /// # Errors
    /// When the kernel does not show them.
    pub fn rapid_counters(&self) -> Result<RapidCounters, Error> {
        read_counters(&self.map(".bss")?)
    }

    /// Returns the counters of XCP or RCP.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn end_counters(&self) -> Result<EndCounters, Error> {
        read_counters(&self.map(".bss")?)
    }

    /// Prepares an interface of this thread's network namespace: attaches the programs of XCP or RCP, or has
    /// it take single segments only, for TCP Rapid.
    ///
    /// # Errors
    /// When there is no such interface, it is not Ethernet, or the kernel refuses.
    pub fn attach(&self, interface: &str) -> Result<Attached, Error> {
        self.attach_to(self.interface(interface)?)
    }

    /// Inspects an interface of this thread's network namespace: what [`Loaded::attach_to`] changes there.
    ///
    /// # Errors
    /// When there is no such interface, or it is not Ethernet.
    pub fn interface(&self, name: &str) -> Result<Interface, Error> {
        let mut interface = Interface::here(name)?;
        if self.controller == Controller::Rapid {
            // Its packets have no header that disturbs them.
            interface.checksums.clear();
        }
        Ok(interface)
    }

    /// Does what [`Loaded::attach`] does to an interface that was inspected before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_to(&self, interface: Interface) -> Result<Attached, Error> {
        match self.controller {
            Controller::Rapid => Attached::for_rapid(interface),
            _ => Attached::new(&self.object, interface),
        }
    }

    /// Returns when the segments of its connections are due, for TCP Rapid loaded with
    /// [`Loader::fills_gaps`].
    ///
    /// # Errors
    /// For other controllers.
    pub fn departure_times(&self) -> Result<DepartureTimes, Error> {
        DepartureTimes::of(&self.object)
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the map whose name ends with `end`.
    fn map(&self, end: &str) -> Result<Map<'_>, Error> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(end));
        map.ok_or_else(|| Error::Internal(format!("{} has no map {end}", self.name)))
    }

    /// Returns the BPF IDs of the programs, for [`cpu_time`](crate::cpu_time).
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        program_ids(&self.object)
    }

    /// Unregisters the controller; connections that have it keep it.
    pub fn unload(self) {
        drop(self.link);
    }

    /// Waits up to `timeout` and passes every record that arrives to `take`.
    ///
    /// # Errors
    /// When the records cannot be read, for instance because telemetry is off.
    pub fn poll(&self, timeout: Duration, mut take: impl FnMut(Record)) -> Result<(), Error> {
        let action = "read the records of acknowledgements";
        let records = self.map("records")?;
        let mut builder = RingBufferBuilder::new();
        let read = move |bytes: &[u8]| {
            if let Some(record) = Record::from_bytes(bytes) {
                take(record);
            }
            0
        };
        builder.add(&records, read).map_err(Error::bpf(action))?;
        let ring = builder.build().map_err(Error::bpf(action))?;
        match ring.poll(timeout) {
            // A signal arrived: return, so that the caller can check for it.
            Err(reason) if reason.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(()),
            result => result.map_err(Error::bpf(action)),
        }
    }
}

/// Attaches the program that reads the stamps of receivers. Without it, senders of TCP
/// Rapid take other stamps.
fn attach_stamps(object: &Object) -> Option<OwnedFd> {
    let attached = crate::support::check_options()
        .and_then(|()| cgroup::attach(object, "hw_read_arrival", cgroup::EVENTS));
    attached.inspect_err(|reason| tracing::warn!("stamps of receivers are not read: {reason}")).ok()
}

/// What libbpf says before the words of the verifier.
const JUDGEMENT: &str = "BEGIN PROG LOAD LOG";

thread_local! {
    /// What the verifier last objected to in a program that this thread loaded.
    static OBJECTION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Loads the programs of an object, after its maps were set up.
pub(crate) fn load(
    object: &[u8],
    name: &str,
    set_up: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    listen();
    let open = ObjectBuilder::default().open_memory(object);
    let set_up = |mut open| set_up(&mut open).map(|()| open);
    open.and_then(set_up).and_then(OpenObject::load).map_err(refused(name))
}

/// Adapts a controller to this kernel.
pub(crate) fn adapt(open: &mut OpenObject, ops: Ops) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        if map.name() == ".rodata.arguments" {
            map.set_initial_value(&ops.arguments.to_ne_bytes())?;
        } else if map.map_type() == MapType::StructOps && !ops.links {
            map.set_map_flags(map.map_flags() & !libbpf_sys::BPF_F_LINK)?;
        }
    }
    Ok(())
}

/// Writes the options with which programs were compiled.
pub(crate) fn set_options(open: &mut OpenObject, options: &[u8]) -> libbpf_rs::Result<()> {
    let map = open.maps_mut().find(|map| map.name() == ".rodata.options");
    map.map_or(Ok(()), |mut map| map.set_initial_value(options))
}

/// Returns the error when the kernel does not take the programs of this name.
pub(crate) fn refused(name: &str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |reason| match (reason.kind(), OBJECTION.take()) {
        (libbpf_rs::ErrorKind::PermissionDenied, None) => Error::Forbidden,
        (_, objection) => {
            let objection = objection.map(|text| format!(" (`{text}`)")).unwrap_or_default();
            Error::Refused { name: name.to_owned(), reason, objection }
        }
    }
}

/// Takes the messages of libbpf from now on, as one of this thread's programs is loaded.
fn listen() {
    OBJECTION.set(None);
    set_print(Some((PrintLevel::Debug, log)));
}

/// Takes a message of libbpf, in the thread that called it.
fn log(_level: PrintLevel, message: String) {
    if let Some((_, text)) = message.split_once(JUDGEMENT) {
        OBJECTION.set(Some(objection(text).to_owned()));
    }
    tracing::debug!(target: "libbpf", "{}", message.trim_end());
}

/// Returns the line with which the verifier ends, but for its count of instructions and what libbpf adds.
fn objection(text: &str) -> &str {
    let mut lines = text.lines().rev().map(str::trim);
    lines
        .find(|line| !(line.is_empty() || line.starts_with("--") || line.starts_with("processed ")))
        .unwrap_or("-")
}

/// Returns a name in the kernel's format, padded with zeros.
fn padded(name: &str) -> [u8; LONGEST_NAME + 1] {
    let mut bytes = [0; LONGEST_NAME + 1];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn check_name(name: &str) -> Result<(), Error> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if letters && (1..=LONGEST_NAME).contains(&name.len()) {
        Ok(())
    } else {
        Err(Error::BadName(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objection_is_the_last_line_of_the_verifier() {
        let log = " --\n0: R1=ctx(off=0)\n; x = 1;\n5: (79) r1 = *(u64 *)(r6 +3088)\n\
                   access beyond the end of member\nprocessed 6 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
        assert_eq!(objection(log), "access beyond the end of member");
        assert_eq!(objection(" --\n"), "-");
    }
}
