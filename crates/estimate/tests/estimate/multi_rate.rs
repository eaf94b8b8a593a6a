//! Multi-rate estimators, evaluated on the path model.

use crate::support::{
    Observed, PACKET, Path, gbps, quantile, random_averages, same_average, send, within_ten_percent,
};
use headway_estimate::denoise::{bass_pass, centred_mean};
use headway_estimate::stream::{Arrival, DelayedAcks};
use headway_estimate::vhf::VerticalHorizontal;
use headway_estimate::{Excursion, MultiRate, Scratch, Settings};
use headway_estimate::{Gaps, Schedule, Shape, StreamRecord};
use headway_units::Duration;

fn ratios(observed: &[Observed], method: MultiRate, settings: &Settings) -> Vec<f64> {
    let mut scratch = Scratch::default();
    observed
        .iter()
        .filter_map(|stream| {
            let estimate = method.estimate(&stream.record, settings, &mut scratch).ok()?;
            Some(estimate.rate.bps_f64() / stream.record.average.bps_f64())
        })
        .collect()
}

/// Returns the errors of an estimator over the streams whose rates enclose the available bandwidth.
fn errors(observed: &[Observed], method: MultiRate, settings: &Settings) -> Vec<f64> {
    let mut scratch = Scratch::default();
    observed
        .iter()
        .filter(|stream| stream.covered())
        .filter_map(|stream| {
            Some(stream.error(method.estimate(&stream.record, settings, &mut scratch).ok()?.rate))
        })
        .collect()
}

