//! The thread that forwards the frames of all links: reads arrivals, passes them through the lanes,
//! and sends them on time.

use std::io;
use std::mem::size_of;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender};

use headway_queue::explicit::Record;
use headway_units::{Duration, Instant};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::clock;
use crate::ecn::ETHERNET;
use crate::frame_pool::FramePool;
use crate::header_counts::HeaderCounts;
use crate::lane::Lane;
use crate::port::{BATCH, Port, Received};
use crate::ports::Ports;
use crate::spec::{Cross, Direction, PathSpec, Spec};
use crate::truth::Interval;

/// Sleep ends this long before a release; then the thread spins. A sleeper wakes 15 to 55 us late on a quiet
/// machine (median to 99 %) and 100 us late on a busy one. Each further 10 us costs 8 % of a CPU at 100 Mb/s,
/// which the hosts on a small machine need (50 to 100 us is sensible).
const MARGIN: Duration = Duration::from_us(70);
/// This close to a release nothing else is started: reading one frame takes 1 to 2 us (2
/// to 10 us is sensible).
const QUIET: Duration = Duration::from_us(3);
/// Frames read at once while a release is near; each delays it by about 0.5 us (1 to 8 is sensible).
const SMALL_BATCH: usize = 4;
/// How often cross traffic is advanced and intervals are closed when nothing else happens (5 to 20 ms
/// is sensible): shorter ticks wake an idle machine, longer ones delay the next packet by the work
/// that has accumulated.
const TICK: Duration = Duration::from_ms(10);
/// When the socket is empty, frames that arrived at least this long ago have been read: the kernel takes a
/// few microseconds from timestamping a frame to queueing it (10 to 100 us is sensible).
const SETTLED: Duration = Duration::from_us(20);
/// A larger change of the clock is a step, not slewing: slewing makes 5 us per tick at most.
const JUMP: Duration = Duration::from_ms(1);
/// How often completed intervals are passed to the writer.
const HAND_OVER: Duration = Duration::from_ms(100);
/// How often troubles with frames are reported.
const TROUBLE: Duration = Duration::from_ms(1000);
/// Buffer space beyond MTU and Ethernet header, for VLAN tags.
const SPARE: usize = 8;

/// A request of the control thread to the emulator.
pub(crate) enum Command {
    /// Replace the cross traffic, and have the times of links that vary count anew if so; answered with the
    /// time from which the change applies.
    Cross(Vec<Cross>, bool, Sender<Instant>),
    /// Replace the paths of some links; answered with the time from which the change applies.
    Paths(Vec<(usize, PathSpec)>, Sender<Instant>),
    /// Answer once all intervals that begin before this time are in the file.
    Sync(Instant, Sender<()>),
}

/// A message from the emulator to the writer.
pub(crate) enum Report {
    /// Completed intervals with the numbers of their lanes.
    Intervals(Vec<(usize, Interval)>),
    /// What routers did since the last report.
    Routers(Vec<RouterReport>),
    /// Answer once everything reported before is in the file.
    Synced(Sender<()>),
    /// A sentence for the log.
    Trouble(String),
}

/// What the router at the queue of a lane did.
pub(crate) struct RouterReport {
    pub(crate) lane: usize,
    /// Frames larger than the MTU that were dropped since the last report.
    pub(crate) oversized: u64,
    /// Since the lane began; `None` if no router is in force.
    pub(crate) headers: Option<HeaderCounts>,
    /// Those of the control intervals since the last report.
    pub(crate) records: Vec<Record>,
}

/// When a lane next has something to do.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// The next frame is to be sent, at the exact time.
    release: Instant,
    /// A frame reaches the queue or its departure is judged.
    event: Instant,
}

const NEVER: Instant = Instant::from_ns(u64::MAX / 2);

/// Lane number `n` takes the frames that arrive at port `n`. Lanes and ports of a link are neighbours: the
/// forward direction of link `k` is lane `2 k`, from port `2 k` to port `2 k + 1`.
pub(crate) struct Emulator {
    ports: Ports,
    lanes: Vec<Lane>,
    /// When each lane is due, so that most lanes need not be looked at.
    due: Vec<Due>,
    frames: FramePool,
    received: Vec<Received>,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    syncs: Vec<(Instant, Sender<()>)>,
    finished: Vec<(usize, Interval)>,
    /// The end of the latest completed interval of each lane.
    closed: Vec<Instant>,
    next_tick: Instant,
    next_hand_over: Instant,
    next_trouble: Instant,
    send_errors: u64,
    /// Frames larger than the MTU, not yet in the log.
    oversized: u64,
    /// Whether to end when an interface has gone.
    ends_without_interface: bool,
    /// Ports that failed, such as because their interfaces are down or have gone. A failure is reported once,
    /// to a call that reads or one that sends.
    failed: Vec<usize>,
    /// Ports whose interfaces have gone, as the log says.
    lost: Vec<usize>,
    /// The scenario with all changes made so far, to rebuild the links after a clock step.
    spec: Spec,
    lead: Duration,
}

