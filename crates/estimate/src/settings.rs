//! Settings and scratch memory of the estimators.

use std::sync::Arc;

use crate::denoise::{Denoise, Wavelet};
use crate::learned::Learned;
use crate::stream::Gaps;
use crate::{Excursion, PathChirp, Trend, prc_mt};
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Duration, Rate};

/// Relative excess of receive over send gaps that counts. A published margin of 100 ns is less than what a
/// packet waits for its interrupt, spread over an event, so estimates are low (rapid 2.11 and F36).
const RELATIVE_MARGIN: f64 = 0.02;

/// Settings of all estimators; the default is the published one, for 10 Gb/s and packets of 9038 B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Denoising by BASS.
    pub denoise: Denoise,
    /// The excursion search of Rapid.
    pub excursion: Excursion,
    /// Segmentation of chirps.
    pub path_chirp: PathChirp,
    /// Pathload's trend tests.
    pub trend: Trend,
    /// PRC-MT: the fraction by which the received rate must fall below the sent rate to count as congestion.
    pub tolerance: f64,
    /// The capacity of the narrow link, in which some trained models count; `None` while it is not known.
    pub capacity: Option<Rate>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { capacity: Some(USUAL_CAPACITY), ..Settings::scaled(1.0) }
    }
}

/// The capacity for which the published thresholds were chosen.
const USUAL_CAPACITY: Rate = Rate::from_bps(10_000_000_000);

/// The packet time for which the published thresholds were chosen: 9038 B at 10 Gb/s, in nanoseconds.
const USUAL_PACKET_NS: f64 = 7_230.0;

impl Settings {
    /// Returns the default with all time thresholds multiplied by `kappa` (rapid 2.10), for a
    /// capacity that is not known.
    pub fn scaled(kappa: f64) -> Settings {
        Settings {
            denoise: Denoise::scaled(kappa),
            excursion: Excursion::scaled(kappa),
            path_chirp: PathChirp::default(),
            trend: Trend::default(),
            tolerance: prc_mt::TOLERANCE,
            capacity: None,
        }
    }

    /// Returns the default scaled to the time of a `packet` on a link of `capacity`, and with a margin of 2 %
    /// of the gap where that is more.
    ///
    /// The thresholds are never scaled down (rapid 2.10): faster links do not have more frequent interrupts
    /// for BASS to undo.
    pub fn for_link(packet: Bytes, capacity: Rate) -> Settings {
        let kappa = (capacity.time_for(packet).ns() as f64 / USUAL_PACKET_NS).max(1.0);
        let usual = Settings::scaled(kappa);
        let excursion = usual.excursion.with_relative_margin(RELATIVE_MARGIN);
        Settings { capacity: Some(capacity), excursion, ..usual }
    }
}

/// Scratch memory of the estimators, kept between streams so that steady-state work does not allocate, and
/// the model of the learned ones.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(crate) gaps: Gaps,
    pub(crate) means: Vec<Duration>,
    pub(crate) delays: Vec<f64>,
    pub(crate) wavelet: Wavelet,
    pub(crate) learned: Learned,
}

impl Scratch {
    /// Returns scratch memory with a model for the learned estimators.
    pub fn with_model(model: Arc<Model>) -> Scratch {
        Scratch { learned: Learned::new(model), ..Scratch::default() }
    }

    /// Returns why a measurement cannot have this answer, if no path of the model's training had one like it.
    pub(crate) fn unlike_training(&self, available: Rate, capacity: Option<Rate>) -> Option<Outside> {
        self.learned.model()?.check_free(available, capacity?).err()
    }

    /// Returns why the last stream that the model was asked about is unlike those that it has seen, if it is.
    pub fn outside(&self) -> Option<Outside> {
        self.learned.outside()
    }
}
