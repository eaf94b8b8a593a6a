//! Proportional rate reduction (RFC 6937, with the slow-start reduction bound, as in Linux).

/// State of one reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    /// Window before the reduction, segments, at least one.
    prior_cwnd: u64,
    /// Segments delivered since the reduction began.
    delivered: u64,
    /// Segments sent since.
    sent: u64,
    /// Whether the window is as small as it is to be at once, and only the first retransmission leaves in any case
    /// (RFC 6675 5).
    at_once: bool,
}

impl Prr {
    pub(crate) fn new(prior_cwnd: u32, at_once: bool) -> Prr {
        Prr { prior_cwnd: u64::from(prior_cwnd).max(1), delivered: 0, sent: 0, at_once }
    }

    /// Returns the state of another reduction of the same sender.
    pub(crate) fn anew(&self, prior_cwnd: u32) -> Prr {
        Prr::new(prior_cwnd, self.at_once)
    }

    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn sent_all(&mut self, count: u64) {
        self.sent += count;
    }

    /// Returns the window after an ACK of `delivered` segments. `progress` says whether the ACK advanced
    /// `una` and showed no new loss.
    pub(crate) fn window(&mut self, delivered: u64, in_flight: u64, ssthresh: u64, progress: bool) -> u32 {
        self.delivered += delivered;
        if self.at_once {
            return ssthresh.max(if self.sent == 0 { in_flight + 1 } else { 0 }) as u32;
        }
        let send = if in_flight > ssthresh {
            (ssthresh * self.delivered).div_ceil(self.prior_cwnd).saturating_sub(self.sent)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(delivered) + u64::from(progress);
            limit.min(ssthresh - in_flight)
        };
        // Fast retransmit is never delayed.
        let send = send.max(u64::from(self.sent == 0));
        (in_flight + send) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_100_comes_down_to_50_in_one_round_trip() {
        let mut prr = Prr::new(100, false);
        let (mut in_flight, mut sent) = (99, 0);
        for _ in 0..99 {
            in_flight -= 1;
            let window = prr.window(1, in_flight, 50, true);
            while in_flight < u64::from(window) {
                in_flight += 1;
                sent += 1;
                prr.sent();
            }
        }
        assert!((49..=51).contains(&sent), "{sent} segments sent");
        assert_eq!(in_flight, 50);
    }

    #[test]
    fn without_it_the_first_retransmission_leaves_and_then_nothing_until_half_has_arrived() {
        let mut prr = Prr::new(100, true);
        assert_eq!(prr.window(1, 97, 50, false), 98);
        prr.sent();
        assert!((0..48).all(|acks| prr.window(1, 97 - acks, 50, true) == 50));
    }

    #[test]
    fn one_that_reduces_nothing_lets_go_one_more_than_arrives() {
        let mut prr = Prr::new(100, false);
        assert_eq!(prr.window(2, 90, 100, true), 93);
        assert_eq!(prr.window(20, 80, 100, true), 100);
    }
}
