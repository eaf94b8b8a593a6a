//! Packets that wait for a server, in as many queues as the discipline has.

use headway_queue::{Label, Queue};
use headway_units::{Bytes, Instant};

use crate::ring::Ring;

/// What a queue knows of a packet that waits in it.
pub trait Waits: Copy + Default {
    /// Its size on the wire.
    fn size(&self) -> Bytes;

    /// When it arrived.
    fn arrived(&self) -> Instant;

    /// What says in which queue it waits, besides its congestion header.
    fn label(&self) -> Label;
}

/// Packets that wait: one FIFO for each queue of the discipline.
#[derive(Clone, Debug)]
pub struct Waiting<P> {
    queues: Vec<Ring<P>>,
}

impl<P: Waits> Waiting<P> {
    /// Creates the empty queues of a discipline.
    pub fn new(discipline: &Queue) -> Waiting<P> {
        let count = discipline.queues();
        // Of many queues few are used.
        let room = if count > 16 { 1 } else { 16 };
        Waiting { queues: (0..count).map(|_| Ring::with_capacity(room)).collect() }
    }

    /// Adds a packet to the queue with this number, which [`Queue::sort`] tells.
    pub fn push(&mut self, number: usize, packet: P) {
        self.queues[number].push(packet);
    }

    /// Takes the packet whose turn it is; the discipline must then judge it. `None` if none waits.
    pub fn pop(&mut self, discipline: &mut Queue) -> Option<P> {
        if let [only] = &mut self.queues[..] {
            return only.pop();
        }
        let queues = &self.queues;
        let number = discipline.next_queue(|number| queues[number].front().map(P::size))?;
        let packet = self.queues[number].pop()?;
        if discipline.sorts_by_label() {
            discipline.sort(None, packet.label());
        }
        Some(packet)
    }

    /// Takes a packet that must be dropped because all queues together are too long; call until `None`.
    pub fn pop_excess(&mut self, discipline: &mut Queue) -> Option<P> {
        let Queue::FqCodel(fq) = discipline else { return None };
        let number = fq.overfull()?;
        let packet = self.queues[number].pop()?;
        fq.dropped(number, packet.size());
        Some(packet)
    }

    /// Takes all packets, in order of arrival, and makes queues for the discipline that has taken
    /// the place of another.
    pub fn regroup(&mut self, discipline: &Queue) -> Vec<P> {
        let mut packets: Vec<P> =
            self.queues.iter_mut().flat_map(|queue| std::iter::from_fn(|| queue.pop())).collect();
        packets.sort_by_key(P::arrived);
        *self = Waiting::new(discipline);
        packets
    }

    /// Returns the queues.
    pub fn queues(&self) -> &[Ring<P>] {
        &self.queues
    }

    /// Returns the queue with this number.
    pub fn queue_mut(&mut self, number: usize) -> &mut Ring<P> {
        &mut self.queues[number]
    }

    /// Returns all packets, those of each queue in order.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.queues.iter().flat_map(|queue| (queue.head()..queue.tail()).map(|position| queue.at(position)))
    }

    /// Returns when the packet arrived that has waited longest.
    pub fn oldest(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.front().map(P::arrived)).min()
    }

    /// Returns the memory in use (bytes).
    pub fn memory(&self) -> usize {
        self.queues.iter().map(Ring::memory).sum()
    }
}
