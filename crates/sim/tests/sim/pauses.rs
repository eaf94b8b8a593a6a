//! Applications that pause within a connection.

use crate::support::*;
use headway_control::Kind;
use headway_units::Duration;

const MS: fn(i64) -> Duration = Duration::from_ms;

#[test]
fn a_pause_begins_when_a_chunk_is_acknowledged_and_the_next_chunk_follows_it() {
    // A chunk of 100 segments takes 100 times 1.2304 ms, and its last ACK another 20 ms;
    // then 500 ms of silence.
    let period = 0.1 * 1.2304 + 0.02 + 0.5;
    let mut pipe = Pipe::new(window(1_000), &link(mbps(10.0), MS(10), drop_tail(None)), MS(10), |flow| {
        flow.chunks = Some((segments(100), MS(500)));
    });
    for chunk in 1..=20_u32 {
        let (begin, chunk) = (period * f64::from(chunk - 1), u64::from(chunk));
        assert_eq!(pipe.run(begin + 0.1 * 1.2304 + 0.009).delivered, chunk * 100 - 1, "chunk {chunk}");
        assert_eq!(pipe.run(begin + period - 1e-6).delivered, chunk * 100);
        assert_eq!(pipe.run(begin + period - 1e-6).sent, chunk * 100);
        assert!(pipe.run(begin + period + 1e-6).sent > chunk * 100);
    }
}

#[test]
fn a_flow_ends_within_a_chunk_and_its_application_stops_in_a_pause() {
    for (controller, stop) in [(Kind::Cubic, None), (Kind::Bbr, None), (window(10), Some(at(2.4)))] {
        let config = link(mbps(10.0), MS(10), drop_tail(Some(60_000)));
        let mut pipe = Pipe::new(controller, &config, MS(10), |flow| {
            (flow.chunks, flow.size, flow.stop) =
                (Some((segments(100), MS(1_000))), Some(segments(250)), stop);
        });
        let flow = pipe.run(60.0);
        let expected = if stop.is_some() { 200 } else { 250 };
        assert_eq!((flow.delivered, flow.finished.is_some()), (expected, stop.is_none()), "{flow:?}");
        assert_eq!(pipe.network.next_event(), None);
    }
}
