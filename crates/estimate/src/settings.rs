//! Settings and scratch memory of the estimators.

use crate::denoise::{Denoise, Wavelet};
use crate::stream::Gaps;
use crate::{Excursion, PathChirp, Trend, prc_mt};
use headway_units::{Bytes, Duration, Rate};

/// Settings of all estimators; the default is for 10 Gb/s and packets of 9038 B.
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
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::scaled(1.0)
    }
}

/// The packet time for which the published thresholds were chosen: 9038 B at 10 Gb/s, in nanoseconds.
const USUAL_PACKET_NS: f64 = 7_230.0;

impl Settings {
    /// Returns the default with all time thresholds multiplied by `kappa` (rapid 2.10).
    pub fn scaled(kappa: f64) -> Settings {
        Settings {
            denoise: Denoise::scaled(kappa),
            excursion: Excursion::scaled(kappa),
            path_chirp: PathChirp::default(),
            trend: Trend::default(),
            tolerance: prc_mt::TOLERANCE,
        }
    }

    /// Returns the default scaled to the time of a `packet` on a link of `capacity`.
    ///
    /// The thresholds are never scaled down (rapid 2.10): faster links do not have more frequent interrupts
    /// for BASS to undo.
    pub fn for_link(packet: Bytes, capacity: Rate) -> Settings {
        Settings::scaled((capacity.time_for(packet).ns() as f64 / USUAL_PACKET_NS).max(1.0))
    }
}

/// Scratch memory of the estimators, kept between streams so that steady-state work does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(crate) gaps: Gaps,
    pub(crate) means: Vec<Duration>,
    pub(crate) delays: Vec<f64>,
    pub(crate) wavelet: Wavelet,
}
