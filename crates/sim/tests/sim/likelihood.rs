//! What replies to questions say of what is free, on links whose load is known.

use headway_estimate::StreamRecord;
use headway_estimate::measure::Step;
use headway_estimate::question::{Question, QuestionConfig, Reply};
use headway_estimate::stream::Arrival;
use headway_scenario::SelectCross;
use headway_sim::Network;
use headway_traffic::{Traffic, random};
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::{Rng, RngExt};

use crate::support::{SEGMENT, drop_tail, link, source};

/// A kind of traffic with its name.
type Kind = (&'static str, fn(Rate) -> Traffic);

const FULL: Bytes = Bytes::new(SEGMENT);
const KINDS: [Kind; 4] = [
    ("CBR", |rate| Traffic::Cbr { rate, size: FULL }),
    ("Poisson", |rate| Traffic::Poisson { rate, size: FULL }),
    ("Pareto", |rate| SelectCross::Pareto.traffic(rate)),
    ("batches", |rate| SelectCross::Batches.traffic(rate)),
];

/// Returns replies about one rate, one a second, where `free` of the capacity is free.
fn replies(capacity: Rate, free: f64, asked: Rate, kind: Kind, seed: u64) -> Vec<Reply> {
    const COUNT: i64 = 40;
    let mut network = Network::new(seed);
    let forward = network.add_link(&link(capacity, Duration::from_ms(10), drop_tail(Some(500_000))));
    let prober = network.add_prober(&[forward], None);
    network.add_source(&source(forward, kind.1(capacity.scale(1.0 - free))));
    let rtt = Duration::from_ms(20);
    let most = QuestionConfig::usual_cost(asked, FULL, None);
    let config =
        QuestionConfig { rate: asked, most, packet: FULL, rtt, capacity: Some(capacity), bucket: None };
    let reply = |number: i64| {
        let mut now = Instant::ZERO + Duration::from_ms(1_000 * (number + 1));
        let mut question = Question::new(config, now);
        loop {
            network.run_until(now);
            match question.next_step(now) {
                Step::Wait(time) => now += time,
                Step::Done => break question.answer().expect("streams arrive"),
                Step::Send(schedule) => {
                    let mut at = now;
                    network.send_probe(prober, at, schedule.packet);
                    for gap in &schedule.gaps {
                        at += *gap;
                        network.send_probe(prober, at, schedule.packet);
                    }
                    now = at + Duration::from_ms(200);
                    network.run_until(now);
                    let log = network.take_probe_log(prober);
                    let arrival = |(index, one): (usize, &headway_sim::ProbeLog)| Arrival {
                        index: index as u32,
                        size: schedule.packet,
                        sent: one.sent,
                        received: one.arrived,
                    };
                    let arrivals = log.iter().enumerate().map(arrival).collect();
                    let (packet, average) = (schedule.packet, schedule.average);
                    let record = StreamRecord { id: 0, packet, average, intended: schedule.gaps, arrivals };
                    question.observe(now, &record, None);
                }
            }
        }
    };
    (0..COUNT).map(reply).collect()
}

/// Returns the mean logarithm of the likelihood that so much is free, each kind of other traffic being as likely as another.
fn mean_ln(replies: &[Reply], capacity: Rate, free: f64) -> f64 {
    let ln = |reply: &Reply| {
        let each = reply.ln_likelihoods(capacity, capacity.scale(free));
        let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + (each.iter().map(|one| (one - most).exp()).sum::<f64>() / each.len() as f64).ln()
    };
    replies.iter().map(ln).sum::<f64>() / replies.len() as f64
}

/// Whatever is asked on whatever link: no rate further from what is free than 10 % of the capacity is more likely than the truth by more than 0.6 for each answer, and
/// in the mean over all of them none is at all.
#[test]
fn the_likelihood_of_a_reply_is_highest_at_the_truth() {
    const DRAWN: u64 = 48;
    let mut rng = random::generator(random::generator(20_261_129, "grid", 0).next_u64(), "grid", 1);
    let mut excesses = Vec::new();
    for number in 0..DRAWN {
        let kind = KINDS[number as usize % KINDS.len()];
        let capacity = Rate::from_mbps(5.0 * 40.0f64.powf(rng.random::<f64>()));
        let free = 0.1 + 0.85 * rng.random::<f64>();
        let asked = capacity.scale((free * (0.4 + 1.4 * rng.random::<f64>())).min(0.9));
        let replies = replies(capacity, free, asked, kind, number);
        let truth = mean_ln(&replies, capacity, free);
        let others = (1..=50).map(|part| f64::from(part) / 50.0);
        let others = others.filter(|other| (other - free).abs() > 0.1);
        let (best, at) = others
            .map(|other| (mean_ln(&replies, capacity, other), other))
            .fold((f64::NEG_INFINITY, 0.0), |one, other| if other.0 > one.0 { other } else { one });
        let (name, share) = (kind.0, asked.bps_f64() / capacity.bps_f64());
        // Few batches meet a stream on a link with little load, and streams that meet none say that it has none.
        let bound = if name == "batches" && free > 0.8 { 1.5 } else { 0.6 };
        assert!(
            best - truth < bound,
            "{name}, {capacity}: {free:.2} free, {share:.2} asked, {at} likelier by {}",
            best - truth
        );
        excesses.push(best - truth);
    }
    let mean = excesses.iter().sum::<f64>() / excesses.len() as f64;
    assert!(mean < 0.0, "{mean}: {excesses:.2?}");
}
