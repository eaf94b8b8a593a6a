//! The state of one connection and the events that change it.

use super::{Config, Estimate, Gaps, Packet, Stream, acks};

/// `RAPID_ESTIMATED` of `enum rapid_outcome`.
const ESTIMATED: u32 = 0;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    rate: u64,
    estimates: u64,
    length: u64,
    count: u32,
    censored: u32,
    queue: u64,
    stream: u32,
    phase: u32,
    recovering: u32,
    estimated: u32,
    refused: u32,
    crowded: u32,
    latest: Estimate,
    acks: acks::State,
    delay: Delay,
    rtt: u64,
    drained: u64,
    settled: u32,
    lost: u32,
    timed_out: u32,
    round_begin: u64,
    round_sum: u64,
    deviation: u64,
    round_estimates: u32,
    round: u32,
    falls: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Minimum {
    present: u64,
    before: u64,
    begin: u64,
    count: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Delay {
    clock: u64,
    stamped_at: u64,
    latest: u64,
    base: Minimum,
    near: Minimum,
    low: u64,
    last: u32,
    stamped: u32,
    waiting: u32,
    fresh: u32,
}

unsafe extern "C" {
    safe fn rapid_init(rapid: &mut State, config: &Config, rtt: u64);
    safe fn rapid_on_config(rapid: &mut State, config: &Config);
    safe fn rapid_next_stream(rapid: &mut State, config: &Config) -> Stream;
    safe fn rapid_on_packet(
        rapid: &mut State,
        config: &Config,
        gaps: &mut Gaps,
        scratch: &mut Gaps,
        packet: &Packet,
    ) -> u32;
    safe fn rapid_push_packet(rapid: &mut State, config: &Config, packet: &Packet) -> u32;
    safe fn rapid_on_stream(rapid: &mut State, config: &Config, gaps: &mut Gaps, scratch: &mut Gaps) -> u32;
    safe fn rapid_on_outcome(
        rapid: &mut State,
        config: &Config,
        outcome: u32,
        estimate: &mut Estimate,
    ) -> u32;
    safe fn rapid_on_estimate(rapid: &mut State, config: &Config, estimate: &Estimate, length: u64) -> i32;
    safe fn rapid_on_loss(rapid: &mut State, config: &Config);
    safe fn rapid_on_timeout(rapid: &mut State, config: &Config);
    safe fn rapid_on_recovered(rapid: &mut State, config: &Config) -> i32;
    safe fn rapid_on_retransmission(rapid: &mut State);
    safe fn rapid_on_undo(rapid: &mut State);
    safe fn rapid_on_rtt(rapid: &mut State, rtt: u64);
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Rapid {
    config: Config,
    state: State,
    gaps: Box<Gaps>,
    scratch: Box<Gaps>,
}

impl Rapid {
    /// Creates a connection; `rtt` is that of the handshake in ns, or 0 if unknown. Numbers of the
    /// configuration out of range are moved into it.
    pub fn new(config: Config, rtt: u64) -> Rapid {
        let config = config.bounded();
        let mut state = State::default();
        rapid_init(&mut state, &config, rtt);
        Rapid { config, state, gaps: Box::default(), scratch: Box::default() }
    }

    /// Returns what C code of other files works on.
    pub(super) fn parts(&mut self) -> (&mut State, &Config) {
        (&mut self.state, &self.config)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the configuration; streams in flight are ignored from now on.
    pub fn set_config(&mut self, config: Config) {
        self.config = config.bounded();
        rapid_on_config(&mut self.state, &self.config);
    }

    /// Returns the next p-stream. Call this when its first packet is about to be sent: the newest rate counts
    /// (rapid 2.3).
    pub fn next_stream(&mut self) -> Stream {
        rapid_next_stream(&mut self.state, &self.config)
    }

    /// Handles a packet whose fate is known, in the order of sending; returns how many updates
    /// of the rate it caused.
    pub fn on_packet(&mut self, packet: &Packet) -> u32 {
        rapid_on_packet(&mut self.state, &self.config, &mut self.gaps, &mut self.scratch, packet)
    }

    /// Handles a packet as [`on_packet`](Rapid::on_packet) does, and lets `estimate` answer for complete
    /// streams once start-up is over. Where it returns `None`, BASS answers.
    pub fn on_packet_with(
        &mut self,
        packet: &Packet,
        mut estimate: impl FnMut(&Gaps) -> Option<Estimate>,
    ) -> u32 {
        let mut updates = rapid_push_packet(&mut self.state, &self.config, packet);
        while acks::rapid_take(&mut self.state.acks, &mut self.gaps) != 0 {
            let found = if self.is_starting() { None } else { estimate(&self.gaps) };
            let (state, config) = (&mut self.state, &self.config);
            updates += match found {
                Some(mut found) => rapid_on_outcome(state, config, ESTIMATED, &mut found),
                None => rapid_on_stream(state, config, &mut self.gaps, &mut self.scratch),
            };
        }
        updates
    }

    /// Handles an estimate made elsewhere, from a stream whose send gaps sum to `length` ns; returns whether
    /// the rate was updated.
    pub fn on_estimate(&mut self, estimate: &Estimate, length: u64) -> bool {
        rapid_on_estimate(&mut self.state, &self.config, estimate, length) != 0
    }

    /// Begins a loss episode, unless one lasts. The rate falls when it ends.
    pub fn on_loss(&mut self) {
        rapid_on_loss(&mut self.state, &self.config);
    }

    /// Handles a retransmission timeout: a loss, with all streams in flight ignored from now on.
    pub fn on_timeout(&mut self) {
        rapid_on_timeout(&mut self.state, &self.config);
    }

    /// Ends a loss episode with its one cut; returns whether there was an episode.
    pub fn on_recovered(&mut self) -> bool {
        rapid_on_recovered(&mut self.state, &self.config) != 0
    }

    /// The RTT is `rtt` ns now.
    pub fn on_rtt(&mut self, rtt: u64) {
        rapid_on_rtt(&mut self.state, rtt);
    }

    /// Counts a packet that is sent again among the lost ones.
    pub fn on_retransmission(&mut self) {
        rapid_on_retransmission(&mut self.state);
    }

    /// Ends a loss episode that was spurious, without a cut.
    pub fn on_undo(&mut self) {
        rapid_on_undo(&mut self.state);
    }

    /// Returns the average rate of the next p-stream, in bit/s.
    pub fn rate(&self) -> u64 {
        self.state.rate
    }

    /// Returns whether the connection is in start-up.
    pub fn is_starting(&self) -> bool {
        self.state.phase == 0
    }

    /// Returns the latest estimate, or `None` before the first.
    pub fn latest(&self) -> Option<Estimate> {
        (self.state.estimated > 0).then_some(self.state.latest)
    }

    /// Returns the one-way delay of the latest stamped packet less that of the first one, in ns; `None` before
    /// that (rapid F26).
    pub fn one_way(&self) -> Option<i64> {
        (self.state.delay.stamped > 0).then_some(self.state.delay.latest.cast_signed())
    }

    /// Returns how many streams yielded an estimate; wraps.
    pub fn estimated(&self) -> u32 {
        self.state.estimated
    }

    /// Returns how many whole streams without a hole yielded none; wraps.
    pub fn refused(&self) -> u32 {
        self.state.refused
    }
}
