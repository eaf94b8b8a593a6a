//! Short runs as text, so that changes of behaviour show up in review. `INSTA_UPDATE=always`
//! accepts new results.

use std::fmt::Write;

use crate::support::*;
use headway_control::{FixedWindow, Kind};
use headway_queue::{CodelConfig, DropTailConfig, QueueSpec, StepConfig};
use headway_sim::config::{Ecn, Service};
use headway_sim::{LinkConfig, TcpConfig};
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// Window, queue and counters of a flow over 20 Mb/s and 40 ms, every 250 ms.
fn course(
    controller: Kind,
    queue: &QueueSpec,
    change: impl FnOnce(&mut TcpConfig, &mut LinkConfig),
) -> String {
    let rate = mbps(20.0);
    let mut config = LinkConfig::new(Service::Constant(rate), MS(20), queue.build(Some(rate), 1));
    let mut tcp = flow(controller, headway_sim::LinkId(0), headway_sim::LinkId(1));
    tcp.ack.every = 2;
    change(&mut tcp, &mut config);
    let mut pipe = Pipe::new(controller, &config, MS(20), |flow| *flow = tcp);
    let mut text =
        "  time  cwnd ssthresh  srtt ms  queue   sent resent  delivered marked timeouts\n".to_owned();
    pipe.watch(4.0, MS(250), |pipe| {
        let flow = pipe.network.flow(pipe.flow);
        writeln!(
            text,
            "{:6.2} {:5} {:8.1} {:8.3} {:6} {:6} {:6} {:10} {:6} {:8}",
            pipe.network.now().ns() as f64 / 1e9,
            flow.cwnd,
            flow.ssthresh,
            flow.srtt.map_or(0.0, |srtt| srtt.ms()),
            pipe.network.link(pipe.forward).queued().packets,
            flow.sent,
            flow.retransmitted,
            flow.delivered,
            flow.marked,
            flow.timeouts,
        )
        .expect("text takes everything");
    });
    text
}

fn buffer(packets: u32) -> QueueSpec {
    QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(packets) })
}

#[test]
fn reno_through_a_short_buffer() {
    insta::assert_snapshot!(course(Kind::Reno, &buffer(60), |_, _| ()));
}

#[test]
fn cubic_through_a_short_buffer() {
    insta::assert_snapshot!(course(Kind::Cubic, &buffer(60), |_, _| ()));
}

#[test]
fn bbr_through_a_short_buffer() {
    insta::assert_snapshot!(course(Kind::Bbr, &buffer(60), |_, _| ()));
}

#[test]
fn dctcp_at_a_step() {
    let step = QueueSpec::Step(StepConfig {
        threshold: Bytes::new(20 * SEGMENT).into(),
        limit: None,
        packets: None,
    });
    insta::assert_snapshot!(course(Kind::Dctcp, &step, |flow, _| flow.ecn = Ecn::Dctcp));
}

#[test]
fn reno_with_ecn_through_codel() {
    let codel = QueueSpec::Codel(CodelConfig::default());
    insta::assert_snapshot!(course(Kind::Reno, &codel, |flow, _| flow.ecn = Ecn::Classic));
}

#[test]
fn paced_cubic_with_random_losses() {
    insta::assert_snapshot!(course(Kind::Cubic, &buffer(200), |flow, link| {
        flow.pacing = true;
        link.loss = 0.005;
    }));
}

#[test]
fn a_fixed_window_over_a_path_that_reorders() {
    insta::assert_snapshot!(course(Kind::FixedWindow(FixedWindow::new(60)), &buffer(200), |_, link| {
        (link.jitter, link.reordering) = (MS(6).into(), true);
    }));
}

#[test]
fn a_slow_reader() {
    insta::assert_snapshot!(course(Kind::Reno, &buffer(200), |flow, _| {
        flow.receive_buffer = segments(40);
        flow.read_rate = Some(mbps(5.0));
    }));
}
