//! Available bandwidth from the gaps of probe streams, and from what TCP connections show of themselves.
//!
//! [`stream`] has the gaps to send and the arrivals observed, [`denoise`] removes what interrupt coalescing
//! and bursts do to them, and there is a file or folder for each estimator. [`measure`] and [`locate`] are
//! complete measurements, sans-IO. Nothing here reads a clock, opens a socket or keeps global state: time and
//! random numbers are arguments.
//!
//! To add an estimator, write its file and add it to [`MultiRate`] (one estimate per stream) or
//! [`SingleRate`] (one verdict per stream).
//!
//! References such as `rapid 2.9` name the section of `papers/rapid/spec.md` that a rule or
//! constant comes from.
//!
//! # Decisions
//!
//! - **Every method starts alike.** Start-up and capacity come first, because thresholds scale with the
//!   packet time of the narrow link. P-streams are sent four in a row, and the first, which fills the queue,
//!   does not count: isolated ones answer too low.
//! - **The default estimator is [`response`],** not the excursion search of Rapid. That was made for a sender
//!   whose every packet is a probe, and answers with one of a few probing rates. Where a measurement must be
//!   cheap, the growth of the one-way delay over a stream says more. The literal method is `--method bass`.
//! - **The default has two readings of the same streams,** weighted by the probability that the path has a
//!   single queue: busy gaps with the capacity of the narrow link, precise as long as that is the tight link,
//!   and delays as reflected Brownian motion, which hold for any tight link.
//! - **Pathload groups delays,** as the original tool does: without groups its tests hardly ever detect a
//!   trend among packets of equal size.
//! - **There is no trait for estimators.** They are two enums with scratch memory owned by the caller; a
//!   trait with one user would not pay.

pub(crate) mod agreement;
pub(crate) mod belief;
pub(crate) mod bend;
mod constants;
pub mod denoise;
pub mod excursion;
pub mod hire;
pub mod imr;
pub mod kde;
pub(crate) mod knee;
mod learned;
pub mod locate;
pub mod measure;
mod normal;
pub mod null;
pub mod offline;
pub(crate) mod onset;
pub mod pathchirp;
pub mod pathload;
pub mod ppdd;
pub mod prc_mt;
pub mod question;
pub(crate) mod reflected;
pub mod response;
pub mod sabes;
#[cfg(any(test, feature = "sensitivity"))]
pub mod sensitivity;
pub mod series;
mod settings;
pub mod skew;
pub mod slcs;
pub mod stream;
pub mod tight;
pub mod trend;
pub mod vhf;

pub use excursion::Excursion;
pub use pathchirp::PathChirp;
pub use pathload::RateSearch;
pub use prc_mt::LengthTuning;
pub use settings::{Scratch, Settings};
pub use stream::{Arrival, Gaps, Refusal, Schedule, Shape, StreamRecord, Train, TrainRecord, TrainSchedule};
pub use trend::Trend;

use headway_units::Rate;

/// The relation between a stream's estimate and the rates that the stream probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Bound {
    /// No rate showed congestion: at least this much is available, possibly more.
    AtLeast,
    /// Congestion began or ended within the stream's range of rates.
    Within,
    /// Every rate showed congestion: at most this much is available, possibly less.
    AtMost,
}

/// An estimate of the available bandwidth from one multi-rate stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEstimate {
    /// The estimate, which counts the same bytes as the packet size it was computed with.
    pub rate: Rate,
    /// Whether the true value may lie beyond the rates probed.
    pub bound: Bound,
    /// Both ends of a 90 % interval, which only trained models have.
    pub interval: Option<(Rate, Rate)>,
}

impl StreamEstimate {
    pub(crate) const fn new(rate: Rate, bound: Bound) -> StreamEstimate {
        StreamEstimate { rate, bound, interval: None }
    }
}

/// The verdict of one single-rate stream about its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Decision {
    /// The rate is above the available bandwidth.
    Above,
    /// The rate is not above the available bandwidth.
    NotAbove,
    /// The stream is inconclusive.
    Ambiguous,
}

/// Defines estimators as an enum, in which a trained model is the last one, with their names and
/// texts.
macro_rules! estimators {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $one:ident: $name:literal, $summary:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$of])* $one,)+
            /// A trained model, which is in the [`Scratch`].
            Learned,
        }

        impl $type {
            /// All of them that need no model.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$one),+];

            /// Returns the name for command lines and reports.
            pub const fn name(self) -> &'static str {
                self.described().0
            }

            /// Returns one line for help texts.
            pub const fn summary(self) -> &'static str {
                self.described().1
            }

            const fn described(self) -> (&'static str, &'static str) {
                match self {
                    $($type::$one => ($name, $summary),)+
                    $type::Learned => ("learned", learned::SUMMARY),
                }
            }
        }
    };
}