impl Emulator {
    /// Creates an emulator for all links, with two ports each; its time starts now. A byte on
    /// `wake` announces commands.
    ///
    /// # Errors
    /// If the ports cannot be watched.
    pub(crate) fn new(
        spec: &Spec,
        ports: Vec<Port>,
        commands: Receiver<Command>,
        wake: UnixStream,
        reports: Sender<Report>,
    ) -> io::Result<Emulator> {
        let start = clock::now();
        let lanes = lanes(spec, start);
        Ok(Emulator {
            ports: Ports::new(ports, wake)?,
            due: vec![Due { release: NEVER, event: NEVER }; lanes.len()],
            closed: vec![Instant::ZERO; lanes.len()],
            lanes,
            frames: FramePool::new(spec.mtu as usize + ETHERNET + SPARE),
            received: Vec::with_capacity(BATCH),
            commands,
            reports,
            syncs: Vec::new(),
            finished: Vec::new(),
            next_tick: start + TICK,
            next_hand_over: start + HAND_OVER,
            next_trouble: start + TROUBLE,
            send_errors: 0,
            oversized: 0,
            ends_without_interface: false,
            failed: Vec::new(),
            lost: Vec::new(),
            spec: spec.clone(),
            lead: clock::lead(),
        })
    }

    /// Forwards frames until the process exits.
    pub(crate) fn run(mut self) {
        self.forward();
    }

    /// Forwards frames until one of the interfaces has gone, and returns the number of its port.
    pub(crate) fn run_while_complete(mut self) -> usize {
        self.ends_without_interface = true;
        self.forward()
    }

    fn forward(&mut self) -> usize {
        loop {
            let next = self.release_due();
            // Taken before the sockets are read, so every frame that arrived earlier is read below.
            let now = clock::now();
            if next - now < QUIET {
                std::hint::spin_loop();
                continue;
            }
            let near = next - now < MARGIN;
            let more = self.receive(if near { SMALL_BATCH } else { BATCH });
            if self.ports.take_woken() {
                // Commands are handled in a tick, after the sockets have been read.
                self.next_tick = clock::now();
            }
            if now >= self.next_tick {
                self.tick(now, more);
                if let Some(number) = self.find_lost()
                    && self.ends_without_interface
                {
                    return number;
                }
            } else if !near && !more {
                self.wait();
            }
        }
    }

    /// Sends all frames that are due, those of all lanes in order of time, and returns when
    /// the next one will be.
    fn release_due(&mut self) -> Instant {
        let mut now = clock::now();
        loop {
            let (mut number, mut first, mut next) = (0, NEVER, NEVER);
            for (index, due) in self.due.iter().enumerate() {
                next = next.min(due.release);
                if due.release.min(due.event) < first {
                    (number, first) = (index, due.release.min(due.event));
                }
            }
            if first > now {
                return next;
            }
            let lane = &mut self.lanes[number];
            lane.settle(now, &mut self.frames);
            if let Some(held) = lane.first().filter(|held| held.release <= now) {
                let bytes = &self.frames.get(held.frame.number)[..held.frame.len];
                if self.ports.get(number ^ 1).send(bytes).is_err() {
                    self.send_errors += 1;
                    note(&mut self.failed, number ^ 1);
                }
                lane.released(now, &mut self.frames);
                now = clock::now();
            }
            self.schedule(number);
        }
    }

    /// Notes when a lane is due next, after it has changed.
    fn schedule(&mut self, number: usize) {
        let lane = &self.lanes[number];
        self.due[number] = Due {
            release: lane.first().map_or(NEVER, |held| held.release),
            event: lane.next_event().unwrap_or(NEVER),
        };
    }

    /// Reads up to `max` frames from each port that has some and returns whether one of them may have more.
    fn receive(&mut self, max: usize) -> bool {
        self.ports.look();
        let mut any = false;
        for place in 0..self.ports.ready_count() {
            let Some((number, port)) = self.ports.ready(place) else { continue };
            match port.receive(&mut self.frames, max, &mut self.received) {
                Ok(more) => any |= more,
                Err(_) => note(&mut self.failed, number),
            }
            for received in self.received.drain(..) {
                self.lanes[number].receive(received, &mut self.frames);
            }
            self.schedule(number);
        }
        any
    }

