//! An ACK filter: ACKs that wait in a queue make room for newer ones that say more, as in CAKE's `ack-filter`
//! and in cable modems.

use headway_queue::Queue;
use headway_units::Bytes;

use super::Link;
use crate::packet::{DUPLICATE, ECE, Kind, Packet, REPORT};
use headway_link::Ring;

impl Link {
    /// An ACK has joined queue `number`: drops the first ACK of its flow there that is redundant.
    pub(super) fn filter_acks(&mut self, number: usize) {
        let Some(staged) = &mut self.staged else { return };
        let Some(position) = redundant(&staged.waiting.queues()[number]) else { return };
        let ack = staged.waiting.queue_mut(number).remove(position);
        if let Queue::FqCodel(fq) = &mut self.queue {
            fq.dropped(number, Bytes::new(ack.size.into()));
        }
        self.statistics.thinned.add(ack.size);
        self.withdraw(&ack);
    }
}

/// Returns the position of the first ACK that the last packet of the queue, an ACK of the same flow, makes
/// redundant: another ACK of the flow waits between them, which acknowledges more and has the same ECN echo.
/// So two of a flow always stay, as in the conservative mode of CAKE (`cake_ack_filter` of Linux), and marks
/// keep their weight. ACKs with more to say stay: those with SACK blocks, stamps or a congestion header, and
/// duplicates, also of an ACK that waits.
fn redundant(queue: &Ring<Packet>) -> Option<u64> {
    let last = queue.tail().checked_sub(1)?;
    let newest = queue.at(last);
    let is_same = |packet: &Packet| packet.kind == Kind::Ack && packet.owner == newest.owner;
    if !is_same(newest) {
        return None;
    }
    let mut before: Option<(u64, &Packet)> = None;
    let mut repeats = false;
    for position in queue.head()..last {
        let ack = queue.at(position);
        if !is_same(ack) {
            continue;
        }
        if let Some((place, older)) = before {
            let advances = older.seq < ack.seq;
            if advances && !repeats && says_no_more(older) && (older.flags ^ ack.flags) & ECE == 0 {
                return Some(place);
            }
            repeats = !advances;
        }
        before = Some((position, ack));
    }
    None
}

/// Whether an ACK has nothing but its number, window and echo.
fn says_no_more(ack: &Packet) -> bool {
    !ack.has(REPORT) && !ack.has(DUPLICATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of the first ACK that is redundant in a queue of these ACKs: flow, number, flags.
    fn dropped(acks: &[(u32, u64, u8)]) -> Option<u64> {
        let mut queue = Ring::new();
        for (owner, seq, flags) in acks {
            let kind = if *flags == OTHER { Kind::Segment } else { Kind::Ack };
            queue.push(Packet { owner: *owner, seq: *seq, flags: *flags, kind, ..Packet::default() });
        }
        redundant(&queue).map(|position| queue.at(position).seq)
    }

    /// Marks a segment of the flow.
    const OTHER: u8 = u8::MAX;

    #[test]
    fn the_oldest_of_three_acks_of_a_flow_goes() {
        assert_eq!(dropped(&[(1, 2, 0), (1, 4, 0), (1, 6, 0)]), Some(2));
        assert_eq!(dropped(&[(1, 2, 0), (2, 9, 0), (1, 4, 0), (1, 5, OTHER), (1, 6, 0)]), Some(2));
        for acks in [
            &[][..],
            &[(1, 2, 0)],
            &[(1, 2, 0), (1, 4, 0)],
            &[(1, 2, 0), (2, 4, 0), (1, 6, 0)],
            &[(1, 2, 0), (1, 4, 0), (1, 6, OTHER)],
            &[(1, 2, 0), (1, 4, 0), (2, 6, 0)],
        ] {
            assert_eq!(dropped(acks), None, "{acks:?}");
        }
    }

    #[test]
    fn acks_with_news_stay() {
        for news in [REPORT, DUPLICATE, ECE] {
            assert_eq!(dropped(&[(1, 2, news), (1, 4, 0), (1, 6, 0)]), None);
        }
        // A mark in front of others with marks says nothing more than they do.
        assert_eq!(dropped(&[(1, 2, ECE), (1, 4, ECE), (1, 6, 0)]), Some(2));
        assert_eq!(dropped(&[(1, 2, 0), (1, 4, ECE), (1, 6, ECE)]), None);
        assert_eq!(dropped(&[(1, 2, REPORT), (1, 4, 0), (1, 6, 0), (1, 8, 0)]), Some(4));
        // Duplicates, and the ACK that they repeat.
        assert_eq!(dropped(&[(1, 2, 0), (1, 2, 0), (1, 2, 0), (1, 4, 0)]), None);
        assert_eq!(dropped(&[(1, 2, 0), (1, 2, 0), (1, 4, 0), (1, 6, 0), (1, 8, 0)]), Some(4));
    }
}
