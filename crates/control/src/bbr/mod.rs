//! BBR, version 1: paces at the maximum recent delivery rate and keeps about two bandwidth-delay products
//! (BDPs) in flight (Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00;
//! details as in Linux 6.12).
//!
//! Two numbers model the path: `bandwidth`, the maximum sample of the last ten round trips, and `min_rtt`,
//! the minimum RTT of the last ten seconds. The pacing rate is a gain times bandwidth, less a margin; the
//! window is a gain times the BDP, plus the bursts that hosts hold. Losses do not change the model. In the
//! first round trip of a recovery BBR sends no more than is delivered (packet conservation), and at its end
//! it restores the window.
//!
//! ```text
//!             three rounds without          flight down to one
//!             a quarter more bandwidth      bandwidth-delay product
//!   STARTUP ---------------------> DRAIN ---------------------> PROBE_BW  (gains 5/4, 3/4, six times 1)
//!   gain 2.89                      gain 0.34                     |     ^
//!      ^                                                         |     | at least 200 ms and a round trip
//!      |                              min_rtt is ten seconds old v     | with four segments in flight
//!      +------------------------------------------------------- PROBE_RTT (from every other state)
//!        when the pipe has not been filled yet
//! ```
//!
//! If two consecutive intervals lose a fifth each and agree in their rates, there is a policer, and their
//! mean replaces the maximum sample ([`long_term`]). If ACKs come aggregated, the window grows by the
//! aggregates ([`aggregation`]).

mod aggregation;
mod filter;
mod long_term;
mod model;
#[cfg(test)]
mod tests;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::aggregation::Aggregation;
use self::filter::MaxFilter;
use self::long_term::LongTerm;
use self::model::payload_rate;
use super::{Ack, Congestion, Controller, Delivery, Metrics, Needs, RecoveryState, Start};
use headway_units::{Duration, Instant, Rate};

/// Bandwidths are in segments per microsecond times 2 to this, that is, from 0.06 segments per second up.
/// They are integers, so that runs are the same on every machine.
const SCALE: u32 = 24;
/// Gains are in units of 1/256.
const UNIT: u64 = 256;
/// Gain of STARTUP, 2/ln 2: the smallest that doubles the rate every round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Gain of DRAIN, the inverse: drains in one round trip the queue that STARTUP built in one.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// Gain of the window in PROBE_BW: two BDPs tolerate delayed and aggregated ACKs.
const WINDOW_GAIN: u64 = 2 * UNIT;
/// Pacing gains of PROBE_BW, each for about one min_rtt: probe for more, drain the queue that made, cruise.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The number of phases from which the first is drawn, all but the one that drains: flows
/// must not probe in step.
const FIRST_PHASES: u32 = 7;
/// Window of the bandwidth filter in round trips: a cycle and two more.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// Percent by which the pacing rate stays below the estimate, so that queues drain on average.
const MARGIN: u64 = 1;
/// How long a minimum RTT is valid.
const MIN_RTT_AGE: Duration = Duration::from_ms(10_000);
/// Minimum duration of PROBE_RTT with few segments in flight: 2 % of the ten seconds.
const PROBE_RTT_TIME: Duration = Duration::from_ms(200);
/// Minimum window in segments: two ACKs of two segments each in flight.
const MIN_WINDOW: u32 = 4;
/// The pipe is full after this many round trips in which the bandwidth has not grown by [`FULL_GROWTH`].
const FULL_ROUNDS: u32 = 3;
/// See [`FULL_ROUNDS`].
const FULL_GROWTH: u64 = UNIT * 5 / 4;
/// The RTT that the first pacing rate assumes before any sample, us.
const NOMINAL_RTT: u64 = 1000;
/// Linux's initial window in segments: before this many deliveries the window grows whatever the model says.
const FIRST_WINDOW: u64 = 10;
/// Below this rate in payload bytes per second (1.2 Mb/s) bursts are single segments.
const SINGLE_SEGMENT_RATE: u64 = 1_200_000 / 8;
/// Most payload bytes in a burst: those of one packet before segmentation (65535 less headers in Linux).
const LARGEST_BURST: u64 = 65_215;
/// A burst lasts 1/2^10 s, about a millisecond (Linux's `sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;

