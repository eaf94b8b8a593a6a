//! The control block of a queue and the events that change it.

use super::{Config, Fault, Header, Record};

/// What becomes of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may join the queue.
    Accepted,
    /// The queue does not serve its version of the header: it is to be dropped.
    BadVersion,
    /// There is no such format: it is to be dropped.
    BadFormat,
}

/// What [`ExplicitQueue::run_timer`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The persistent queue was measured.
    Measured,
    /// A control interval ended; there is a new record.
    Controlled,
    /// A control interval goes on, because nothing has arrived.
    Continued,
}

/// `struct explicit_queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    sum_x: u64,
    sum_xrtt: u64,
    sum_xrtt_low: u64,
    input_bytes: u64,
    input_packets: u64,
    unsaid_bytes: u64,
    unsaid_packets: u64,
    positive_scale: u64,
    negative_scale: u64,
    positive: u64,
    negative: u64,
    remainder: i64,
    rate: u64,
    written_rate: u32,
    first_rate: u32,
    least_bytes: u64,
    queue_due: u64,
    least_packets: u32,
    queue_packets: u32,
    queue_bytes: u64,
    control_due: u64,
    interval: u64,
    step: u64,
    average_rtt: u64,
    average_rtt_ns: u64,
    response: u64,
    response_ns: u64,
    packet: u64,
    flows: u64,
    rtt_previous: u64,
    drops_previous: u64,
    queue_previous: u64,
    weighted: u64,
    kappa: u64,
    tau: u64,
    tau_n: u32,
    empty: u32,
    xi: i64,
    epsilon: i64,
    growth: i64,
    beta_row: u32,
    calm: u32,
    drops: u64,
    rejected: u64,
    config: Config,
    record: Record,
    air: Air,
}

/// What the MAC of an 802.11 interface has counted since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Heard {
    /// How long the channel was busy, also with frames of the interface (ns).
    pub busy: u64,
    /// How long with those alone, and their ACKs (ns).
    pub own: u64,
    /// Bytes of the interface that arrived.
    pub bytes: u64,
    /// Its attempts that did not arrive.
    pub retries: u32,
    /// The address of a station whose frame it understood, whomever it was for; 0 for none.
    pub source: u32,
}

/// `struct explicit_air`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
struct Air {
    busy: u64,
    own: u64,
    bytes: u64,
    rate: u64,
    average_retries: u64,
    retries: u32,
    neighbours: u32,
    sources: [u32; 64],
}

impl Default for Air {
    fn default() -> Air {
        let sources = [0; 64];
        Air { busy: 0, own: 0, bytes: 0, rate: 0, average_retries: 0, retries: 0, neighbours: 0, sources }
    }
}

unsafe extern "C" {
    safe fn explicit_init(queue: &mut State, config: &Config, now: u64, random: u32);
    safe fn explicit_set_config(queue: &mut State, config: &Config);
    safe fn explicit_arrive(queue: &mut State, header: Option<&Header>, bytes: u32) -> u32;
    safe fn explicit_drop(queue: &mut State);
    safe fn explicit_hear(queue: &mut State, heard: &Heard);
    safe fn explicit_depart(
        queue: &mut State,
        header: Option<&mut Header>,
        bytes: u32,
        backlog_bytes: u64,
        backlog_packets: u32,
    ) -> u32;
    safe fn explicit_timer(queue: &mut State, backlog_bytes: u64, backlog_packets: u32, now: u64) -> u32;
}

/// The queue of an explicit router; it holds no packets.
///
/// Before every arrival and departure, and whenever [`due`](ExplicitQueue::due) has come, its owner calls
/// [`run_timer`](ExplicitQueue::run_timer) until that returns `None`.
#[derive(Clone, Debug)]
pub struct ExplicitQueue {
    state: State,
}

impl ExplicitQueue {
    /// Creates an empty queue at time `now` in ns; `random`, any number, moves its timers by up to 20 %, so
    /// that routers do not act together.
    ///
    /// # Errors
    ///
    /// Returns the first parameter that is out of its range.
    pub fn new(config: &Config, now: u64, random: u32) -> Result<ExplicitQueue, Fault> {
        config.check()?;
        let mut state = State::default();
        explicit_init(&mut state, config, now, random);
        Ok(ExplicitQueue { state })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.state.config
    }

    /// Adopts a configuration at run time; what the laws before and after have in common
    /// stays (xcp-rcp F25, F42).
    ///
    /// # Errors
    ///
    /// Returns the first parameter that is out of its range; the queue then stays as it is.
    pub fn set_config(&mut self, config: &Config) -> Result<(), Fault> {
        config.check()?;
        explicit_set_config(&mut self.state, config);
        Ok(())
    }

    /// Counts a packet of `bytes` that arrives, whether or not there is room for it; `header` is `None` if it
    /// has none (xcp-rcp 2.4).
    pub fn arrive(&mut self, header: Option<&Header>, bytes: u32) -> Verdict {
        match explicit_arrive(&mut self.state, header, bytes) {
            0 => Verdict::Accepted,
            1 => Verdict::BadVersion,
            _ => Verdict::BadFormat,
        }
    }

    /// Notes that a packet that arrived found no room.
    pub fn drop_packet(&mut self) {
        explicit_drop(&mut self.state);
    }

    /// Notes what the MAC below the queue has counted, for [`Law::Wxcp`](super::Law::Wxcp)
    /// (xcp-rcp 2.11, F37).
    pub fn hear(&mut self, heard: &Heard) {
        explicit_hear(&mut self.state, heard);
    }

    /// Lowers the feedback of a packet of `bytes` that leaves the queue, with the backlog behind it; returns
    /// whether it changed (xcp-rcp 2.7, 2.12).
    pub fn depart(
        &mut self,
        header: Option<&mut Header>,
        bytes: u32,
        backlog_bytes: u64,
        backlog_packets: u32,
    ) -> bool {
        explicit_depart(&mut self.state, header, bytes, backlog_bytes, backlog_packets) != 0
    }

    /// Returns when [`run_timer`](ExplicitQueue::run_timer) has something to do, in ns.
    pub fn due(&self) -> u64 {
        self.state.queue_due.min(self.state.control_due)
    }

    /// Does one thing that has become due by `now`, as if at the time when it did; `None` if nothing has.
    ///
    /// The backlog is the one since the last event of the queue. After a long silence a few thousand calls
    /// return `None`, however long it was.
    pub fn run_timer(&mut self, backlog_bytes: u64, backlog_packets: u32, now: u64) -> Option<Event> {
        match explicit_timer(&mut self.state, backlog_bytes, backlog_packets, now) {
            0 => None,
            1 => Some(Event::Measured),
            2 => Some(Event::Controlled),
            _ => Some(Event::Continued),
        }
    }

    /// Returns the record of the last control interval; all fields are 0 before the end of the first.
    pub fn record(&self) -> &Record {
        &self.state.record
    }

    /// Returns the rate R in B/s, with 16 fraction bits; 0 until a law of RCP was set.
    pub fn rate(&self) -> u64 {
        self.state.rate
    }

    /// Returns the persistent queue in bytes, without overhead (xcp-rcp 2.5).
    pub fn queue_bytes(&self) -> u64 {
        self.state.queue_bytes
    }

    /// Returns the packets of the persistent queue.
    pub fn queue_packets(&self) -> u32 {
        self.state.queue_packets
    }

    /// Returns the packets with a header of another version or format since the beginning.
    pub fn rejected(&self) -> u64 {
        self.state.rejected
    }
}
