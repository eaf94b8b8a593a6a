//! Takes segments before they leave over an interface, with the times at which they are due, for a sender
//! that fills the gaps between them (`bpf/gaps.bpf.c`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use headway_telemetry::qdisc::Direction;
use headway_units::Instant;
use libbpf_rs::{MapCore as _, Object};

use crate::device::{Interface, ip};
use crate::error::Error;
use crate::loader::{load, set_options};
use crate::tcx::{AtInterface, Owner, has_tcx};

/// The map of `bpf/gaps.bpf.h`.
const DEPARTURES: &str = "gap_departures";
/// Segments that wait for the process, at most: 12 ms of 1 Gb/s.
const WAITING: &str = "1000";
/// `struct gap_head`: a number that tells it, and when the segment is due.
const HEAD: usize = 16;
const MAGIC: u64 = 0x7061_675f_7977_6468;
/// The longest frame with its head, of 65535 bytes of IP.
const LONGEST: usize = HEAD + 14 + 65_535;
/// Turns on an interface that hands frames to the one who opened it (linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_TAP: libc::c_short = 2;
const IFF_NO_PI: libc::c_short = 0x1000;

/// The segments that leave over an interface, until this is dropped: then the kernel sends them by itself.
#[derive(Debug)]
pub struct Departures {
    // Declared first, so that dropping ends the redirection before its target.
    _program: AtInterface,
    _object: Object,
    device: File,
    buffer: Box<[u8; LONGEST]>,
}

/// When the segments of a controller's connections are due.
#[derive(Debug)]
pub struct DepartureTimes(OwnedFd);

impl DepartureTimes {
    /// Finds them among the maps of a controller.
    pub(crate) fn of(object: &Object) -> Result<DepartureTimes, Error> {
        let map = object.maps().find(|map| map.name() == DEPARTURES);
        let map = map.ok_or_else(|| Error::Internal("the controller has no departures".to_owned()))?;
        let own = map.as_fd().try_clone_to_owned();
        own.map(DepartureTimes).map_err(Error::file("open", "a map of departures"))
    }
}

impl Departures {
    /// Takes the segments that connections send over an interface of this thread's network namespace: those
    /// of a controller with these times, and those of any whose packets have a mark, which leave at TCP's
    /// pacing rate. Such an interface has to take single segments.
    ///
    /// # Errors
    /// When there is no such interface, the kernel has no TAP devices, or it refuses the program.
    pub fn take(
        interface: &str,
        times: Option<&DepartureTimes>,
        mark: Option<u32>,
    ) -> Result<Departures, Error> {
        crate::support::check()?;
        let interface = Interface::here(interface)?;
        if !has_tcx() {
            // What redirects segments would outlive this process, and they would reach nobody.
            return Err(interface.error("PAUSE frames in gaps need Linux 6.6"));
        }
        interface.check_flow_control()?;
        let device = open().map_err(Error::file("open", "/dev/net/tun"))?;
        let name = set_up(&device).map_err(Error::file("make a TAP device with", "/dev/net/tun"))?;
        ip(&name, &["link", "set", "dev", &name, "mtu", "65521", "txqueuelen", WAITING, "up"])?;
        let index = nix::net::if_::if_nametoindex(&*name)
            .map_err(|errno| Error::Device { interface: name, reason: errno.to_string() })?;
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/gaps.bpf.o"));
        // `struct gap_options`.
        let options = [index, mark.unwrap_or(0)].map(u32::to_ne_bytes).concat();
        let object = load(object, "what fills gaps", |open| {
            for mut map in open.maps_mut().filter(|map| map.name() == DEPARTURES) {
                times.map_or(Ok(()), |times| map.reuse_fd(times.0.as_fd()))?;
            }
            set_options(open, &options)
        })?;
        let programs = [("hw_leave_by_line", Direction::Egress)];
        let program = AtInterface::attach(Owner::Controller, interface.index, &object, &programs)?;
        Ok(Departures { _program: program, _object: object, device, buffer: Box::new([0; LONGEST]) })
    }

    /// Writes the next segment that has been taken into `frame`, with its Ethernet header, and returns when
    /// it is due on CLOCK_MONOTONIC; `None` if there is none now.
    ///
    /// # Errors
    /// The system's error.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> io::Result<Option<Instant>> {
        loop {
            let length = match self.device.read(&mut self.buffer[..]) {
                Err(reason) if reason.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if let Some(due) = due(&self.buffer[..length]) {
                frame.clear();
                frame.extend(&self.buffer[HEAD..length]);
                return Ok(Some(due));
            }
        }
    }
}

impl AsFd for Departures {
    /// Becomes readable when a segment has been taken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Returns when a frame is due; `None` for what the kernel sends over any device by itself.
fn due(frame: &[u8]) -> Option<Instant> {
    let word = |at: usize| Some(u64::from_ne_bytes(frame.get(at..at + 8)?.try_into().ok()?));
    (word(0)? == MAGIC).then_some(Instant::from_ns(word(8)?))
}

fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
}

/// Makes it a device of this thread's network namespace, and returns its name.
fn set_up(device: &File) -> io::Result<String> {
    // SAFETY: all-zero is a valid ifreq.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(b"hwgap%d") {
        *to = *from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI;
    // SAFETY: the request reads and writes an ifreq, which outlives the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF as _, &raw mut ifreq) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = ifreq.ifr_name.iter().take_while(|letter| **letter != 0);
    Ok(name.map(|letter| char::from(*letter as u8)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_with_a_head_are_segments() {
        let head = [MAGIC.to_ne_bytes(), 1_000_u64.to_ne_bytes()].concat();
        assert_eq!(due(&[&head[..], &[0; 60]].concat()), Some(Instant::from_ns(1_000)));
        assert_eq!(due(&head), Some(Instant::from_ns(1_000)));
        assert_eq!((due(&head[..15]), due(&[0x33; 90]), due(&[])), (None, None, None));
    }
}
