//! Estimates of a trained model in place of BASS (rapid 2.19).

use std::sync::Arc;

use headway_arithmetic::rapid::{Bound, Estimate, Gaps};
use headway_learned::{Model, Scratch, stream};
use headway_units::{Bytes, Duration};

/// From this share of the highest probing rate on, an answer means that at least this much is free: a model
/// answers with the nearer end of the probing rates where the truth lies beyond them, and a little less
/// where it is not sure.
const HIGHEST: f64 = 0.97;

/// A model and the memory that it needs.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    model: Arc<Model>,
    /// Bytes of a packet on the wire.
    packet: u32,
    send: Vec<Duration>,
    receive: Vec<Duration>,
    scratch: Scratch,
}

impl Learned {
    pub(super) fn new(model: Arc<Model>, packet: u32) -> Learned {
        Learned { model, packet, send: Vec::new(), receive: Vec::new(), scratch: Scratch::default() }
    }

    pub(super) fn memory(&self) -> usize {
        (self.send.capacity() + self.receive.capacity()) * size_of::<Duration>() + self.scratch.memory()
    }

    /// Returns what the model reads from a stream; `None` if it has not seen such streams.
    pub(super) fn estimate(&mut self, gaps: &Gaps) -> Option<Estimate> {
        copy(gaps.send(), &mut self.send);
        copy(gaps.receive(), &mut self.receive);
        let gaps = stream::Gaps { send: &self.send, receive: &self.receive };
        let packet = Bytes::new(self.packet.into());
        let found = self.model.rate(gaps, (packet, None), &mut self.scratch).ok()?.value.bps();
        let bound = if found as f64 >= HIGHEST * self.highest() { Bound::AtLeast } else { Bound::Within };
        Some(Estimate { rate: found, bound })
    }

    /// Returns the highest rate of the stream, in bit/s.
    fn highest(&self) -> f64 {
        let packets = self.model.shape().map_or(1, |shape| shape.packets_per_rate as usize);
        let last = &self.send[self.send.len().saturating_sub(packets)..];
        let time: Duration = last.iter().copied().sum();
        f64::from(self.packet) * 8e9 * last.len() as f64 / time.ns().max(1) as f64
    }
}

fn copy(gaps: &[u64], into: &mut Vec<Duration>) {
    into.clear();
    into.extend(gaps.iter().map(|gap| Duration::from_ns(*gap as i64)));
}