/// The states of the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The controller; all its arithmetic is in integers.
#[derive(Clone, Debug)]
pub struct Bbr {
    mss: u64,
    /// Wire bytes of a full segment.
    wire: u64,
    random: Pcg64Mcg,
    mode: Mode,
    bandwidth: MaxFilter,
    /// Round trips so far, and the count of delivered segments at which the present one ends.
    rounds: u64,
    round_end: u64,
    round_start: bool,
    /// Minimum RTT in microseconds, and when it was measured.
    min_rtt: Option<u64>,
    min_rtt_at: Instant,
    /// When PROBE_RTT may end; `None` until few enough segments are in flight.
    probe_rtt_end: Option<Instant>,
    probe_rtt_round_done: bool,
    /// The phase in [`CYCLE`] and when it began.
    phase: usize,
    phase_start: Instant,
    pacing_gain: u64,
    window_gain: u64,
    /// Whether the pipe has been full; otherwise the bandwidth to exceed, and the round trips in which
    /// it was not exceeded.
    full: bool,
    full_bandwidth: u64,
    full_rounds: u32,
    /// The recovery state after the last ACK.
    state: RecoveryState,
    /// Whether packet conservation applies: in the first round trip of a recovery.
    conserving_packets: bool,
    /// The window before recovery or PROBE_RTT cut it.
    saved_window: u32,
    resumed: bool,
    seen_rtt: bool,
    long_term: LongTerm,
    aggregation: Aggregation,
    window: u32,
    ssthresh: f64,
    /// Payload bytes per second.
    pacing_rate: u64,
    /// Segments delivered and lost so far, and when the last was delivered.
    delivered: u64,
    lost: u64,
    delivered_at: Instant,
    /// Whether PROBE_RTT keeps the flow below the rate of the path.
    limiting_rate: bool,
}

impl Bbr {
    /// A controller in STARTUP.
    pub(crate) fn new(start: &Start) -> Bbr {
        let mut bbr = Bbr {
            mss: u64::from(start.mss.max(1)),
            wire: u64::from(start.wire.max(1)),
            random: Pcg64Mcg::seed_from_u64(start.seed),
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            rounds: 0,
            round_end: 0,
            round_start: false,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            probe_rtt_end: None,
            probe_rtt_round_done: false,
            phase: 0,
            phase_start: Instant::ZERO,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            full: false,
            full_bandwidth: 0,
            full_rounds: 0,
            state: RecoveryState::Open,
            conserving_packets: false,
            saved_window: 0,
            resumed: false,
            seen_rtt: false,
            long_term: LongTerm::default(),
            aggregation: Aggregation::default(),
            window: start.window.max(1),
            ssthresh: f64::INFINITY,
            pacing_rate: 0,
            delivered: 0,
            lost: 0,
            delivered_at: Instant::ZERO,
            limiting_rate: false,
        };
        bbr.start_pacing(NOMINAL_RTT);
        bbr
    }

    /// Sets the first pacing rate: the window over `rtt` microseconds, times the gain of STARTUP.
    fn start_pacing(&mut self, rtt: u64) {
        let bandwidth = (u64::from(self.window) << SCALE) / rtt.max(1);
        self.pacing_rate = payload_rate(self.mss, bandwidth, HIGH_GAIN);
    }

