//! Which connections are split: what a policy says becomes what the programs know.

use headway_edge::{Policy, Split};

use super::{Session, SmallReceiver, Splitting};
use crate::error::Error;

/// Most hosts that are noted as those of which connections are split (`EDGE_SMALL_RECEIVERS`).
const MOST_SMALL_RECEIVERS: usize = 1_024;

impl Session {
    /// Has connections split from now on, as a policy says, by a relay that listens on these ports of the
    /// loopback addresses of IPv4 and IPv6; 0 for none. To be called with [`EdgeOptions::splits`] only.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn split_by(&mut self, policy: &Policy, ports: [u16; 2]) -> Result<(), Error> {
        self.relay = Some(ports);
        self.say_splitting(policy)
    }

    /// Lets all connections pass that begin from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn split_no_more(&mut self) -> Result<(), Error> {
        self.relay = None;
        self.edge.split(&Splitting::default())
    }

    pub(super) fn say_splitting(&mut self, policy: &Policy) -> Result<(), Error> {
        let Some(ports) = self.relay else { return Ok(()) };
        let classes = |split| {
            let all = policy.class.iter().zip(0..);
            all.filter(|(class, _)| class.split == Some(split))
                .fold(0, |bits, (_, index)| bits | 1_u32 << index)
        };
        let [all, held] = [Split::Always, Split::SmallReceivers].map(classes);
        self.edge.split(&Splitting { all, held, ports, unused: 0 })
    }

    /// Has the next connections of a host and class split.
    pub(super) fn split_next(&mut self, receiver: SmallReceiver) -> Result<(), Error> {
        if self.relay.is_none() || self.small_receivers.contains(&receiver) {
            return Ok(());
        }
        if self.small_receivers.len() == MOST_SMALL_RECEIVERS {
            self.forget_receivers()?;
        }
        self.edge.add_small_receiver(&receiver)?;
        self.small_receivers.insert(receiver);
        Ok(())
    }

    pub(super) fn forget_receivers(&mut self) -> Result<(), Error> {
        let known = std::mem::take(&mut self.small_receivers);
        known.iter().try_for_each(|receiver| self.edge.remove_small_receiver(receiver))
    }
}
