//! Packets that are lost behind the queue.

use headway_traffic::channel::{LossBursts, Losses};
use headway_units::Instant;
use rand::Rng;

/// Losses of single packets, and those in bursts.
#[derive(Clone, Debug, Default)]
pub struct RandomLosses {
    /// A packet is lost when a random number is below this.
    threshold: u64,
    bursts: Option<Box<Losses>>,
}

impl RandomLosses {
    /// Creates the losses of link number `id` from `start` on, with the probability `loss`
    /// that a packet is lost.
    pub fn new(loss: f64, bursts: Option<LossBursts>, start: Instant, seed: u64, id: u64) -> RandomLosses {
        RandomLosses {
            threshold: (loss * u64::MAX as f64) as u64,
            bursts: bursts.map(|bursts| Box::new(Losses::new(bursts, start, seed, id))),
        }
    }

    /// Whether any packet may be lost.
    pub fn may_occur(&self) -> bool {
        self.threshold > 0 || self.bursts.is_some()
    }

    /// Returns whether a packet is lost that leaves at `at`; times must not decrease. `rng` decides
    /// about single packets.
    pub fn draw(&mut self, at: Instant, rng: &mut impl Rng) -> bool {
        let by_itself = self.threshold > 0 && rng.next_u64() < self.threshold;
        by_itself || self.bursts.as_mut().is_some_and(|bursts| bursts.loses(at))
    }
}
