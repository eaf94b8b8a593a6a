//! The fate of a stream of trains, from the reports of both ends.

use crate::protocol::{Report, StampSource};
use crate::trains::{HopReply, Identity, SentTrains};
use headway_estimate::{Refusal, TrainRecord, TrainSchedule};
use headway_units::Instant;

/// The result of one stream of trains.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOutcome {
    /// The random number of the session, which identifies it in logs.
    pub session: u64,
    /// Number of the stream in its session.
    pub stream: u32,
    /// The trains whose departures are known, in sending order.
    pub trains: Vec<TrainRecord>,
    /// Trains without departure times by the kernel.
    pub unstamped: usize,
    /// A reason to discard the stream: [`Refusal::SenderGaps`] or [`Refusal::ClockStep`].
    pub refusal: Option<Refusal>,
    /// The source of the arrival times.
    pub receive_stamps: StampSource,
    /// Duplicate packets that arrived.
    pub duplicates: u32,
    /// Reports of routers at which hidden packets died.
    pub replies: Vec<HopReply>,
}

/// The packets of a stream that arrived, by index.
pub(super) struct Received {
    /// Arrival times of ordinary packets; `None` for lost and for hidden ones.
    pub times: Vec<Option<Instant>>,
    /// Whether a hidden packet arrived.
    pub hidden_seen: Vec<bool>,
}

impl Received {
    /// Expands a report about a stream whose packets have these hops; `None` if it does not fit.
    pub(super) fn expand(report: &Report, hops: &[u8]) -> Option<Received> {
        let hidden = hops.iter().filter(|hops| **hops != 0).count();
        let ordinary = hops.len() - hidden;
        let mut arrived = report.times.decode(ordinary.checked_sub(report.lost.len())?)?.into_iter();
        let mut lost = report.lost.iter().copied().peekable();
        let mut seen = report.hidden_seen.iter().copied().peekable();
        let mut received = Received { times: Vec::new(), hidden_seen: Vec::new() };
        for (index, hops) in (0..).zip(hops) {
            let is_hidden = *hops != 0;
            received.hidden_seen.push(is_hidden && seen.next_if_eq(&index).is_some());
            let gone = is_hidden || lost.next_if_eq(&index).is_some();
            received.times.push(if gone { None } else { Some(arrived.next()?) });
        }
        // Indices that repeat, decrease, are out of range or of the other kind are left over.
        (lost.peek().is_none() && seen.peek().is_none()).then_some(received)
    }

    /// Returns the number of nodes that hidden packets did not pass and that have not replied.
    pub(super) fn silent_hops(&self, hops: &[u8], replies: &[HopReply]) -> usize {
        let delivered =
            hops.iter().zip(&self.hidden_seen).filter(|(_, seen)| **seen).map(|(hops, _)| *hops).min();
        let mut silent: Vec<u8> = hops
            .iter()
            .copied()
            .filter(|hops| *hops != 0 && delivered.is_none_or(|delivered| *hops < delivered))
            .filter(|hops| replies.iter().all(|reply| reply.hops != *hops))
            .collect();
        silent.sort_unstable();
        silent.dedup();
        silent.len()
    }
}

impl TrainOutcome {
    /// Combines what both ends report about a stream.
    pub(super) fn join(
        schedule: &TrainSchedule,
        identity: Identity,
        sent: SentTrains,
        received: &Received,
        report: &Report,
    ) -> TrainOutcome {
        let refusal = if sent.clock_stepped || report.clock_stepped {
            Some(Refusal::ClockStep)
        } else if !sent.complete {
            Some(Refusal::SenderGaps)
        } else {
            None
        };
        let mut trains = Vec::with_capacity(schedule.trains.len());
        let mut first = 0;
        for train in &schedule.trains {
            let last = first + train.packets() - 1;
            if let (Some(departed), Some(end)) = (sent.times[first], sent.times[last]) {
                trains.push(TrainRecord {
                    train: *train,
                    sent: [departed, end],
                    received: [received.times[first], received.times[last]],
                    hidden_seen: received.hidden_seen[first..last].iter().filter(|seen| **seen).count() as u8,
                });
            }
            first = last + 1;
        }
        TrainOutcome {
            session: identity.session,
            stream: identity.stream,
            unstamped: schedule.trains.len() - trains.len(),
            trains,
            refusal,
            receive_stamps: report.source,
            duplicates: report.duplicates,
            replies: sent.replies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TimeList;

    /// A train of two hidden packets, and a pair.
    const HOPS: [u8; 6] = [0, 3, 4, 0, 0, 0];

    fn report(times: &[u64], lost: &[u32], hidden_seen: &[u32]) -> Report {
        Report {
            stream: 1,
            times: TimeList::encode(times.iter().map(|ns| Instant::from_ns(*ns))),
            lost: lost.to_vec(),
            hidden_seen: hidden_seen.to_vec(),
            duplicates: 0,
            source: StampSource::Kernel,
            clock_stepped: false,
        }
    }

    #[test]
    fn hidden_packets_are_neither_lost_nor_timed() {
        let at = |ns| Some(Instant::from_ns(ns));
        let received = Received::expand(&report(&[5, 7, 8], &[4], &[2]), &HOPS).unwrap();
        assert_eq!(received.times, [at(5), None, None, at(7), None, at(8)]);
        assert_eq!(received.hidden_seen, [false, false, true, false, false, false]);
        assert_eq!(received.silent_hops(&HOPS, &[]), 1, "one reached the end");
        let from = std::net::Ipv4Addr::LOCALHOST.into();
        assert_eq!(received.silent_hops(&HOPS, &[HopReply { hops: 3, from }]), 0);
    }

    #[test]
    fn reports_that_do_not_fit_are_refused() {
        for (times, lost, seen) in [
            (&[1, 2, 3][..], &[][..], &[][..]),
            (&[1, 2, 3, 4], &[], &[0]),
            (&[1, 2, 3, 4], &[], &[2, 1]),
            (&[1, 2, 3, 4], &[], &[1, 1]),
            (&[1, 2, 3, 4], &[], &[6]),
            (&[1, 2, 3], &[1], &[]),
            (&[], &[0, 3, 4, 5, 6], &[]),
        ] {
            assert!(
                Received::expand(&report(times, lost, seen), &HOPS).is_none(),
                "{times:?} {lost:?} {seen:?}"
            );
        }
    }
}