estimators! {
    /// Estimators that derive the available bandwidth from one multi-rate stream.
    MultiRate {
        /// The average rate of the stream, regardless of what was observed.
        Null: "null", "returns the send rate; a baseline for the others";
        /// Excursion search on the raw gaps.
        Excursion: "excursion", "p-streams, excursion search on raw gaps";
        /// Excursion search on gaps denoised by multi-pass BASS.
        Bass: "bass", "p-streams, multi-pass BASS, excursion search";
        /// pathChirp's segmentation of delays.
        PathChirp: "pathchirp", "chirps, excursions of queueing delay";
        /// The same on chirps that are reflected at their centre, smoothed as in ASSOLO.
        ReflectedChirp: "reflected-chirp", "chirps densest around the estimate, excursions, smoothed as in ASSOLO";
        /// PRC-MT for each rate: the last rate before the first one judged above.
        PrcMtDp1: "prc-mt-dp1", "p-streams, PRC-MT per rate: last rate before the first above";
        /// PRC-MT for each rate: the last rate judged not above.
        PrcMtDp2: "prc-mt-dp2", "p-streams, PRC-MT per rate: last rate judged not above";
    }
}

impl MultiRate {
    /// Estimates the available bandwidth from one stream.
    ///
    /// # Errors
    /// Returns a [`Refusal`] when packets are missing or out of order, or when too few samples remain; the
    /// null estimator never refuses.
    pub fn estimate(
        self,
        stream: &StreamRecord,
        settings: &Settings,
        scratch: &mut Scratch,
    ) -> Result<StreamEstimate, Refusal> {
        if self == MultiRate::Null {
            return Ok(null::estimate(stream.average));
        }
        let Scratch { gaps, means, delays, learned, .. } = scratch;
        stream.gaps(gaps)?;
        let pick = |by| prc_mt::pick(by, stream.packet, &stream.intended, gaps, settings.tolerance);
        match self {
            MultiRate::Null | MultiRate::Excursion => settings.excursion.estimate(stream.packet, gaps),
            MultiRate::Bass => {
                settings.denoise.apply(gaps, means)?;
                settings.excursion.estimate(stream.packet, gaps)
            }
            MultiRate::PathChirp | MultiRate::ReflectedChirp => {
                imr::delays_from_gaps(gaps, delays);
                settings.path_chirp.estimate(stream.packet, gaps, delays)
            }
            MultiRate::PrcMtDp1 => pick(prc_mt::Pick::BeforeFirstAbove),
            MultiRate::PrcMtDp2 => pick(prc_mt::Pick::LastNotAbove),
            MultiRate::Learned => learned.estimate(stream.packet, gaps, settings.capacity),
        }
    }
}

estimators! {
    /// Estimators that decide whether the rate of a single-rate stream is above the available
    /// bandwidth.
    SingleRate {
        /// Pathload's trend tests on the medians of groups of delays.
        Pathload: "pathload", "binary search, PCT and PDT trend tests of Pathload";
        /// Trend tests on the means of ten groups of delays.
        ImrAvg: "imr-avg", "binary search, trend tests on averaged delays";
        /// Trend tests after three levels of wavelet approximation.
        ImrWavelet: "imr-wavelet", "binary search, trend tests on wavelet-denoised delays";
        /// BASS, then IMR-avg.
        BassImrAvg: "bass-imr-avg", "BASS before imr-avg";
        /// BASS, then IMR-wavelet.
        BassImrWavelet: "bass-imr-wavelet", "BASS before imr-wavelet";
        /// Received rate against sent rate.
        PrcMt: "prc-mt", "binary search, receive rate against send rate";
        /// BASS, then received rate against sent rate over the complete events.
        BassPrcMt: "bass-prc-mt", "BASS before prc-mt";
    }
}

