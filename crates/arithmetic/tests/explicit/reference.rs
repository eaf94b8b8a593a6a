//! The same laws in double precision, without regard to overflow: what the fixed-point ones are held against.

use headway_arithmetic::explicit::{Config, Detector, Law, TIME_BITS, flags};

const ONE: f64 = 65_536.0;

/// Returns a weight as routers have it: parameters, and shares of them, are multiples of 2^-16.
fn rounded(weight: f64) -> f64 {
    (weight * ONE).round().max(1.0) / ONE
}

/// A queue in SI units.
pub(crate) struct Reference {
    config: Config,
    pub(crate) rtt: f64,
    /// The time in which flows react, in s.
    response: f64,
    flows: f64,
    rtt_previous: f64,
    part: f64,
    sum_x: f64,
    sum_xrtt: f64,
    bytes: f64,
    packets: f64,
    packet: f64,
    previous: f64,
    pub(crate) weighted: f64,
    pub(crate) kappa: f64,
    empty: u32,
    pub(crate) xi: f64,
    epsilon: f64,
    pub(crate) rate: f64,
    /// The largest term of the last feedback.
    pub(crate) largest: f64,
}

impl Reference {
    pub(crate) fn new(config: &Config) -> Reference {
        let start = if config.capacity > 0 { config.capacity } else { 30_000 };
        let kappa = if config.law.tunes() { config.queue_max } else { config.kappa };
        Reference {
            config: *config,
            rtt: 0.05,
            response: 0.05,
            flows: 0.0,
            rtt_previous: 0.05,
            part: 1.0,
            sum_x: 0.0,
            sum_xrtt: 0.0,
            bytes: 0.0,
            packets: 0.0,
            packet: 1500.0,
            previous: 0.0,
            weighted: 0.0,
            kappa: kappa as f64,
            empty: 0,
            xi: 0.0,
            epsilon: 0.0,
            rate: start as f64,
            largest: 0.0,
        }
    }

    /// Returns the rate of a queue of one byte, or packet, per RTT.
    pub(crate) fn per_unit(&self) -> f64 {
        let unit = if self.config.flags & flags::PACKETS != 0 { self.packet } else { 1.0 };
        unit / self.response
    }

    /// Counts a packet; RTT and X in s.
    pub(crate) fn arrive(&mut self, rtt: f64, x: f64, bytes: f64) {
        self.bytes += bytes;
        self.packets += 1.0;
        if rtt > 0.0 {
            self.sum_x += x;
            self.sum_xrtt += x * rtt.min(1.0);
        }
    }

    /// Ends an interval of `elapsed` s with a persistent queue; returns the feedback in B/s. `found` is
    /// that of fixed point.
    pub(crate) fn control(&mut self, elapsed: f64, queue_bytes: f64, queue_packets: f64, found: f64) -> f64 {
        let overhead = f64::from(self.config.overhead);
        let input = (self.bytes + self.packets * overhead) / elapsed;
        self.rtt_previous = self.rtt;
        if self.sum_x > 0.0 {
            self.rtt = self.sum_xrtt / self.sum_x;
        }
        // Times are multiples of 2^-28 s.
        let units = f64::from(1_u32 << TIME_BITS);
        self.response = (self.rtt * units).round() / units;
        if self.config.law.is_rate() && self.sum_x > 0.0 && !self.published(flags::PUBLISHED_INTERVALS) {
            let between = (self.sum_x / self.packets * units).floor() / units;
            self.response = self.response.max(between.min(1.0));
        }
        self.part = self.part(elapsed);
        if self.packets > 0.0 {
            let time = self.response.max(self.sum_x / self.packets);
            self.flows += rounded((elapsed / time).min(1.0)) * (self.sum_x / elapsed - self.flows);
            self.packet = self.bytes / self.packets + overhead;
        }
        let bytes = queue_bytes + queue_packets * overhead;
        let q = if self.config.flags & flags::PACKETS != 0 { queue_packets } else { bytes };
        self.empty = if q == 0.0 { self.empty + 1 } else { 0 };
        let mut feedback = self.feedback(q, bytes, input, found);
        self.previous = q;
        if self.bytes == 0.0 {
            feedback = 0.0;
        } else if self.config.law.is_rate() {
            self.update_rate(feedback, input, input / self.packets);
        }
        (self.sum_x, self.sum_xrtt, self.bytes, self.packets) = (0.0, 0.0, 0.0, 0.0);
        feedback
    }

    /// Whether a part of the law is as published.
    fn published(&self, part: u32) -> bool {
        self.config.flags & part != 0
    }

    /// Whether R moves more often than once in d.
    fn moves_often(&self) -> bool {
        self.config.law != Law::Rcp && !self.published(flags::PUBLISHED_STEPS)
    }

    /// The share of the response time that an interval lasts.
    fn part(&self, elapsed: f64) -> f64 {
        let law = self.config.law;
        let shorter = law.is_rate() && (self.moves_often() || self.config.update_limit > 0);
        if shorter { rounded((elapsed * 1e9 / (self.response * 1e9).floor()).min(1.0)) } else { 1.0 }
    }

