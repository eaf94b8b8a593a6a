//! What passes an interface, and boxes on the path that do something to the arrivals in
//! ACKs (`bpf/acks.bpf.c`).

use std::cell::RefCell;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::{MapCore as _, Object, ObjectBuilder, RingBufferBuilder};

use crate::path::Host;

/// Kind, length and identifier of the option (`bpf/arrival_option.bpf.h`).
pub(crate) const OPTION: [u8; 4] = [253, 8, 0x48, 0x41];
const SYN: u8 = 2;
/// Kinds of other options.
const PADDING: u8 = 1;
const SACK: u8 = 5;

/// A segment that passed an interface (`struct segment`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// When, in ns since the start of the machine.
    time: u64,
    /// Bytes of data.
    pub(crate) payload: u32,
    leaves: u32,
    header: [u8; 60],
}

impl Segment {
    fn from_bytes(bytes: &[u8]) -> Segment {
        assert!(bytes.len() >= size_of::<Segment>());
        // SAFETY: a Segment consists of integers only, so any bits are valid; the length was checked.
        unsafe { bytes.as_ptr().cast::<Segment>().read_unaligned() }
    }

    /// When it passed, in us, as ACKs tell it.
    pub(crate) fn time_us(&self) -> u32 {
        (self.time / 1_000) as u32
    }

    /// Whether it leaves the host.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves == 1
    }

    pub(crate) fn is_syn(&self) -> bool {
        self.header[13] & SYN != 0
    }

    /// The number behind its data.
    pub(crate) fn end(&self) -> u32 {
        self.word(4).wrapping_add(self.payload)
    }

    pub(crate) fn acknowledgement(&self) -> u32 {
        self.word(8)
    }

    /// Its header without options, as that of an ACK.
    pub(crate) fn repeated(&self) -> Vec<u8> {
        self.header[..20].to_vec()
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.header[at..at + 4].try_into().unwrap())
    }

    /// Where its options begin, but for padding.
    fn options(&self) -> Vec<usize> {
        let length = usize::from(self.header[12] >> 4) * 4;
        let (mut at, mut found) = (20, Vec::new());
        while at < length && self.header[at] != 0 {
            let is_padding = self.header[at] == PADDING;
            if !is_padding {
                found.push(at);
            }
            at += if is_padding { 1 } else { usize::from(self.header[at + 1]).max(2) };
        }
        found
    }

    /// What its options tell of arrivals.
    fn arrivals(&self) -> Vec<u32> {
        let told = self.options().into_iter().filter(|&at| self.header[at..].starts_with(&OPTION));
        told.map(|at| self.word(at + OPTION.len())).collect()
    }

    /// The end of the last segment that it reports as out of order.
    pub(crate) fn last_out_of_order(&self) -> Option<u32> {
        let at = self.options().into_iter().find(|&at| self.header[at] == SACK)?;
        let blocks = (at + 2..at + usize::from(self.header[at + 1])).step_by(8);
        let ahead = |end: &u32| end.wrapping_sub(self.acknowledgement()) as i32;
        blocks.map(|block| self.word(block + 4)).max_by_key(ahead).filter(|end| ahead(end) > 0)
    }

    /// What it tells, 0 if that is not known.
    pub(crate) fn arrival(&self) -> Option<u32> {
        self.arrivals().first().copied()
    }

    /// Whether it tells one arrival, or none as data and the beginning of a connection do.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.arrivals().len() == usize::from(self.payload == 0 && !self.is_syn())
    }
}

/// Does something to what leaves this host, until the result is dropped: a program of `bpf/acks.bpf.c`.
pub(crate) fn treat(how: &str) -> OwnedFd {
    attach(&load(), how, libbpf_sys::BPF_TCX_EGRESS)
}

/// Loses some of the data that arrives at this host, until the result is dropped.
pub(crate) fn lose() -> OwnedFd {
    attach(&load(), "lose", libbpf_sys::BPF_TCX_INGRESS)
}

fn load() -> Object {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/acks.bpf.o"));
    ObjectBuilder::default().open_memory(object).unwrap().load().unwrap()
}

fn attach(object: &Object, name: &str, place: libbpf_sys::bpf_attach_type) -> OwnedFd {
    let program = object.progs().find(|program| program.name() == name).unwrap();
    let interface = nix::net::if_::if_nametoindex("eth0").unwrap() as i32;
    // SAFETY: a system call with a valid descriptor and no options.
    let raw = unsafe {
        libbpf_sys::bpf_link_create(program.as_fd().as_raw_fd(), interface, place, std::ptr::null())
    };
    assert!(raw >= 0, "{name}: {raw}");
    // SAFETY: `raw` is an open descriptor that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// What passes the interface of a host from now on, as long as it has room: some ten thousand segments.
pub(crate) struct Log {
    object: Object,
    _links: [OwnedFd; 2],
}

impl Log {
    pub(crate) fn new(host: &Host) -> Log {
        let object = load();
        host.run(move || {
            let places = [
                ("note_arriving", libbpf_sys::BPF_TCX_INGRESS),
                ("note_leaving", libbpf_sys::BPF_TCX_EGRESS),
            ];
            let links = places.map(|(name, place)| attach(&object, name, place));
            Log { object, _links: links }
        })
    }

    pub(crate) fn read(&self) -> Vec<Segment> {
        let segments = RefCell::new(Vec::new());
        let map = self.object.maps().find(|map| map.name() == "segments").unwrap();
        let mut builder = RingBufferBuilder::new();
        let read = |bytes: &[u8]| {
            segments.borrow_mut().push(Segment::from_bytes(bytes));
            0
        };
        builder.add(&map, read).unwrap();
        builder.build().unwrap().consume().unwrap();
        segments.into_inner()
    }
}
