//! Counters of a flow over an interval.

use headway_control::Inside;
use headway_record::{Fractional, TcpInterval};
use headway_units::{Bytes, Duration};

use crate::FlowStatistics;

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Payload that arrived in order.
    pub(crate) goodput: Bytes,
    sent: u64,
    retransmitted: u64,
    timeouts: u64,
    marks: u64,
}

impl From<&FlowStatistics> for Progress {
    fn from(seen: &FlowStatistics) -> Progress {
        Progress {
            goodput: seen.goodput,
            sent: seen.sent,
            retransmitted: seen.retransmitted,
            timeouts: seen.timeouts,
            marks: seen.marked,
        }
    }
}

impl Progress {
    /// Adds the difference between two readings of the counters.
    pub(crate) fn add(&mut self, before: &Progress, after: &Progress) {
        self.goodput += Bytes::new(after.goodput.get().saturating_sub(before.goodput.get()));
        self.sent += after.sent - before.sent;
        self.retransmitted += after.retransmitted - before.retransmitted;
        self.timeouts += after.timeouts - before.timeouts;
        self.marks += after.marks - before.marks;
    }

    /// Combines the counts of an interval with the state of the sender at its end.
    pub(crate) fn of_sender(self, sender: &FlowStatistics) -> TcpInterval {
        TcpInterval {
            cwnd: sender.cwnd,
            ssthresh: sender.ssthresh.is_finite().then_some(sender.ssthresh as u32),
            srtt: sender.srtt,
            pacing: sender.pacing,
            sent: self.sent,
            retransmitted: self.retransmitted,
            timeouts: Some(self.timeouts),
            marks: Some(self.marks),
            inside: sender.inside.map(inside),
        }
    }
}

fn inside(inside: Inside) -> headway_record::Inside {
    let fractional = inside.fractional.map(|own| Fractional {
        window: own.window,
        ssthresh: own.ssthresh.is_finite().then_some(own.ssthresh),
        add: own.add,
        pace_rtt: (own.pace_rtt > Duration::ZERO).then_some(own.pace_rtt),
    });
    headway_record::Inside { alpha: inside.alpha, fractional, one_way: inside.one_way }
}
