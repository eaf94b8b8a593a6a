//! The packets in a queue whose departure has not been judged yet, with their owners.

use std::collections::VecDeque;

use headway_core::Bytes;

use crate::meter::Owner;

/// Waiting packets in the order of the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    packets: VecDeque<(Owner, Bytes)>,
    /// Bytes of all of them.
    total: u64,
    /// Bytes of the cross traffic before the first host packet, and of that packet; `None` if no host packet waits.
    first_host: Option<(u64, Bytes)>,
}

impl Waiting {
    /// Adds a packet at the end.
    pub(crate) fn push(&mut self, owner: Owner, size: Bytes) {
        if owner == Owner::Host {
            self.first_host.get_or_insert((self.total, size));
        }
        self.packets.push_back((owner, size));
        self.total += size.get();
    }

    /// Removes the first packet.
    pub(crate) fn pop(&mut self) -> Option<(Owner, Bytes)> {
        let (owner, size) = self.packets.pop_front()?;
        self.total -= size.get();
        match (owner, &mut self.first_host) {
            (Owner::Cross, Some((before, _))) => *before -= size.get(),
            (Owner::Cross, None) => {}
            (Owner::Host, _) => self.first_host = self.find_host(),
        }
        Some((owner, size))
    }

    /// Returns the bytes of cross traffic before the first host packet, and the size of that packet; `None` if no host
    /// packet waits.
    pub(crate) fn first_host(&self) -> Option<(Bytes, Bytes)> {
        self.first_host.map(|(before, size)| (Bytes::new(before), size))
    }

    /// Looks at each packet of cross traffic once in its life, because it stops at the next host packet.
    fn find_host(&self) -> Option<(u64, Bytes)> {
        let mut before = 0;
        for (owner, size) in &self.packets {
            match owner {
                Owner::Host => return Some((before, *size)),
                Owner::Cross => before += size.get(),
            }
        }
        None
    }
}