    /// Sets the pacing rate to `gain` times the estimate; before the pipe is full the rate only grows.
    fn set_pacing_rate(&mut self, gain: u64, smoothed: Option<Duration>) {
        if !self.seen_rtt
            && let Some(rtt) = smoothed
        {
            self.seen_rtt = true;
            self.start_pacing(micros(rtt));
        }
        let rate = payload_rate(self.mss, self.estimate(), gain);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Segments in one burst at the present rate.
    fn burst(&self) -> u64 {
        let bytes = (self.pacing_rate >> BURST_SHIFT).min(LARGEST_BURST);
        (bytes / self.mss).max(self.fewest().into()).min(127)
    }

    /// Fewest segments in a burst.
    fn fewest(&self) -> u32 {
        if self.pacing_rate < SINGLE_SEGMENT_RATE { 1 } else { 2 }
    }

    /// Saves the window before recovery or PROBE_RTT cuts it.
    fn save_window(&mut self) {
        let cut = self.state >= RecoveryState::Recovery || self.mode == Mode::ProbeRtt;
        self.saved_window = if cut { self.saved_window.max(self.window) } else { self.window };
    }

    /// Sets the window during recovery and at its end; returns whether packet conservation applies.
    fn recover_or_restore(&mut self, ack: &Ack, delivery: &Delivery) -> bool {
        let mut window = self.window.saturating_sub(delivery.losses).max(1);
        let conserved = ack.in_flight + ack.delivered;
        let before = std::mem::replace(&mut self.state, ack.state);
        if ack.state == RecoveryState::Recovery && before != RecoveryState::Recovery {
            self.conserving_packets = true;
            self.round_end = self.delivered;
            window = conserved;
        } else if before >= RecoveryState::Recovery && ack.state < RecoveryState::Recovery {
            window = window.max(self.saved_window);
            self.conserving_packets = false;
        }
        self.window = if self.conserving_packets { window.max(conserved) } else { window };
        self.conserving_packets
    }

    /// Moves the window towards its target, growing by no more than was delivered.
    fn set_window(&mut self, ack: &Ack, delivery: &Delivery) {
        if ack.delivered > 0 && !self.recover_or_restore(ack, delivery) {
            let product = self.bdp(self.estimate(), self.window_gain) + self.extra_acked();
            let target = self.with_burst_budget(product).min(u64::from(u32::MAX)) as u32;
            if self.full {
                self.window = (self.window + ack.delivered).min(target);
            } else if self.window < target || self.delivered < FIRST_WINDOW {
                self.window += ack.delivered;
            }
            self.window = self.window.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            self.window = self.window.min(MIN_WINDOW);
        }
    }

    /// Segments to add to the window because ACKs come aggregated.
    fn extra_acked(&self) -> u64 {
        if self.full { self.aggregation.extra_acked(self.estimate()) } else { 0 }
    }

    /// Leaves PROBE_RTT if it has lasted long enough.
    fn end_probe_rtt(&mut self, now: Instant) {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return;
        }
        self.min_rtt_at = now;
        self.window = self.window.max(self.saved_window);
        if self.full {
            self.enter_probe_bandwidth();
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Enters PROBE_BW at a random phase.
    fn enter_probe_bandwidth(&mut self) {
        self.mode = Mode::ProbeBandwidth;
        self.phase = CYCLE.len() - 1 - self.random.random_range(0..FIRST_PHASES) as usize;
        self.next_phase();
    }

    fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_start = self.delivered_at;
    }
}

/// A duration in whole microseconds, at least zero.
fn micros(time: Duration) -> u64 {
    (time.ns() / 1000).max(0).unsigned_abs()
}

impl Controller for Bbr {
    /// Does nothing: BBR uses [`Controller::on_delivery`].
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_delivery(&mut self, ack: &Ack, delivery: &Delivery) {
        self.delivered = delivery.delivered;
        self.delivered_at = delivery.at;
        self.lost = delivery.lost;
        self.update_model(ack, delivery);
        self.set_pacing_rate(self.pacing_gain, ack.smoothed);
        self.set_window(ack, delivery);
    }

    /// Saves the window, because recovery cuts it.
    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.save_window();
    }

    fn on_timeout(&mut self, _now: Instant, in_flight: u32, already_reduced: bool) {
        if !already_reduced {
            self.save_window();
        }
        self.window = 1;
        self.state = RecoveryState::Loss;
        self.full_bandwidth = 0;
        // Everything in flight counts as lost, and the RTO as the end of a round trip.
        self.lost += u64::from(in_flight);
        self.round_start = true;
        self.sample_long_term(1, false);
    }

    /// The window is restored when recovery ends; growth and losses before said nothing about the path.
    fn on_undo(&mut self, _window: f64, _ssthresh: f64) {
        (self.full_bandwidth, self.full_rounds) = (0, 0);
        let totals = self.totals();
        self.long_term.reset(&totals);
    }

    fn on_open(&mut self, now: Instant, rtt: Duration) {
        self.min_rtt = Some(micros(rtt));
        self.min_rtt_at = now;
        self.seen_rtt = true;
        self.start_pacing(micros(rtt));
    }

    fn on_resume(&mut self, now: Instant) {
        self.resumed = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBandwidth => self.set_pacing_rate(UNIT, None),
            Mode::ProbeRtt => self.end_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// The threshold is the target of DRAIN; infinite before.
    fn metrics(&self) -> Metrics {
        Metrics {
            window: f64::from(self.window),
            ssthresh: self.ssthresh,
            pacing_rate: Some(Rate::from_bps(self.pacing_rate * 8 * self.wire / self.mss)),
            min_burst: Some(self.fewest()),
            is_limiting_rate: self.limiting_rate,
        }
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, delivery_rate: true, ..Needs::default() }
    }
}
