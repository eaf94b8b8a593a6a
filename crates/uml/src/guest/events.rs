//! The event loop: waits for file descriptors and timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;

use headway_units::Duration;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use super::Failure;

/// One socket of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Endpoint {
    /// Waits for the connection.
    Listener,
    /// Writes.
    Sender,
    /// Reads.
    Receiver,
}

/// What to handle. Events at the same time are handled in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// Read the counters; the index is that of the time in the plan.
    Snapshot(usize),
    /// End the run.
    Over,
    /// End the warm-up.
    Warm,
    /// Report progress to the host.
    Progress,
    /// Open the connection of a flow.
    Connect(usize),
    /// Let a flow start sending.
    Start(usize),
    /// Stop a flow.
    Stop(usize),
    /// Let a rate-limited application at one end of a flow write or read.
    Tick(usize, Endpoint),
    /// Start a program.
    Launch(usize),
    /// Stop a program.
    Halt(usize),
    /// Collect the exit status of a program.
    Exit(usize),
    /// Handle a descriptor of a flow that is ready.
    Flow(usize, Endpoint),
    /// Let a source generate its next packets.
    Source(usize),
    /// Handle the packets of a capture.
    Capture(usize),
}

/// The event queue: watched descriptors and timers.
#[derive(Debug)]
pub(super) struct Events {
    epoll: Epoll,
    timer: TimerFd,
    times: BinaryHeap<Reverse<(Duration, Event)>>,
    /// When the timer expires; `None` if it is not armed.
    armed: Option<Duration>,
    /// The scenario's time zero on the monotonic clock, in ns.
    zero: i64,
    /// The event of each descriptor, indexed by the number that epoll returns.
    watched: Vec<Event>,
}

/// The number of the timer in epoll events.
const TIMER: u64 = u64::MAX;

impl Events {
    /// Creates an empty event queue; time zero is `lead` from now, rounded up to a whole millisecond.
    pub(super) fn new(lead: Duration) -> Result<Events, Failure> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        // A timerfd, because the time-out of epoll_wait may expire 0.1 % late.
        let timer =
            TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
                .map_err(failed)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER)).map_err(failed)?;
        let due = monotonic()? + lead.ns();
        let zero = due + (MILLISECOND - due % MILLISECOND) % MILLISECOND;
        Ok(Events { epoll, timer, times: BinaryHeap::new(), armed: None, zero, watched: Vec::new() })
    }

    /// The scenario's time zero on the monotonic clock, in ns.
    pub(super) fn zero(&self) -> i64 {
        self.zero
    }

    /// The current time; negative before time zero.
    fn now(&self) -> Result<Duration, Failure> {
        Ok(Duration::from_ns(monotonic()? - self.zero))
    }

    /// Schedules a timer event.
    pub(super) fn at(&mut self, time: Duration, event: Event) {
        self.times.push(Reverse((time, event)));
    }

    /// Watches a descriptor for reading and, with `writable`, for writing.
    pub(super) fn watch(
        &mut self,
        file: BorrowedFd<'_>,
        event: Event,
        writable: bool,
    ) -> Result<(), Failure> {
        self.watched.push(event);
        let event = EpollEvent::new(interest(writable), self.watched.len() as u64 - 1);
        self.epoll.add(file, event).map_err(failed)
    }

    /// Changes whether a watched descriptor is watched for writing.
    pub(super) fn change(
        &mut self,
        file: BorrowedFd<'_>,
        event: Event,
        writable: bool,
    ) -> Result<(), Failure> {
        self.modify(file, event, interest(writable))
    }

    /// Changes whether a descriptor that is watched for reading is watched at all.
    pub(super) fn let_read(
        &mut self,
        file: BorrowedFd<'_>,
        event: Event,
        readable: bool,
    ) -> Result<(), Failure> {
        self.modify(file, event, if readable { interest(false) } else { EpollFlags::empty() })
    }

    fn modify(&mut self, file: BorrowedFd<'_>, event: Event, interest: EpollFlags) -> Result<(), Failure> {
        let number = self.watched.iter().position(|known| *known == event).unwrap_or_default();
        let mut event = EpollEvent::new(interest, number as u64);
        self.epoll.modify(file, &mut event).map_err(failed)
    }

    /// Stops watching a descriptor.
    pub(super) fn forget(&mut self, file: BorrowedFd<'_>) -> Result<(), Failure> {
        self.epoll.delete(file).map_err(failed)
    }

    /// Waits until something is due or ready, puts the events into `due` in the order in which to handle
    /// them, and returns the current time.
    pub(super) fn wait(&mut self, due: &mut Vec<Event>) -> Result<Duration, Failure> {
        due.clear();
        let next = self.times.peek().map(|Reverse((time, _))| *time);
        if let Some(next) = next
            && self.armed != Some(next)
        {
            let at = TimeSpec::from(std::time::Duration::from_nanos((self.zero + next.ns()).max(1) as u64));
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME).map_err(failed)?;
            self.armed = Some(next);
        }
        let mut ready = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut ready, EpollTimeout::NONE) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(failed(error)),
        };
        let now = self.now()?;
        while let Some(Reverse((time, event))) = self.times.peek().copied()
            && time <= now
        {
            self.times.pop();
            due.push(event);
        }
        for event in &ready[..count] {
            match event.data() {
                TIMER => self.armed = None,
                number => due.extend(self.watched.get(number as usize)),
            }
        }
        Ok(now)
    }
}

const MILLISECOND: i64 = 1_000_000;

fn interest(writable: bool) -> EpollFlags {
    let readable = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
    if writable { readable | EpollFlags::EPOLLOUT } else { readable }
}

fn monotonic() -> Result<i64, Failure> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(failed)?;
    Ok(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

fn failed(error: Errno) -> Failure {
    Failure::of("cannot wait for events".to_owned(), error)
}
