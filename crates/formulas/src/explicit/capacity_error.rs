//! XCP with a wrong capacity (xcp-rcp 2.14).

use headway_units::{Bytes, Duration, Rate};

use super::surge::queue_bytes;

/// An XCP router that believes in another capacity than its link has; rates and times are above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityError {
    /// Rate of the link.
    pub capacity: Rate,
    /// Rate that the router believes the link to have.
    pub believed: Rate,
    /// Round-trip time without queue.
    pub rtt: Duration,
    /// Weight of the spare bandwidth in the control law, above 0.
    pub alpha: f64,
    /// Weight of the queue in the control law, above 0.
    pub beta: f64,
}

impl CapacityError {
    /// Returns the queue at which the control law comes to rest, in bytes: zero if the capacity is not
    /// overestimated, and `None` if the queue grows until the buffer is full.
    pub fn queue(&self) -> Option<Bytes> {
        let capacity = self.capacity.bps_f64();
        let excess = self.alpha / self.beta * (self.believed.bps_f64() / capacity - 1.0);
        (excess < 1.0).then(|| queue_bytes((excess / (1.0 - excess)).max(0.0), self.capacity, self.rtt))
    }

    /// Returns the throughput of the link: what an underestimate leaves unused is lost.
    pub fn throughput(&self) -> Rate {
        self.capacity.min(self.believed)
    }

    /// Returns the belief from which on the queue grows without end: C (1 + beta / alpha).
    pub fn unbounded_from(&self) -> Rate {
        self.capacity.scale(1.0 + self.beta / self.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(percent: f64) -> CapacityError {
        let capacity = Rate::from_mbps(1.5);
        let believed = capacity.scale(1.0 + percent / 100.0);
        CapacityError { capacity, believed, rtt: Duration::from_ms(100), alpha: 0.4, beta: 0.226 }
    }

    /// The queues of xcp-rcp 2.14.
    #[test]
    fn an_overestimate_leaves_a_standing_queue() {
        for (percent, bytes) in [(10.0, 4032), (20.0, 10_274), (40.0, 45_455)] {
            let queue = error(percent).queue().expect("bounded").get();
            assert!(queue.abs_diff(bytes) <= 1, "{percent} %: {queue}");
            assert_eq!(error(percent).throughput(), Rate::from_mbps(1.5));
        }
    }

    #[test]
    fn an_overestimate_beyond_beta_by_alpha_has_no_bounded_queue() {
        assert!(error(56.4).queue().is_some() && error(56.6).queue().is_none());
        assert_eq!(error(0.0).unbounded_from(), Rate::from_mbps(1.5 * 1.565));
    }

    #[test]
    fn an_underestimate_wastes_capacity_and_leaves_no_queue() {
        assert_eq!(
            (error(-20.0).queue(), error(-20.0).throughput()),
            (Some(Bytes::ZERO), Rate::from_mbps(1.2))
        );
        assert_eq!(error(0.0).queue(), Some(Bytes::ZERO));
    }
}