/// Returns the errors relative to the bandwidth that the cross traffic left at the entrance of the queue.
fn offered_errors(observed: &[Observed], method: MultiRate) -> Vec<f64> {
    let mut scratch = Scratch::default();
    let error = |stream: &Observed| {
        let estimate = method.estimate(&stream.record, &Settings::default(), &mut scratch).ok()?;
        Some(estimate.rate.bps_f64() / stream.offered.bps_f64() - 1.0)
    };
    observed.iter().filter(|stream| stream.covered()).filter_map(error).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn around_the_available_bandwidth() -> Vec<Observed> {
    send(Path::usual(36), &random_averages(2_000, 6.2, 8.8, 1), None)
}

#[test]
fn estimates_far_below_the_available_bandwidth_lie_above_the_average_sent() {
    let observed = send(Path::usual(31), &same_average(1_000, 5.0), None);
    let bass = mean(&ratios(&observed, MultiRate::Bass, &Settings::default()));
    println!("mean estimate over average sent at 5 Gb/s: {bass:.3}");
    assert!(bass > 1.03);
    let observed = send(Path::usual(31), &same_average(1_000, 9.0), None);
    let bass = mean(&ratios(&observed, MultiRate::Bass, &Settings::default()));
    println!("at 9 Gb/s: {bass:.3}");
    assert!(bass < 0.95);
}

#[test]
fn bass_beats_the_null_estimator_on_streams_around_the_available_bandwidth() {
    let observed = around_the_available_bandwidth();
    let mut shares = Vec::new();
    for method in MultiRate::ALL {
        let mut errors = errors(&observed, method, &Settings::default());
        let share = within_ten_percent(&errors);
        let offered: Vec<f64> = offered_errors(&observed, method);
        let [p5, p50, p95] = [0.05, 0.5, 0.95].map(|part| 100.0 * quantile(&mut errors, part));
        println!(
            "{:10} n {} p5 {p5:+.1} p50 {p50:+.1} p95 {p95:+.1} % within 10 %: {share:.3} (of what was offered: {:.3})",
            method.name(),
            errors.len(),
            within_ten_percent(&offered)
        );
        shares.push((method, share));
    }
    let share = |wanted| shares.iter().find(|(method, ..)| *method == wanted).expect("all were run").1;
    assert!((0.5..0.8).contains(&share(MultiRate::Null)));
    assert!(share(MultiRate::Bass) >= 0.85);
    assert!(share(MultiRate::Bass) >= share(MultiRate::Null) + 0.15);
    assert!(share(MultiRate::Excursion) < 0.3);
}

#[test]
fn a_stream_after_silence_estimates_low_and_one_that_follows_another_does_not() {
    // The queue starts empty and fills to its mean during the stream, which looks like congestion;
    // the interrupt for the first packet comes without delay. A discarded stream ahead of it
    // removes both effects.
    let median = |lead: usize| {
        let mut schedules = random_averages(2_000, 6.2, 8.8, 1);
        for schedule in &mut schedules {
            schedule.gaps = schedule.gaps.repeat(1 + lead);
        }
        let mut observed = send(Path::usual(36), &schedules, Some(Duration::from_ms(10)));
        for stream in &mut observed {
            stream.record.arrivals.drain(..lead * 64);
            stream.record.intended.drain(..lead * 64);
        }
        let mut scratch = Scratch::default();
        let settings = Settings::default();
        let mut errors: Vec<f64> = observed
            .iter()
            .filter_map(|stream| MultiRate::Bass.estimate(&stream.record, &settings, &mut scratch).ok())
            .map(|estimate| estimate.rate.bps_f64() / gbps(7.53).bps_f64() - 1.0)
            .collect();
        quantile(&mut errors, 0.5)
    };
    let (alone, led) = (median(0), median(1));
    println!("median error after silence {alone:+.3}, with one stream ahead {led:+.3}");
    assert!(alone < -0.05);
    assert!(led > -0.04);
}

#[test]
fn a_larger_margin_raises_the_estimate_and_100_ns_errs_low() {
    let observed = around_the_available_bandwidth();
    let median = |ns| {
        let excursion = Excursion { margin: Duration::from_ns(ns), ..Excursion::default() };
        let settings = Settings { excursion, ..Settings::default() };
        quantile(&mut errors(&observed, MultiRate::Bass, &settings), 0.5)
    };
    let medians = [0, 100, 200, 300, 500, 1_000].map(median);
    println!("median errors: {medians:.4?}");
    assert!(medians.is_sorted());
    assert!(medians[1] < 0.0 && medians[1] > -0.02);
    assert!(medians[3] > 0.0);
}

#[test]
fn acknowledging_every_second_packet_costs_no_accuracy() {
    // Only every second packet has a timestamp; its interval is spread evenly over two packets,
    // as with delayed ACKs.
    let observed = send(Path::usual(36), &random_averages(2_000, 6.2, 8.8, 1), None);
    let settings = Settings::default();
    let (mut acks, mut gaps, mut scratch) = (DelayedAcks::default(), Gaps::default(), Vec::new());
    let mut delayed = Vec::new();
    for stream in &observed {
        let StreamRecord { id, arrivals, packet, .. } = &stream.record;
        let stamp = |arrival: &Arrival| {
            arrival.received.filter(|_| arrival.index.is_multiple_of(2)).map(|at| (at.ns() / 1_000) as u32)
        };
        // The first packet of a stream is the last one of the previous stream, except in the very first one.
        let mut packets = arrivals.len() - 1;
        if *id == 0 {
            acks.push(Duration::ZERO, stamp(&arrivals[0]));
            packets += 1;
        }
        for pair in arrivals.windows(2) {
            acks.push(pair[1].sent - pair[0].sent, stamp(&pair[1]));
        }
        while acks.take(packets, &mut gaps) {
            let estimate = settings
                .denoise
                .apply(&mut gaps, &mut scratch)
                .and_then(|_| settings.excursion.estimate(*packet, &gaps));
            if let (Ok(estimate), true) = (estimate, stream.covered()) {
                delayed.push(stream.error(estimate.rate));
            }
        }
    }
    let each = within_ten_percent(&errors(&observed, MultiRate::Bass, &settings));
    let every_second = within_ten_percent(&delayed);
    println!("within 10 %: {each:.3} with every packet stamped, {every_second:.3} with every second one");
    assert!(delayed.len() > 1_000);
    assert!((each - every_second).abs() < 0.06);
}

#[test]
fn without_removing_cut_off_events_the_estimate_says_nothing() {
    let observed = send(Path::usual(31), &same_average(1_000, 5.0), None);
    let settings = Settings::default();
    let (mut gaps, mut scratch) = (Gaps::default(), Vec::new());
    let mut ratios = Vec::new();
    for stream in &observed {
        stream.record.gaps(&mut gaps).expect("nothing is lost");
        let denoise = settings.denoise;
        bass_pass(&mut gaps.send, &mut gaps.receive, denoise.coarse);
        bass_pass(&mut gaps.send, &mut gaps.receive, denoise.medium);
        while bass_pass(&mut gaps.send, &mut gaps.receive, denoise.fine).changed {}
        centred_mean(&mut gaps.receive, denoise.window, &mut scratch);
        centred_mean(&mut gaps.send, denoise.window, &mut scratch);
        let estimate = settings.excursion.estimate(stream.record.packet, &gaps).expect("64 samples");
        ratios.push(estimate.rate.bps_f64() / stream.record.average.bps_f64());
    }
    let uncropped = mean(&ratios);
    println!("mean estimate over average sent with the ends kept: {uncropped:.3}");
    assert!((uncropped - 1.0).abs() < 0.03);
}

#[test]
fn the_decision_points_of_prc_mt_err_on_opposite_sides() {
    // The setting of the BASS paper: a range of 30 %, five rates, 64 packets per rate, bursty cross traffic.
    let shape = Shape::with_range(5, 64, 0.3);
    let schedules: Vec<Schedule> =
        (0..600).map(|i| Schedule::p_stream(shape, gbps(6.2 + 2.6 * f64::from(i) / 600.0), PACKET)).collect();
    let path = Path { batch: 12.4, ..Path::usual(10) };
    let observed = send(path, &schedules, None);
    let mut row = |method: MultiRate| {
        let mut errors = errors(&observed, method, &Settings::default());
        let share = within_ten_percent(&errors);
        let median = quantile(&mut errors, 0.5);
        println!("{:10} n {} median {median:+.4} within 10 % {share:.3}", method.name(), errors.len());
        (median, share)
    };
    let [(bass, bass_share), (dp1, dp1_share), (dp2, dp2_share)] =
        [MultiRate::Bass, MultiRate::PrcMtDp1, MultiRate::PrcMtDp2].map(&mut row);
    assert!(dp1 < bass && bass < dp2);
    assert!(bass_share > dp1_share && bass_share > dp2_share);
}

#[test]
fn chirps_average_near_the_available_bandwidth_without_coalescing() {
    // From 1 to 9.85 Gb/s in steps of 10 %.
    let chirps = vec![Schedule::chirp(gbps(1.0), 1.1, 25, PACKET); 2_000];
    let path = Path { coalescing: Duration::ZERO, ..Path::usual(7) };
    let observed = send(path, &chirps, Some(Duration::from_ms(1)));
    let mut scratch = Scratch::default();
    let estimates: Vec<f64> = observed
        .iter()
        .filter_map(|stream| {
            MultiRate::PathChirp.estimate(&stream.record, &Settings::default(), &mut scratch).ok()
        })
        .map(|estimate| estimate.rate.bps_f64() / 1e9)
        .collect();
    let mean = mean(&estimates);
    println!("mean of {} chirps: {mean:.2} Gb/s of 7.53", estimates.len());
    assert!((mean / 7.53 - 1.0).abs() < 0.1);
}

#[test]
fn reflected_chirps_average_near_the_available_bandwidth_without_coalescing() {
    let chirps = vec![Schedule::reflected_chirp(gbps(5.5), gbps(4.5), 1.2, 13, PACKET); 2_000];
    let path = Path { coalescing: Duration::ZERO, ..Path::usual(7) };
    let observed = send(path, &chirps, Some(Duration::from_ms(1)));
    let (mut scratch, mut filter) = (Scratch::default(), VerticalHorizontal::default());
    let (mut raw, mut smooth) = (Vec::new(), Vec::new());
    for stream in &observed {
        let estimate = MultiRate::ReflectedChirp.estimate(&stream.record, &Settings::default(), &mut scratch);
        if let Ok(estimate) = estimate {
            raw.push(estimate.rate.bps_f64() / 1e9);
            smooth.push(filter.add(estimate.rate).bps_f64() / 1e9);
        }
    }
    let deviation = |values: &[f64]| {
        (values.iter().map(|value| (value - mean(values)).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    };
    println!(
        "mean of {} chirps: {:.2} Gb/s of 7.53, deviation {:.2}, smoothed {:.2}",
        raw.len(),
        mean(&raw),
        deviation(&raw),
        deviation(&smooth)
    );
    assert!((mean(&raw) / 7.53 - 1.0).abs() < 0.1);
    assert!(deviation(&smooth) < 0.5 * deviation(&raw));
}
