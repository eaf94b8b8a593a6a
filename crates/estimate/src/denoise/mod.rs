//! Removal of the effects of interrupt coalescing and bursty cross traffic on the gaps of a stream.

mod bass;
mod mean;
mod wavelet;

pub use bass::{Denoise, DenoiseOutcome, SpikePass, SpikeThresholds, bass_pass};
pub use mean::centred_mean;
pub use wavelet::{Wavelet, approximate};
