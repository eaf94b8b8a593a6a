//! The gaps of a stream, their denoising, and the estimate from them.

use super::{Config, Excursion, MAX_GAP, MAX_PACKETS, Thresholds};

/// Send and receive gaps of one stream, in ns; entry i of both arrays belongs to the same packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Gaps {
    begin: u32,
    end: u32,
    send: [u64; MAX_PACKETS],
    receive: [u64; MAX_PACKETS],
}

/// The result of one smoothing pass, with positions in the gaps that it was given (rapid 2.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Pass {
    largest: u64,
    thresholds: Thresholds,
    i: u32,
    begin: u32,
    head: u32,
    tail: u32,
    state: u32,
    changed: u32,
}

impl Pass {
    /// Returns whether any gap changed.
    pub fn changed(&self) -> bool {
        self.changed != 0
    }

    /// Returns the position of the first spike, or 0 without one.
    pub fn head(&self) -> usize {
        self.head as usize
    }

    /// Returns the position of the last spike, or the number of gaps without one.
    pub fn tail(&self) -> usize {
        self.tail as usize
    }
}

/// Where the available bandwidth lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Bound {
    /// The stream was congested from some rate on, or for some time.
    #[default]
    Within = 0,
    /// There was no excursion.
    AtLeast = 1,
    /// The whole stream was one excursion.
    AtMost = 2,
}

/// An estimate of the available bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Estimate {
    /// In bit/s.
    pub rate: u64,
    /// Which side of it the available bandwidth may lie on.
    pub bound: Bound,
}

/// The reason why a stream yields no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too few samples, before or after denoising.
    TooShort,
    /// Two packets left at the same time.
    SenderGaps,
}

/// Translates `enum rapid_outcome`.
fn outcome<T>(number: u32, estimate: T) -> Result<T, Refusal> {
    match number {
        0 => Ok(estimate),
        1 => Err(Refusal::TooShort),
        _ => Err(Refusal::SenderGaps),
    }
}

unsafe extern "C" {
    safe fn bass_pass(gaps: &mut Gaps, thresholds: &Thresholds) -> Pass;
    safe fn bass_smooth(gaps: &mut Gaps, scratch: &mut Gaps, window: u32) -> u32;
    safe fn rapid_denoise(gaps: &mut Gaps, scratch: &mut Gaps, config: &Config, window: u32) -> u32;
    safe fn excursion_search(
        gaps: &mut Gaps,
        settings: &Excursion,
        packet: u32,
        estimate: &mut Estimate,
    ) -> u32;
    safe fn rapid_estimate(
        gaps: &mut Gaps,
        scratch: &mut Gaps,
        config: &Config,
        window: u32,
        estimate: &mut Estimate,
    ) -> u32;
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { begin: 0, end: 0, send: [0; MAX_PACKETS], receive: [0; MAX_PACKETS] }
    }
}

impl Gaps {
    /// Replaces the contents by pairs of a send and a receive gap in ns; more than
    /// [`MAX_PACKETS`] are ignored.
    ///
    /// Send gaps above [`MAX_GAP`] and receive gaps above 2^51 ns, the longest between two
    /// stamps, count as these.
    pub fn fill(&mut self, pairs: impl IntoIterator<Item = (u64, u64)>) {
        (self.begin, self.end) = (0, 0);
        for ((send, receive), pair) in self.send.iter_mut().zip(&mut self.receive).zip(pairs) {
            (*send, *receive) = (pair.0.min(MAX_GAP), pair.1.min(1 << 51));
            self.end += 1;
        }
    }

    /// Returns the send gaps.
    pub fn send(&self) -> &[u64] {
        &self.send[self.begin as usize..self.end as usize]
    }

    /// Returns the receive gaps.
    pub fn receive(&self) -> &[u64] {
        &self.receive[self.begin as usize..self.end as usize]
    }

    /// Averages both arrays over each buffering event (rapid 2.9).
    pub fn bass_pass(&mut self, thresholds: Thresholds) -> Pass {
        let mut pass = bass_pass(self, &thresholds);
        pass.head -= self.begin;
        pass.tail -= self.begin;
        pass
    }

    /// Replaces each gap by the mean of the `window` gaps around it (rapid 2.10).
    pub fn smooth(&mut self, window: u32, scratch: &mut Gaps) {
        bass_smooth(self, scratch, window);
    }

    /// Runs all passes, the removal of cut-off events, and the moving average (rapid 2.10).
    ///
    /// # Errors
    /// [`Refusal::TooShort`] when fewer than 8 gaps remain.
    pub fn denoise(&mut self, config: &Config, window: u32, scratch: &mut Gaps) -> Result<(), Refusal> {
        outcome(rapid_denoise(self, scratch, config, window), ())
    }

    /// Estimates the available bandwidth from denoised gaps (rapid 2.11).
    ///
    /// # Errors
    /// [`Refusal::TooShort`] with fewer than twice `min_length` gaps, [`Refusal::SenderGaps`] when a send gap
    /// that enters the mean is zero.
    pub fn search(&mut self, settings: &Excursion, packet: u32) -> Result<Estimate, Refusal> {
        let mut estimate = Estimate::default();
        outcome(excursion_search(self, settings, packet.min(super::MAX_PACKET), &mut estimate), ())?;
        Ok(estimate)
    }

    /// Denoises and estimates; the result is at most the line rate.
    ///
    /// # Errors
    /// As [`Gaps::denoise`] and [`Gaps::search`].
    pub fn estimate(
        &mut self,
        config: &Config,
        window: u32,
        scratch: &mut Gaps,
    ) -> Result<Estimate, Refusal> {
        let mut estimate = Estimate::default();
        outcome(rapid_estimate(self, scratch, config, window, &mut estimate), ())?;
        Ok(estimate)
    }
}
