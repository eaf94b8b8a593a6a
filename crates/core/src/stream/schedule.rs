//! The send gaps of a p-stream.

use crate::units::{Bytes, Duration, Rate};

/// How the probing rates of a p-stream are laid out: `rates` geometric steps of `packets_per_rate` packets each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of probing rates N_r, at least 1.
    pub rates: u32,
    /// Packets at each rate N_p, at least 1.
    pub packets_per_rate: u32,
    /// Ratio s between consecutive rates, greater than 1 for a rising stream and 1 for a single rate.
    pub step: f64,
}

/// The gaps one probe stream is to be sent with (rapid 2.2).
///
/// A schedule of n gaps is sent as n + 1 packets: gap i lies between the starts of packets i and i + 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Size of each packet on the wire, all headers and Ethernet preamble and gap included.
    pub packet: Bytes,
    /// Send gaps in order.
    pub gaps: Vec<Duration>,
    /// Average rate of the whole stream: all bits over all time (the harmonic mean of the probing rates).
    pub average: Rate,
}

impl Schedule {
    /// A p-stream whose average rate is `average` (rapid 2.2); its gaps sum to N * P / average within 1 ns a packet.
    pub fn p_stream(shape: Shape, average: Rate, packet: Bytes) -> Schedule {
        let packet_time = packet.get() as f64 * 8e9 / average.bps_f64().max(1.0);
        let slowdowns: Vec<f64> = (0..shape.rates.max(1)).map(|i| shape.step.powi(-(i as i32))).collect();
        let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
        let gaps = slowdowns
            .iter()
            .flat_map(|slowdown| {
                let gap = Duration::from_ns((packet_time * slowdown / mean).round() as i64);
                std::iter::repeat_n(gap, shape.packets_per_rate as usize)
            })
            .collect();
        Schedule { packet, gaps, average }
    }

    /// The time from the first packet to the last.
    pub fn duration(&self) -> Duration {
        self.gaps.iter().copied().sum()
    }

    /// The number of packets, one more than there are gaps.
    pub fn packets(&self) -> usize {
        self.gaps.len() + 1
    }

    /// All bytes of the stream on the wire.
    pub fn bytes(&self) -> Bytes {
        self.packet * self.packets() as u64
    }

    /// The highest probing rate in the stream; zero for a stream without gaps.
    pub fn top_rate(&self) -> Rate {
        self.gaps.iter().min().and_then(|gap| Rate::of(self.packet, *gap)).unwrap_or(Rate::ZERO)
    }
}