    /// Does the periodic work; `backlog` if frames that arrived before `now` may still be unread.
    fn tick(&mut self, now: Instant, backlog: bool) {
        // Under a flood, first allow some time to read the backlog, but do not hold up the log for ever.
        if backlog && now - self.next_tick < HAND_OVER {
            return;
        }
        self.next_tick = now + TICK;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let missed = self.ports.get(number).overflows();
            lane.link.advance(now - SETTLED);
            if missed > 0 {
                lane.link.missed(now, missed);
            }
            while let Some(interval) = lane.link.take_finished() {
                self.closed[number] = interval.start + interval.length;
                self.finished.push((number, interval));
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            self.handle(command, now);
        }
        for number in 0..self.lanes.len() {
            self.lanes[number].settle(now, &mut self.frames);
            self.schedule(number);
        }
        self.hand_over(now);
    }

    fn handle(&mut self, command: Command, now: Instant) {
        // Sending the answer fails only if the client has gone, which does not matter here.
        match command {
            Command::Cross(cross, begins, answer) => {
                self.spec.cross = cross;
                for (number, lane) in self.lanes.iter_mut().enumerate() {
                    let (link, direction) = of_lane(number);
                    let side = self.spec.links[link].path.side(direction);
                    if begins && side.varies() {
                        lane.set_link(now, side);
                    }
                    lane.link.set_cross(now, &self.spec.cross_on(of_lane(number).0));
                }
                let _ = answer.send(now);
            }
            Command::Paths(paths, answer) => {
                for (link, path) in paths {
                    let before = &self.spec.links[link].path;
                    for (lane, direction) in self.lanes[2 * link..].iter_mut().zip(Direction::BOTH) {
                        let (before, after) = (before.side(direction), path.side(direction));
                        if after.is_same_but_queue(before) {
                            lane.link.set_queue(now, after);
                        } else if after != before {
                            // The times of what varies count from now.
                            lane.set_link(now, after);
                        }
                    }
                    self.spec.links[link].path = path;
                }
                let _ = answer.send(now);
            }
            Command::Sync(until, answer) => self.syncs.push((until, answer)),
        }
    }

    fn hand_over(&mut self, now: Instant) {
        let closed = self.closed.iter().min().copied().unwrap_or_default();
        let due = |until: Instant| closed >= until;
        let asked = self.syncs.iter().any(|(until, _)| due(*until));
        if self.finished.is_empty() || (now < self.next_hand_over && !asked) {
            return;
        }
        self.next_hand_over = now + HAND_OVER;
        // The writer lives as long as the process.
        let _ = self.reports.send(Report::Intervals(std::mem::take(&mut self.finished)));
        let routers: Vec<RouterReport> = self.lanes.iter_mut().enumerate().map(router).collect();
        self.oversized += routers.iter().map(|report| report.oversized).sum::<u64>();
        let _ = self.reports.send(Report::Routers(routers));
        for (_, answer) in self.syncs.extract_if(.., |(until, _)| due(*until)) {
            let _ = self.reports.send(Report::Synced(answer));
        }
        if now >= self.next_trouble {
            self.next_trouble = now + TROUBLE;
            self.report_trouble();
        }
    }

    /// Returns the number of a port whose interface has gone, and says so.
    fn find_lost(&mut self) -> Option<usize> {
        let is_new = |number: &&usize| !self.lost.contains(number) && self.ports.get(**number).has_gone();
        let number = *self.failed.iter().find(is_new)?;
        self.lost.push(number);
        let link = &self.spec.links[of_lane(number).0].name;
        let text = format!(
            "an interface at an end of the link `{link}` has gone; the link carries nothing any more"
        );
        let _ = self.reports.send(Report::Trouble(text));
        Some(number)
    }

    /// Reports frames that did not get through as they should.
    fn report_trouble(&mut self) {
        let troubles = [
            (std::mem::take(&mut self.send_errors), "frames could not be sent"),
            (
                std::mem::take(&mut self.oversized),
                "frames larger than the MTU were dropped; turn segmentation offloads off where they come from",
            ),
            (
                self.ports.take_unfinished(),
                "frames had no checksum; turn transmit checksum offload off where they come from",
            ),
        ];
        for (count, text) in troubles {
            if count > 0 {
                let _ = self.reports.send(Report::Trouble(format!("{count} {text}")));
            }
        }
    }

