//! Cards of receivers that coalesce interrupts: the module `headway_card` at the end of the
//! last wire before each.

use headway_control::Kind;
use headway_host::nic::{AckStamp, Coalescing};
use headway_scenario::Scenario;
use headway_units::ConfigError;

use super::Network;
use crate::plan::PlannedCard;

/// Fraction bits of the jitter in the module's options.
const SHARE_BITS: u32 = 16;
/// A large odd number, so that the seeds of cards differ in many bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A card of a node: what it does, and whether it holds ACKs and not data.
pub(super) type Card = (Coalescing, bool);

/// Rejects cards that the module does not have.
pub(super) fn check(scenario: &Scenario) -> Result<(), ConfigError> {
    let refuse = |key: &str, what: &str| Err(ConfigError::new(key, &format!("{what}; use `--on sim`")));
    for (name, host) in &scenario.host {
        for (key, card) in [("coalescing", host.coalescing), ("ack-coalescing", host.ack_coalescing)] {
            if matches!(card, Some(Coalescing::Adaptive { .. })) {
                return refuse(
                    &format!("host.{name}.{key}"),
                    "the kernel's cards are `fixed`, not `adaptive`",
                );
            }
        }
        for (index, flow) in scenario.flow.iter().enumerate() {
            let stamps =
                matches!(flow.controller.known(), Some(Kind::Rapid(_))) && flow.stamp == AckStamp::Ack;
            if stamps && flow.to == *name && host.coalescing.is_some() {
                let what = "an infinitely fast CPU acknowledges each packet when the driver has taken it";
                return refuse(&format!("flow[{index}].stamp"), what);
            }
        }
    }
    Ok(())
}

impl Network<'_> {
    /// Returns the cards of a node.
    pub(super) fn cards(&self, node: usize) -> Vec<Card> {
        let hosts = self.scenario.host.iter().filter(|(name, _)| self.topology.number(name) == Some(node));
        let of =
            |(coalescing, acks): (Option<Coalescing>, bool)| coalescing.map(|coalescing| (coalescing, acks));
        hosts
            .flat_map(|(_, host)| [(host.coalescing, false), (host.ack_coalescing, true)])
            .filter_map(of)
            .collect()
    }

    /// Puts cards on these devices in turn, the last ones before their node.
    pub(super) fn add_cards(&mut self, cards: &[Card], devices: &[(usize, String)]) {
        for ((coalescing, acks), (node, device)) in cards.iter().zip(devices) {
            let Coalescing::Fixed { interval, jitter, frames } = *coalescing else { continue };
            let number: usize = self.plan.nodes.iter().map(|node| node.cards.len()).sum();
            self.plan.nodes[*node].cards.push(PlannedCard {
                device: device.clone(),
                interval,
                jitter: (jitter * f64::from(1_u32 << SHARE_BITS)).round() as u32,
                frames,
                acks: *acks,
                seed: (self.seed ^ number as u64).wrapping_add(1).wrapping_mul(SPREAD),
            });
        }
    }
}
