//! Fills the gaps between segments of TCP with PAUSE frames (rapid 2.3).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};

use headway_host::gap::{ByteClock, Frame};
use headway_units::{Bytes, Duration, Instant, Rate, WIRE_OVERHEAD};

use super::station::Station;
use super::{BATCH, Batch, Port, packet};
use crate::clock::monotonic;
use crate::error::NetError;
use crate::pacing::sleep_until;

/// Segments leave this long after they are due: for so long TCP's timer, and this program, may be late. It
/// adds to the RTT (2 to 10 ms is sensible: time slices of other programs last 4 ms).
pub const LATENCY: Duration = Duration::from_ms(5);
/// The line is filled for this long ahead (1 to 4 ms is sensible: shorter, and it runs dry). What is left of
/// [`LATENCY`] is for segments that this program gets late (`GAP_SLACK` in `crates/kernel/bpf/gaps.bpf.h`).
const AHEAD: Duration = Duration::from_ms(2);
/// Time between two looks at what TCP has handed over (0.2 to 1 ms is sensible: shorter costs more wake-ups).
const STEP: Duration = Duration::from_us(500);
/// How often an idle filler looks whether to stop, in ms.
const IDLE: libc::c_int = 100;
/// What this host was late is made up for by shortening gaps by this part: less than the smallest excess of a
/// gap that counts for Rapid, 2 % (1/50 to 1/500 is sensible: smaller, and the RTT stays longer for longer).
const MADE_UP: i64 = 100;
/// Connections that leave in order of time are told apart by a hash of so many values.
const FLOWS: usize = 64;
/// Ethernet header without tags.
const ETHERNET: u64 = 14;

/// What has left over a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Segments.
    pub segments: u64,
    /// Their bytes on the wire.
    pub segment_bytes: u64,
    /// PAUSE frames.
    pub pauses: u64,
    /// Their bytes on the wire.
    pub pause_bytes: u64,
    /// Segments that left later than [`LATENCY`] after they were due, because this host was late with them or
    /// with those before.
    pub late: u64,
    /// Times that the line ran dry while a segment waited.
    pub dry: u64,
}

/// Fills the line of an interface.
#[derive(Debug)]
pub struct LineFiller {
    port: Port,
    line: Rate,
    largest: Bytes,
}

/// Segments of which it is known when they leave.
struct Schedule {
    clock: ByteClock,
    /// When the clock was zero; the time for which the line ran dry moves it.
    start: Instant,
    /// By flow: frames, and the time of the last one by the clock.
    flows: Vec<(VecDeque<Vec<u8>>, Instant)>,
    waiting: usize,
    /// When the latest segment was due, and how late all segments are.
    due: Instant,
    lag: Duration,
    filled: Filled,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
}

impl LineFiller {
    /// Opens a socket at an interface of this thread's network namespace.
    ///
    /// # Errors
    /// [`NetError::Frames`] if the interface has no line whose rate is known, such as a veth, or its flow
    /// control is on; [`NetError::FrameSocket`] without `CAP_NET_RAW`.
    pub fn open(interface: &str) -> Result<LineFiller, NetError> {
        let Station { interface, macs, line, largest } = Station::at(interface)?;
        Ok(LineFiller { port: Port::open(interface, macs[0], largest)?, line, largest })
    }

    /// Returns the rate of the line.
    pub fn line(&self) -> Rate {
        self.line
    }

    /// Sends the segments that `next` writes, with their Ethernet headers, each [`LATENCY`] after the
    /// time on CLOCK_MONOTONIC at which it is due, and fills the line between them. `next` returns
    /// `None` if there is none, and then `source` becomes readable when there is one. Ends when `stop`
    /// is set, after what it has.
    ///
    /// Nothing fills a line on which no segment waits.
    ///
    /// # Errors
    /// The system's, or those of `next`.
    pub fn run<S: AsFd>(
        &self,
        source: &mut S,
        mut next: impl FnMut(&mut S, &mut Vec<u8>) -> io::Result<Option<Instant>>,
        stop: &AtomicBool,
    ) -> io::Result<Filled> {
        in_real_time();
        let mut schedule = Schedule::new(self.line, self.largest);
        let mut batch = Batch { frames: Vec::with_capacity(BATCH), packets: Vec::new(), used: 0 };
        loop {
            let mut frame = schedule.spare.pop().unwrap_or_default();
            let now = monotonic();
            while let Some(due) = next(source, &mut frame)? {
                schedule.add(due, frame, now);
                frame = schedule.spare.pop().unwrap_or_default();
            }
            schedule.spare.push(frame);
            if schedule.waiting == 0 {
                if stop.load(Ordering::Relaxed) {
                    return Ok(schedule.filled);
                }
                wait(source)?;
                continue;
            }
            schedule.note_dry(now);
            while schedule.fill(&mut batch, now + AHEAD) {
                self.port.send(&batch)?;
            }
            sleep_until(now + STEP);
        }
    }
}

