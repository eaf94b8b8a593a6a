//! The servers, held against the reference link.

mod reference;

use headway_link::{Server, Service};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use proptest::prelude::*;
use reference::{Offered, Reference};

/// Services of all kinds, slow enough for the reference to count nanoseconds.
fn services() -> impl Strategy<Value = Service> {
    let rate = || (1_000_000_u64..40_000_000_000).prop_map(Rate::from_bps);
    let steps = prop::collection::vec((1_i64..40_000, rate()), 1..6).prop_map(|steps| {
        let mut start = Duration::ZERO;
        let list: Vec<_> = steps
            .into_iter()
            .map(|(length, rate)| {
                let step = (start, Rate::from_bps(rate.bps().max(1_000_000_000)));
                start += Duration::from_ns(length);
                step
            })
            .collect();
        Service::Steps(RateSteps::try_from(list).expect("the times ascend"))
    });
    let bucket = (rate(), 1_u64..30_000).prop_map(|(rate, burst)| Service::TokenBucket {
        rate,
        burst: Bytes::new(burst),
        peak: None,
    });
    let trace = prop::collection::vec(0_i64..50, 1..8).prop_map(|gaps| {
        let times = gaps.iter().scan(1, |at, gap| {
            *at += gap;
            Some(Duration::from_us(*at))
        });
        let opportunities: Vec<_> = times.collect();
        Service::Trace { period: opportunities[opportunities.len() - 1], opportunities }
    });
    prop_oneof![Just(Service::Unlimited), rate().prop_map(Service::Constant), steps, bucket, trace]
}

proptest! {
    #[test]
    fn packets_leave_when_those_of_the_reference_do(
        service in services(),
        packets in prop::collection::vec((0_u64..30_000, 64_u16..9_039), 1..100),
    ) {
        let queue = QueueSpec::DropTail(DropTailConfig { limit: None, packets: None }).build(None, 1);
        let mut reference = Reference::new(service.clone(), queue, None);
        let mut server = Server::new(&service, Instant::ZERO);
        let (mut now, mut free, mut leaves) = (0, 0, Vec::new());
        for (number, (gap, size)) in packets.into_iter().enumerate() {
            // A third of the packets in bursts.
            now += if gap % 3 == 0 { 0 } else { gap };
            reference.offer(Offered { number, at: now, size: size.into(), ect: false, flow: 0 });
            free = server.finish(now.max(free), size);
            leaves.push(Some((free, false)));
        }
        reference.run(u64::MAX);
        prop_assert_eq!(reference.fates, leaves);
    }
}
