//! What happens when: file descriptors that are ready, and times that have come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;

use headway_core::Duration;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId, clock_gettime};

use super::Failure;

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// It waits for the connection.
    Listener,
    /// It writes.
    Sender,
    /// It reads.
    Receiver,
}

/// What an event is for. Among events of one time, the order of this list decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    /// Counters are looked at, for the time of this number.
    Look(usize),
    /// The run is over.
    Over,
    /// Warm-up is over.
    Warm,
    /// The host hears how far the run is.
    Progress,
    /// A flow opens its connection.
    Connect(usize),
    /// A flow begins to send.
    Start(usize),
    /// A flow stops.
    Stop(usize),
    /// An application with a rate at an end of a flow.
    Tick(usize, Side),
    /// A program starts.
    Launch(usize),
    /// A program is ended.
    Halt(usize),
    /// A program has ended.
    Exit(usize),
    /// A descriptor of a flow is ready.
    Flow(usize, Side),
    /// A source makes its next packets.
    Source(usize),
    /// A capture has packets.
    Capture(usize),
}

/// Descriptors that are waited for, and times.
#[derive(Debug)]
pub(super) struct Events {
    epoll: Epoll,
    timer: TimerFd,
    times: BinaryHeap<Reverse<(Duration, Actor)>>,
    /// When the timer expires; `None` while it is not set.
    armed: Option<Duration>,
    /// Time zero of the scenario on the monotonic clock, ns.
    zero: i64,
    /// What a descriptor is for, by the number that the kernel hands back.
    actors: Vec<Actor>,
}

/// The number of the timer among descriptors.
const TIMER: u64 = u64::MAX;

impl Events {
    /// Nothing to wait for; time zero comes `lead` from now, rounded up to a whole millisecond.
    pub(super) fn new(lead: Duration) -> Result<Events, Failure> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        // A timer of its own, because the time-out of a wait may come a thousandth late.
        let timer =
            TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)
                .map_err(failed)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER)).map_err(failed)?;
        let due = monotonic()? + lead.ns();
        let zero = due + (MILLISECOND - due % MILLISECOND) % MILLISECOND;
        Ok(Events { epoll, timer, times: BinaryHeap::new(), armed: None, zero, actors: Vec::new() })
    }

    /// Time zero of the scenario on the monotonic clock, ns.
    pub(super) fn zero(&self) -> i64 {
        self.zero
    }

    /// The present; negative before time zero.
    fn now(&self) -> Result<Duration, Failure> {
        Ok(Duration::from_ns(monotonic()? - self.zero))
    }

    /// Remembers something for a time.
    pub(super) fn at(&mut self, time: Duration, actor: Actor) {
        self.times.push(Reverse((time, actor)));
    }

    /// Waits for a descriptor to become readable and, with `writable`, writable.
    pub(super) fn watch(
        &mut self,
        file: BorrowedFd<'_>,
        actor: Actor,
        writable: bool,
    ) -> Result<(), Failure> {
        self.actors.push(actor);
        let event = EpollEvent::new(interest(writable), self.actors.len() as u64 - 1);
        self.epoll.add(file, event).map_err(failed)
    }

    /// Changes what is waited for at a descriptor.
    pub(super) fn change(
        &mut self,
        file: BorrowedFd<'_>,
        actor: Actor,
        writable: bool,
    ) -> Result<(), Failure> {
        let number = self.actors.iter().position(|known| *known == actor).unwrap_or_default();
        let mut event = EpollEvent::new(interest(writable), number as u64);
        self.epoll.modify(file, &mut event).map_err(failed)
    }

    /// Does not wait for a descriptor any more.
    pub(super) fn forget(&mut self, file: BorrowedFd<'_>) -> Result<(), Failure> {
        self.epoll.delete(file).map_err(failed)
    }

    /// Waits until something is due or ready, puts that into `due` in the order in which it is to be done,
    /// and returns the present.
    pub(super) fn wait(&mut self, due: &mut Vec<Actor>) -> Result<Duration, Failure> {
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
        while let Some(Reverse((time, actor))) = self.times.peek().copied()
            && time <= now
        {
            self.times.pop();
            due.push(actor);
        }
        for event in &ready[..count] {
            match event.data() {
                TIMER => self.armed = None,
                number => due.extend(self.actors.get(number as usize)),
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