impl Schedule {
    fn new(line: Rate, largest: Bytes) -> Schedule {
        let flows = (0..FLOWS).map(|_| (VecDeque::new(), Instant::ZERO)).collect();
        let (start, filled, lag) = (monotonic(), Filled::default(), Duration::ZERO);
        let clock = ByteClock::new(line, largest);
        Schedule { clock, start, flows, waiting: 0, due: start, lag, filled, spare: Vec::new() }
    }

    /// Schedules a segment that is due at `due`, but none before its flow's last one. If it comes too late,
    /// all that follow are as late, and make up for it little by little.
    fn add(&mut self, due: Instant, frame: Vec<u8>, now: Instant) {
        if self.waiting == 0 {
            // An idle line is free for what comes next.
            self.start += (now - self.free()).max(Duration::ZERO);
        }
        self.lag = (self.lag - (due - self.due).max(Duration::ZERO) / MADE_UP).max(Duration::ZERO);
        self.due = self.due.max(due);
        self.lag = self.lag.max(self.free() - (due + LATENCY));
        self.filled.late += u64::from(self.lag > Duration::ZERO);
        let number = flow(&frame);
        let (frames, last) = &mut self.flows[number];
        let at = due + LATENCY + self.lag;
        *last = Instant::from_ns(at.ns().saturating_sub(self.start.ns())).max(*last);
        let size = Bytes::new(frame.len() as u64 - ETHERNET) + WIRE_OVERHEAD;
        self.clock.schedule(number as u32, *last, size);
        frames.push_back(frame);
        self.waiting += 1;
    }

    /// When the line is free.
    fn free(&self) -> Instant {
        self.start + (self.clock.now() - Instant::ZERO)
    }

    /// Notices that the line ran dry: what follows is late by that time.
    fn note_dry(&mut self, now: Instant) {
        let free = self.free();
        if free < now {
            self.start += now - free;
            self.lag += now - free;
            self.filled.dry += 1;
        }
    }

    /// Takes frames that start before `until`, as many as fit into a batch; returns whether there are any.
    fn fill(&mut self, batch: &mut Batch, until: Instant) -> bool {
        batch.frames.clear();
        batch.used = 0;
        while batch.frames.len() < BATCH && self.free() < until {
            match self.clock.dequeue() {
                None => break,
                Some(Frame::Pause(size)) => {
                    self.filled.pauses += 1;
                    self.filled.pause_bytes += size.get();
                    batch.frames.push(Err(packet::length(size)));
                }
                Some(Frame::Packet { flow, size, .. }) => {
                    let Some(frame) = self.flows[flow as usize].0.pop_front() else { break };
                    self.waiting -= 1;
                    self.filled.segments += 1;
                    self.filled.segment_bytes += size.get();
                    self.spare.extend(batch.push(frame));
                }
            }
        }
        !batch.frames.is_empty()
    }
}

/// Has this thread run before all that are not in a hurry, if this user may: it is what keeps the line from
/// running dry on a busy host, and mostly sleeps.
fn in_real_time() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is valid and outlives the call, which concerns this thread only.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } != 0 {
        tracing::debug!("the line is filled without real-time priority: {}", io::Error::last_os_error());
    }
}

/// Waits until there is something to read, or for a while.
fn wait(source: &impl AsFd) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: source.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure, which outlives the call.
    let result = unsafe { libc::poll(&raw mut poll, 1, IDLE) };
    match io::Error::last_os_error() {
        reason if result < 0 && reason.kind() != io::ErrorKind::Interrupted => Err(reason),
        _ => Ok(()),
    }
}

