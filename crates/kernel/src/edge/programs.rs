//! The programs in the kernel.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use headway_arithmetic::flow::{Flow, Key, Rules};
use headway_arithmetic::plain::{Plain, bytes_of, read};
use headway_telemetry::qdisc::Direction;
use libbpf_rs::{Map, MapCore as _, MapFlags, Object, OpenObject, RingBuffer, RingBufferBuilder};

use super::entries::for_each;
use super::{
    Connection, EdgeCounters, EdgeInterface, EdgeOptions, Event, Exchange, Marking, PATIENCE, Shares,
    SmallReceiver, Splitting, Treatment, now,
};
use crate::error::Error;
use crate::loader::load;
use crate::query::program_ids;
use crate::tcx::{AtInterface, Owner};

/// The programs at the interface towards the hosts, and where they are attached.
const LAN: [(&str, Direction); 2] = [("edge_up", Direction::Ingress), ("edge_down", Direction::Egress)];
/// Those at the other one, where connections may be split.
const WAN: [(&str, Direction); 2] = [("edge_back", Direction::Ingress), ("edge_onward", Direction::Egress)];
/// The key of the only entry of maps that have one.
const ONLY: [u8; 4] = [0; 4];
const READ_EVENTS: &str = "read the events of the edge";
/// Most flows of UDP (`EDGE_EXCHANGES`).
const MOST_EXCHANGES: u32 = 16_384;

/// An event as the programs write it (`struct edge_event`).
#[repr(C)]
struct Written {
    key: Key,
    kind: u32,
    flow: Flow,
}

/// What the process says (`struct edge_control`).
#[repr(C)]
struct Control {
    alive: u64,
    period: u32,
    rules: u32,
    shares: Shares,
}

/// Programs at an interface, until this is dropped or, with TCX, the process ends.
#[derive(Debug)]
pub struct Edge {
    // Declared before `object`, so that the programs go first.
    attached: Vec<AtInterface>,
    object: Object,
}

/// The events of programs, which may be gone.
#[derive(Debug)]
pub struct Events {
    ring: RingBuffer<'static>,
    heard: Rc<RefCell<Vec<Event>>>,
}

impl Events {
    /// Waits up to `timeout` for an event, and returns all that there are. It needs no privileges.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn wait(&self, timeout: Duration) -> Result<Vec<Event>, Error> {
        match self.ring.poll(timeout) {
            // A signal arrived: return, so that the caller can check for it.
            Err(reason) if reason.kind() == libbpf_rs::ErrorKind::Interrupted => {}
            result => result.map_err(Error::bpf(READ_EVENTS))?,
        }
        Ok(self.heard.take())
    }
}

impl Edge {
    /// Attaches the programs to the first of two interfaces of this thread's network namespace: for
    /// connections between hosts there and hosts beyond the second one. Until the first [`Edge::say`], they
    /// let windows pass as they are.
    ///
    /// # Errors
    /// When the user lacks the privileges, or the kernel refuses.
    pub fn start(sides: [&EdgeInterface; 2], options: &EdgeOptions, rules: &Rules) -> Result<Edge, Error> {
        crate::support::check_privileges()?;
        let [lan, wan] = sides;
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/edge.bpf.o"));
        let object = load(object, "the programs of the edge", |open| configure(open, sides, options))?;
        let mut edge = Edge { attached: Vec::new(), object };
        edge.set_rules(rules)?;
        let beyond = if options.splits { &WAN[..] } else { &[] };
        for (programs, side) in
            [(beyond, wan), (&LAN[..], lan)].into_iter().filter(|(all, _)| !all.is_empty())
        {
            edge.attached.push(AtInterface::attach(Owner::Edge, side.index, &edge.object, programs)?);
        }
        Ok(edge)
    }