    /// Moves R; `single` is the rate of one packet per interval.
    fn update_rate(&mut self, feedback: f64, input: f64, single: f64) {
        let config = &self.config;
        let knows = config.law == Law::Rcp;
        let (total, top) = if knows { (config.capacity, config.capacity) } else { (0, config.line) };
        let share = if knows {
            self.rate * feedback / total as f64
        } else if self.moves_often() && self.flows > 0.0 {
            feedback / self.flows.max(1.0)
        } else {
            self.rate * feedback / input
        };
        let flows = self.flows.max(input / (total as f64 + single)).max(1.0);
        let moved = if knows {
            let least = if self.published(flags::PUBLISHED_FALL) { 0.0 } else { total as f64 / 4.0 / flows };
            (self.rate + share * self.part).max(least.min(self.rate))
        } else {
            let grown = if self.moves_often() { self.rtt_previous / self.rtt } else { 1.0 };
            let from = self.rate * (2.0 * grown + 1.0) / 3.0;
            from + (share * self.part).clamp(-0.5 * from, from)
        };
        self.rate = moved.min(top as f64).max(config.rate_min as f64);
    }

    fn feedback(&mut self, q: f64, bytes: f64, input: f64, found: f64) -> f64 {
        let config = self.config;
        let (alpha, beta) = (f64::from(config.alpha) / ONE, f64::from(config.beta) / ONE);
        let unit = if config.flags & flags::PACKETS != 0 { self.packet } else { 1.0 };
        let spare = alpha * (config.capacity as f64 - input);
        let terms = match config.law {
            Law::Blind | Law::RcpBlind => {
                self.weighted += rounded(0.25 * self.part) * (q - self.weighted);
                let chi = (1.0 / (5.0 - alpha - beta) * ONE).round() / ONE;
                let fill = [chi * config.queue_max as f64 * unit / self.response, 0.0, 0.0];
                let limit = 0.75_f64.powi(config.n as i32) * self.kappa;
                // Where the average is the limit but for its rounding, either is right.
                let undecided = (self.weighted - limit).abs() < limit / ONE;
                let fills =
                    if undecided { (found / fill[0] - 1.0).abs() < 1e-3 } else { self.weighted < limit };
                if fills { fill } else { self.follow(q, alpha, beta, unit) }
            }
            Law::Kappa | Law::RcpKappa => {
                self.tune(q);
                self.follow(q, alpha, beta, unit)
            }
            Law::Errors | Law::RcpErrors => {
                self.tune(q);
                self.integrate(q, alpha, beta, unit, spare);
                [spare, -self.xi, -beta * (q - self.kappa) * unit / self.response]
            }
            Law::Wxcp => {
                // Nothing was heard of the channel.
                self.weighted = 0.25 * q + 0.75 * self.weighted;
                [0.0, -beta * bytes / self.response, 0.0]
            }
            _ => {
                self.weighted = 0.25 * q + 0.75 * self.weighted;
                [spare, -beta * bytes / self.response, 0.0]
            }
        };
        self.largest = terms.iter().fold(0.0, |largest, term| term.abs().max(largest));
        terms.iter().sum()
    }

    fn follow(&self, q: f64, alpha: f64, beta: f64, unit: f64) -> [f64; 3] {
        let per_rtt = unit / self.response;
        [-alpha * (q - self.previous) / self.part * per_rtt, -beta * (q - self.kappa) * per_rtt, 0.0]
    }

    fn tune(&mut self, q: f64) {
        let config = &self.config;
        let (rho, top) = (rounded(f64::from(config.rho) / ONE * self.part), config.queue_max as f64);
        self.weighted = rho * q + (1.0 - rho) * self.weighted;
        let under = match config.detector {
            Detector::Empty => q == 0.0,
            Detector::EmptyForN => self.empty >= config.n,
            Detector::LowAverage => self.weighted < f64::from(config.tau) / ONE * self.kappa,
        };
        let deviation = (if under { top } else { q } - self.weighted).abs();
        self.kappa = (rho * deviation + (1.0 - rho) * self.kappa).clamp(config.kappa as f64, top);
    }

    fn integrate(&mut self, q: f64, alpha: f64, beta: f64, unit: f64, spare: f64) {
        let epsilon = beta / alpha * (q - self.kappa) * unit / self.response;
        if self.bytes == 0.0 {
            (self.xi, self.epsilon) = (0.0, 0.0);
            return;
        }
        let psi = rounded(f64::from(self.config.psi) / ONE * self.part);
        let bound = alpha * self.config.capacity.max(self.config.line) as f64;
        let step = psi * (epsilon + self.epsilon) / 2.0;
        if step >= 0.0 || spare <= self.xi || self.published(flags::PUBLISHED_INTEGRATOR) {
            self.xi = (self.xi + step).clamp(-bound, bound);
        }
        self.epsilon = epsilon;
    }
}