/// Returns a number of the connection of a frame, by addresses and ports of IPv4 or IPv6 without options.
fn flow(frame: &[u8]) -> usize {
    let ports = match frame.get(12..14) {
        Some([0x08, 0x00]) => 26..38,
        _ => 22..58,
    };
    let bytes = frame.get(ports).unwrap_or_default();
    let hash = bytes.iter().fold(0_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash as usize % FLOWS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of 1500 bytes of a connection.
    fn segment(port: u8) -> Vec<u8> {
        let mut frame = vec![0; 1514];
        frame[12] = 0x08;
        frame[35] = port;
        frame
    }

    /// Hands over the frames of a schedule until there are none, and returns what there is on the line: for
    /// each segment its port and its time in ns since `begin`.
    fn sent(schedule: &mut Schedule, begin: Instant) -> Vec<(u8, i64)> {
        let mut batch = Batch { frames: Vec::new(), packets: Vec::new(), used: 0 };
        let mut free = schedule.free();
        let mut seen = Vec::new();
        while schedule.fill(&mut batch, Instant::from_ns(u64::MAX)) {
            for frame in &batch.frames {
                let length = match *frame {
                    Ok(packet) => {
                        seen.push((batch.packets[packet][35], (free - begin).ns()));
                        batch.packets[packet].len()
                    }
                    Err(length) => length,
                };
                free += Rate::from_mbps(1000.0).time_for(Bytes::new(length as u64 + 24));
            }
        }
        seen
    }

    #[test]
    fn the_bytes_between_segments_are_the_time_between_them_whenever_they_come() {
        let mut schedule = Schedule::new(Rate::from_mbps(1000.0), Bytes::new(1538));
        let begin = schedule.start;
        let at = |us: i64| begin + Duration::from_us(us);
        // Two connections, whose segments were handed over in some order.
        for (us, port) in [(0, 1), (123, 1), (60, 2), (246, 1), (184, 2)] {
            schedule.add(at(us), segment(port), at(40));
        }
        let seen = sent(&mut schedule, begin + LATENCY);
        let times: Vec<i64> = seen.iter().map(|(_, ns)| (ns + 500) / 1_000).collect();
        assert_eq!(times, [0, 60, 123, 184, 246]);
        assert_eq!(seen.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1, 2, 1, 2, 1]);
        let filled = schedule.filled;
        assert_eq!((filled.segments, filled.late, filled.dry), (5, 0, 0));
        // All bytes together are the time that has passed since the line was free, 40 us after the
        // beginning, and that of the last segment.
        let time = (filled.pause_bytes + filled.segment_bytes) as i64 * 8;
        assert_eq!(time, LATENCY.ns() + seen[4].1 - 40_000 + 1538 * 8);
    }

    #[test]
    fn a_late_host_makes_one_gap_longer_and_those_that_follow_hardly_shorter() {
        let mut schedule = Schedule::new(Rate::from_mbps(1000.0), Bytes::new(1538));
        let begin = schedule.start;
        let at = |us: i64| begin + Duration::from_us(us);
        schedule.add(at(0), segment(1), at(0));
        schedule.add(at(100), segment(1), at(100));
        // The line should have been filled from the beginning on.
        schedule.note_dry(at(6_000));
        schedule.add(at(200), segment(1), at(6_000));
        assert_eq!(sent(&mut schedule, begin + LATENCY), [(1, 6_000_000), (1, 6_100_000), (1, 6_199_000)]);
        // This one comes after all, when the line is free, with the time of the last segment on it.
        schedule.add(at(300), segment(1), at(12_000));
        schedule.add(at(400), segment(1), at(12_000));
        let late = sent(&mut schedule, begin + LATENCY);
        assert_eq!(late, [(1, 7_000_000), (1, 7_099_000)]);
        assert_eq!((schedule.filled.late, schedule.filled.dry), (3, 1));
    }

    #[test]
    fn a_line_on_which_nothing_waits_is_not_filled() {
        let mut schedule = Schedule::new(Rate::from_mbps(1000.0), Bytes::new(1538));
        let begin = schedule.start;
        let at = |us: i64| begin + Duration::from_us(us);
        schedule.add(at(0), segment(1), at(0));
        assert_eq!(sent(&mut schedule, begin + LATENCY), [(1, 0)]);
        let filled = schedule.filled;
        assert!(sent(&mut schedule, begin).is_empty());
        // A second later, nothing has filled it meanwhile.
        schedule.add(at(1_000_000), segment(1), at(1_000_000));
        assert_eq!(sent(&mut schedule, begin + LATENCY), [(1, 1_000_000_000)]);
        assert_eq!(schedule.filled.pause_bytes - filled.pause_bytes, LATENCY.ns() as u64 / 8);
    }

    #[test]
    fn connections_are_told_apart_by_addresses_and_ports() {
        assert_ne!(flow(&segment(1)), flow(&segment(2)));
        assert_eq!(flow(&segment(1)), flow(&segment(1)));
        assert_eq!(flow(&[]), flow(&[0; 10]));
    }
}