impl SingleRate {
    /// Judges the rate of one stream.
    ///
    /// # Errors
    /// Returns a [`Refusal`] when packets are missing or out of order, or when too few samples remain.
    pub fn decide(
        self,
        stream: &StreamRecord,
        settings: &Settings,
        scratch: &mut Scratch,
    ) -> Result<Decision, Refusal> {
        let Scratch { gaps, delays, wavelet, learned, .. } = scratch;
        stream.gaps(gaps)?;
        match self {
            // Averaging within events preserves the sums, so more passes would change nothing.
            SingleRate::BassPrcMt => {
                settings.denoise.first_pass(gaps)?;
            }
            // Delays need the second pass against bursty cross traffic; further passes would turn a trend
            // into a few steps.
            SingleRate::BassImrAvg | SingleRate::BassImrWavelet => {
                settings.denoise.two_passes(gaps)?;
            }
            _ => {}
        }
        match self {
            SingleRate::PrcMt | SingleRate::BassPrcMt => {
                prc_mt::decide(&gaps.send, &gaps.receive, settings.tolerance)
            }
            SingleRate::Pathload => {
                imr::delays_from_gaps(gaps, delays);
                Ok(pathload::decide(delays, &settings.trend))
            }
            SingleRate::ImrAvg | SingleRate::BassImrAvg => {
                imr::delays_from_gaps(gaps, delays);
                imr::average(delays, &settings.trend)
            }
            SingleRate::ImrWavelet | SingleRate::BassImrWavelet => {
                imr::delays_from_gaps(gaps, delays);
                imr::wavelet(delays, &settings.trend, wavelet)
            }
            SingleRate::Learned => learned.decide(stream.packet, gaps, settings.capacity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bound;
    use crate::stream::{Arrival, Schedule, Shape};
    use headway_units::{Bytes, Duration, Instant};

    /// Returns the record of a stream whose packets all arrive 1 ms after they were sent.
    fn undisturbed(schedule: Schedule) -> StreamRecord {
        let mut sent = Instant::from_ns(1_000_000);
        let mut arrivals = Vec::new();
        for index in 0..schedule.packets() {
            let received = Some(sent + Duration::from_ms(1));
            arrivals.push(Arrival { index: index as u32, size: schedule.packet, sent, received });
            sent += schedule.gaps.get(index).copied().unwrap_or_default();
        }
        let Schedule { packet, gaps, average } = schedule;
        StreamRecord { id: 0, packet, average, intended: gaps, arrivals }
    }

    const PACKET: Bytes = Bytes::new(9038);

    #[test]
    fn every_estimator_answers_an_undisturbed_stream() {
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        let stream = undisturbed(Schedule::p_stream(shape, Rate::from_mbps(5_000.0), PACKET));
        let mut scratch = Scratch::default();
        for method in MultiRate::ALL {
            let estimate = method.estimate(&stream, &Settings::default(), &mut scratch).expect("64 samples");
            match method {
                MultiRate::Null => assert_eq!(estimate.rate, stream.average),
                _ => assert_eq!(estimate.bound, Bound::AtLeast, "{}", method.name()),
            }
        }
        let stream = undisturbed(Schedule::single_rate(Rate::from_mbps(5_000.0), 64, PACKET));
        for method in SingleRate::ALL {
            let decision = method.decide(&stream, &Settings::default(), &mut scratch);
            assert_eq!(decision, Ok(Decision::NotAbove), "{}", method.name());
        }
    }

    #[test]
    fn a_lost_packet_is_refused_by_all_but_the_null_estimator() {
        let mut stream = undisturbed(Schedule::single_rate(Rate::from_mbps(5_000.0), 64, PACKET));
        stream.arrivals[30].received = None;
        let mut scratch = Scratch::default();
        for method in MultiRate::ALL.into_iter().skip(1) {
            assert_eq!(method.estimate(&stream, &Settings::default(), &mut scratch), Err(Refusal::Lost));
        }
        for method in SingleRate::ALL {
            assert_eq!(method.decide(&stream, &Settings::default(), &mut scratch), Err(Refusal::Lost));
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = MultiRate::ALL.map(MultiRate::name).to_vec();
        names.extend(SingleRate::ALL.map(SingleRate::name));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn thresholds_follow_the_packet_time_of_the_link() {
        let settings = Settings::for_link(Bytes::new(1538), Rate::from_mbps(1_000.0));
        assert!((settings.excursion.margin.ns() - 170).abs() <= 1);
        let usual = Settings::for_link(PACKET, Rate::from_mbps(10_000.0));
        let literal = usual.excursion.with_relative_margin(0.0);
        assert_eq!(Settings { excursion: literal, ..usual }, Settings::default());
    }
}
