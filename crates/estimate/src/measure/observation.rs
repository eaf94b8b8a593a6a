//! The part of a stream that the default method keeps.

use crate::response::{Delayed, Sample, busy_sample, whole_sample};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::delay::Baseline;
use super::response::end_bias;

/// The stored part of a stream; its samples change when the baseline falls.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// The index, send time and one-way delay of every packet.
    Packets(Vec<(u32, Instant, Duration)>),
    /// Sums over whole buffering events of a coalescing receiver, and the lowest delay in the second half
    /// of the stream.
    Events(Sample, Duration),
}

impl Observation {
    /// Returns the available bandwidth while there was a queue, and during the whole stream.
    pub(super) fn samples(
        &self,
        baseline: &Baseline,
        packet: Bytes,
        capacity: Rate,
    ) -> (Option<Sample>, Option<Sample>) {
        match self {
            Observation::Packets(packets) => {
                let above = |&(index, sent, delay): &(u32, Instant, Duration)| Delayed {
                    index,
                    sent,
                    queueing: baseline.above(delay),
                };
                let packets: Vec<Delayed> = packets.iter().map(above).collect();
                let busy = busy_sample(&packets, packet, capacity);
                let whole = whole_sample(&packets, packet, capacity, busy.as_ref());
                (busy.map(|sample| corrected(sample, capacity)), whole)
            }
            Observation::Events(sample, late_delay) => {
                let censored = baseline.above(*late_delay) < capacity.time_for(packet) / 2;
                let sample = Sample { censored, ..*sample };
                (Some(sample), Some(sample))
            }
        }
    }
}

/// Corrects a sample for the start of its busy periods.
fn corrected(sample: Sample, capacity: Rate) -> Sample {
    let seen = 1.0 - sample.available_bps / capacity.bps_f64();
    let bias = end_bias(capacity, sample.duration).min(seen);
    Sample { available_bps: sample.available_bps - capacity.bps_f64() * bias, ..sample }
}