    /// Replaces the rules that give connections their class. Those that are there keep theirs until the next
    /// [`Edge::say`] has another number of rules.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_rules(&self, rules: &Rules) -> Result<(), Error> {
        // SAFETY: the rules consist of integers without gaps.
        self.update("rules", unsafe { bytes_of(rules) })
    }

    /// Says that the process lives, what a connection of each class may have, and the numbers of the period
    /// of RTTs and of the rules.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn say(&self, shares: &Shares, period: u32, rules: u32) -> Result<(), Error> {
        let control = Control { alive: now()?, period, rules, shares: *shares };
        // SAFETY: it consists of integers without gaps.
        self.update("control", unsafe { bytes_of(&control) })
    }

    fn update(&self, map: &str, value: &[u8]) -> Result<(), Error> {
        self.map(map)?
            .update(&ONLY, value, MapFlags::ANY)
            .map_err(Error::bpf("tell the programs of the edge"))
    }

    /// Opens the events of connections that begin and end; those of the time before are among them, as
    /// far as there was room.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn events(&self) -> Result<Events, Error> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let hears = heard.clone();
        let mut builder = RingBufferBuilder::new();
        let map = self.map("events")?;
        let hear = move |bytes: &[u8]| {
            if let Some(Written { key, kind, flow }) = read::<Written>(bytes) {
                let event = if kind == 0 { Event::Begun(key, flow) } else { Event::Ended(key, flow) };
                hears.borrow_mut().push(event);
            }
            0
        };
        builder.add(&map, hear).map_err(Error::bpf(READ_EVENTS))?;
        Ok(Events { ring: builder.build().map_err(Error::bpf(READ_EVENTS))?, heard })
    }

    /// Returns the connections that are there, in no order. One that begins or ends meanwhile may
    /// be among them or not.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn connections(&self) -> Result<Vec<(Key, Connection)>, Error> {
        self.list("established")
    }

    /// Returns the flows of UDP that are there, in no order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn exchanges(&self) -> Result<Vec<(Key, Exchange)>, Error> {
        self.list("exchanges")
    }

    fn list<T: Plain>(&self, map: &str) -> Result<Vec<(Key, T)>, Error> {
        let mut entries = Vec::new();
        for_each(&self.map(map)?, |key, value| entries.extend(read(key).zip(read(value))))
            .map_err(|reason| Error::bpf("list the flows of the edge")(reason.into()))?;
        Ok(entries)
    }

    /// Removes a connection; returns whether it was there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&self, key: &Key) -> Result<bool, Error> {
        // SAFETY: a key consists of integers without gaps.
        self.delete("established", unsafe { bytes_of(key) })
    }

    /// Removes a flow of UDP; returns whether it was there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_exchange(&self, key: &Key) -> Result<bool, Error> {
        // SAFETY: a key consists of integers without gaps.
        self.delete("exchanges", unsafe { bytes_of(key) })
    }

    /// Says what is done with the flow of this number.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn treat(&self, number: u64, treatment: Treatment) -> Result<(), Error> {
        let key = number.to_ne_bytes();
        let Some(code) = super::code(treatment) else { return self.delete("treated", &key).map(|_| ()) };
        self.map("treated")?
            .update(&key, &code.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("say what is done with a flow"))
    }

    /// Says which packets to mark; it holds while [`Edge::say`] says that the process lives.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn mark(&self, marking: &Marking) -> Result<(), Error> {
        // SAFETY: it consists of integers without gaps.
        self.update("marking", unsafe { bytes_of(marking) })
    }

    /// Says which connections to split from now on; it holds while [`Edge::say`] says that the process lives.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn split(&self, splitting: &Splitting) -> Result<(), Error> {
        // SAFETY: it consists of integers without gaps.
        self.update("splitting", unsafe { bytes_of(splitting) })
    }

    /// Says that the next connections of a host and class are to be split; of the hosts, those longest
    /// without use are forgotten.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_small_receiver(&self, receiver: &SmallReceiver) -> Result<(), Error> {
        // SAFETY: it consists of integers without gaps.
        let key = unsafe { bytes_of(receiver) };
        self.map("small_receivers")?
            .update(key, &[0; 4], MapFlags::ANY)
            .map_err(Error::bpf("say which connections to split"))
    }

    /// Takes that back.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove_small_receiver(&self, receiver: &SmallReceiver) -> Result<(), Error> {
        // SAFETY: it consists of integers without gaps.
        self.delete("small_receivers", unsafe { bytes_of(receiver) }).map(|_| ())
    }

    /// Removes an entry; returns whether it was there.
    fn delete(&self, map: &str, key: &[u8]) -> Result<bool, Error> {
        match self.map(map)?.delete(key) {
            Err(reason) if reason.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            result => result.map(|()| true).map_err(Error::bpf("remove a flow of the edge")),
        }
    }

    /// Returns what has passed since the programs were loaded.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn counters(&self) -> Result<EdgeCounters, Error> {
        const FIELDS: usize = size_of::<EdgeCounters>() / 8;
        let counters = self.map("counters")?.lookup_percpu(&ONLY, MapFlags::ANY);
        let counters = counters.map_err(Error::bpf("read the counters of the edge"))?.unwrap_or_default();
        let mut sum = [0_u64; FIELDS];
        for fields in counters.iter().filter_map(|bytes| read::<[u64; FIELDS]>(bytes)) {
            sum.iter_mut().zip(fields).for_each(|(sum, field)| *sum += field);
        }
        // SAFETY: counters are as many integers of this size, in any of which all bits are valid.
        Ok(unsafe { std::mem::transmute::<[u64; FIELDS], EdgeCounters>(sum) })
    }

    /// Returns the BPF IDs of the programs, for [`cpu_time`](crate::cpu_time).
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        program_ids(&self.object)
    }

    fn map(&self, name: &str) -> Result<Map<'_>, Error> {
        let map = self.object.maps().find(|map| map.name() == name);
        map.ok_or_else(|| Error::Internal(format!("the edge has no map {name}")))
    }
}

fn configure(
    open: &mut OpenObject,
    sides: [&EdgeInterface; 2],
    options: &EdgeOptions,
) -> libbpf_rs::Result<()> {
    let exchanges = options.connections.min(MOST_EXCHANGES);
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some(".rodata.options") => {
                let words = [
                    sides[0].framing as u32,
                    sides[1].index,
                    options.no_shrink.into(),
                    options.dry_run.into(),
                    options.follow_rtt.into(),
                    options.splits.into(),
                    sides[1].framing as u32,
                    0,
                ];
                let mut value = (PATIENCE * 1_000_000_000).to_ne_bytes().to_vec();
                value.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
                map.set_initial_value(&value)?;
            }
            Some("established" | "half_open") => map.set_max_entries(options.connections)?,
            Some("exchanges") => map.set_max_entries(exchanges)?,
            Some("treated") => map.set_max_entries(options.connections + exchanges)?,
            _ => {}
        }
    }
    Ok(())
}

// SAFETY: addresses, ports and numbers.
unsafe impl Plain for Written {}
// SAFETY: numbers.
unsafe impl Plain for Connection {}
// SAFETY: numbers.
unsafe impl Plain for Exchange {}