    /// Starts over if the clock was stepped, because all times in the links are wrong then.
    fn restart_after_clock_step(&mut self) {
        let lead = clock::lead();
        let jump = lead - std::mem::replace(&mut self.lead, lead);
        if -JUMP < jump && jump < JUMP {
            return;
        }
        let now = clock::now();
        for (lane, new) in self.lanes.iter_mut().zip(lanes(&self.spec, now)) {
            lane.clear(&mut self.frames);
            *lane = new;
        }
        self.due.fill(Due { release: NEVER, event: NEVER });
        self.closed.fill(Instant::ZERO);
        self.next_tick = now;
        self.next_hand_over = now;
        self.next_trouble = now;
        let _ = self.reports.send(Report::Trouble(format!(
            "the clock was stepped by {jump}; the emulator restarted its intervals"
        )));
    }

    /// Sleeps until a frame or a command arrives, or until shortly before the next release or tick.
    fn wait(&mut self) {
        let until = self.due.iter().map(|due| (due.release - MARGIN).min(due.event));
        let left = until.fold(self.next_tick, Instant::min) - clock::now();
        if left > Duration::ZERO {
            self.ports.wait(left);
            self.restart_after_clock_step();
        }
    }
}

/// Adds a number to a list that does not have it.
fn note(list: &mut Vec<usize>, number: usize) {
    if !list.contains(&number) {
        list.push(number);
    }
}

/// Returns what the router at the queue of a lane did since the last call.
fn router((number, lane): (usize, &mut Lane)) -> RouterReport {
    let headers = (!lane.link.versions().is_empty()).then(|| lane.headers());
    RouterReport {
        lane: number,
        oversized: lane.take_oversized(),
        headers,
        records: lane.link.take_records(),
    }
}

/// Creates the lanes of all links, empty.
fn lanes(spec: &Spec, start: Instant) -> Vec<Lane> {
    let lane = |number| {
        let (link, direction) = of_lane(number);
        Lane::new(spec, link, direction, start)
    };
    (0..2 * spec.links.len()).map(lane).collect()
}

/// Returns the number of the link and the direction of a lane.
pub(crate) fn of_lane(number: usize) -> (usize, Direction) {
    (number / 2, Direction::BOTH[number % 2])
}

/// Asks the kernel to schedule this process punctually; returns a sentence for each request that was refused.
pub(crate) fn prioritise() -> Vec<String> {
    leave_a_processor_to_the_hosts();
    let mut refused = prioritise_thread();
    // Niceness only counts within the session's autogroup; the group's own weight counts
    // against other sessions.
    if let Err(error) = std::fs::write("/proc/self/autogroup", "-20")
        && error.kind() != io::ErrorKind::NotFound
    {
        refused.push(format!("no higher priority for the session: {error}"));
    }
    refused
}

/// Does the part of [`prioritise`] that changes nothing but this thread and those that it will start.
pub(crate) fn prioritise_thread() -> Vec<String> {
    // Otherwise the kernel may delay timers of this thread by up to 50 us (timer slack).
    // SAFETY: plain system call without pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    short_slices().err().map(|error| format!("no higher priority: {error}")).into_iter().collect()
}

/// The CPU that the emulator leaves to programs in the nodes; `None` if there is only one.
///
/// A program that paces by spinning can be pinned there. Without this the kernel tends to wake the emulator
/// on the very CPU that spins: at 100 Mb/s more than one packet in a hundred was then 1 ms late.
pub fn host_processor() -> Option<usize> {
    let processors = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut usable = (0..CpuSet::count()).filter(|cpu| processors.is_set(*cpu) == Ok(true));
    let first = usable.next()?;
    usable.next().map(|_| first)
}

/// Keeps this thread and those it will start off [`host_processor`].
fn leave_a_processor_to_the_hosts() {
    let this = Pid::from_raw(0);
    let (Some(first), Ok(mut processors)) = (host_processor(), sched_getaffinity(this)) else { return };
    if processors.unset(first).is_ok() {
        // Fails only if the remaining CPUs have gone offline.
        let _ = sched_setaffinity(this, &processors);
    }
}

/// The time slice that this process requests: short slices are scheduled sooner (the kernel
/// allows 0.1 to 100 ms).
const SLICE: Duration = Duration::from_us(100);

/// Sets nice -20 and a short time slice for this thread and those it will start.
///
/// Not `SCHED_FIFO`: the kernel stops a spinning real-time thread for 50 ms in every second.
fn short_slices() -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: -20,
        sched_priority: 0,
        sched_runtime: SLICE.ns() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure is valid and states its own size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
