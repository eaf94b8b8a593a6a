//! What limits a flow, seen by taps at its sender, in the middle of its path and at its receiver.

use crate::support::*;
use headway_control::Kind;
use headway_estimate::sabes::{Limit, Settings, Side, Transfer};
use headway_sim::config::AckPolicy;
use headway_sim::tap::Conversion;
use headway_sim::{Network, TapPlace, TcpConfig};
use headway_units::{Bytes, Duration};

/// A path, and what limits the flow over it.
#[derive(Clone, Copy, Debug)]
struct Case {
    rate: f64,
    rtt: Duration,
    /// The buffer as a share of rate times RTT.
    buffer: f64,
    limit: Limit,
    /// The receive window or the application's rate as a share of what fills the path.
    share: f64,
}

impl Case {
    fn bdp(&self) -> f64 {
        self.rate * 1e6 / 8.0 * self.rtt.secs_f64()
    }

    /// Returns the verdicts of taps at the sender, between two links, and at the receiver.
    fn verdicts(&self, controller: Kind) -> [Limit; 3] {
        let mut network = Network::new(7);
        let quarter = self.rtt / 4;
        let queue = drop_tail(Some((self.bdp() * self.buffer).max(20_000.0) as u64));
        let narrow = network.add_link(&link(mbps(self.rate), quarter, queue));
        let wide = network.add_link(&link(mbps(1_000.0), quarter, drop_tail(None)));
        let back = [quarter, quarter].map(|delay| network.add_link(&wire(delay)));
        let mut config = TcpConfig::new(controller, vec![narrow, wide], back.to_vec());
        config.start = at(0.5);
        config.ack = AckPolicy { every: 2, timeout: Duration::from_ms(40) };
        match self.limit {
            Limit::ReceiveWindow => config.receive_buffer = Bytes::new((self.bdp() * self.share) as u64),
            Limit::Application => config.application_rate = Some(mbps(self.rate * self.share)),
            _ => {}
        }
        let places = [TapPlace::Sender, TapPlace::Node { forward: 1, reverse: 1 }, TapPlace::Receiver];
        config.taps = places.iter().map(|place| (network.add_tap(), *place)).collect();
        network.add_tcp(&config);
        network.run_until(at(4.0));
        [Side::Sender, Side::Receiver, Side::Receiver].map({
            let mut tap = 0;
            move |side| {
                let mut records = Vec::new();
                network.take_tap_records(config.taps[tap].0, &mut records);
                tap += 1;
                let conversion = Conversion::new(&config, 1_000);
                let mut transfer = Transfer::new(&Settings { side, ..Settings::default() });
                records.iter().for_each(|record| {
                    transfer.observe(&conversion.segment(record));
                });
                transfer.limits().main()
            }
        })
    }
}

#[test]
fn every_tap_tells_the_limit_or_says_that_it_is_unknown() {
    let (mut known, mut all) = ([0; 3], 0);
    for (rate, rtt, buffer) in [(10.0, 40, 0.5), (20.0, 20, 1.0), (50.0, 10, 2.0), (20.0, 100, 1.0)] {
        for (limit, share) in [(Limit::Path, 1.0), (Limit::ReceiveWindow, 0.4), (Limit::Application, 0.4)] {
            let case = Case { rate, rtt: Duration::from_ms(rtt), buffer, limit, share };
            for controller in [Kind::Reno, Kind::Cubic, Kind::Bbr] {
                let name = format!("{case:?} {controller}");
                let verdicts = case.verdicts(controller);
                for (tap, verdict) in verdicts.into_iter().enumerate() {
                    assert!(verdict == limit || verdict == Limit::Unknown, "{name}: {verdicts:?}");
                    known[tap] += usize::from(verdict == limit);
                }
                all += 1;
            }
        }
    }
    // Without time stamps, which the simulator's segments do not have, a tap near the receiver
    // sees no queue before it.
    assert!(known[0] == all && known[1] * 10 >= all * 6, "{known:?} of {all} are known");
}
