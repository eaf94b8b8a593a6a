//! Facts about a channel of 802.11.

use headway_formulas::SaturatedChannel;
use headway_link::wifi::{Channel, DIFS, DOUBLINGS, SLOT, Sent, Station, WINDOW};
use headway_units::{Duration, Rate};

const SIZE: u16 = 1538;

fn station(address: u32, mbps: f64) -> Station {
    Station { address, rate: Rate::from_mbps(mbps), retries: 7, damage: 0.0 }
}

/// Runs saturated stations for `seconds`; returns for each the frames that arrived and those given up.
fn saturate(stations: &[Station], seconds: u64, seed: u64) -> (Channel, Vec<[u64; 2]>) {
    let mut channel = Channel::new(seed, 0);
    let mut counts = vec![[0, 0]; stations.len()];
    for (number, station) in stations.iter().enumerate() {
        assert_eq!(channel.add(*station), number);
        channel.offer(number, 0, SIZE);
    }
    let mut sent: Vec<Sent> = Vec::new();
    while let Some(now) = channel.next().filter(|now| *now < seconds * 1_000_000_000) {
        channel.step(&mut sent);
        for Sent { station, arrived } in sent.drain(..) {
            counts[station][usize::from(!arrived)] += 1;
            channel.offer(station, now, SIZE);
        }
    }
    (channel, counts)
}

fn closed_form(stations: u32, retries: Option<u32>, mbps: f64) -> f64 {
    let kept = Duration::from_ns((station(1, mbps).exchange(SIZE) + DIFS) as i64);
    let slot = Duration::from_ns(SLOT as i64);
    let channel = SaturatedChannel {
        stations,
        window: WINDOW,
        doublings: DOUBLINGS,
        retries,
        slot,
        success: kept,
        collision: kept,
    };
    channel.frames_per_second()
}

#[test]
fn saturated_stations_have_the_throughput_of_bianchi() {
    for (mbps, retries) in [(54.0, Some(7)), (54.0, None), (6.0, Some(7))] {
        for n in 1..=30 {
            let retries_or_never = retries.unwrap_or(u32::MAX);
            let one = |address| Station { retries: retries_or_never, ..station(address, mbps) };
            let (_, counts) = saturate(&(1..=n).map(one).collect::<Vec<_>>(), 10, u64::from(n));
            let frames = counts.iter().map(|[arrived, _]| *arrived).sum::<u64>() as f64 / 10.0;
            let expected = closed_form(n, retries, mbps);
            assert!((frames / expected - 1.0).abs() < 0.03, "{n} stations: {frames} of {expected}");
        }
    }
}

#[test]
fn a_slow_station_takes_as_many_turns_and_most_of_the_time() {
    let (mut channel, counts) = saturate(&[station(1, 54.0), station(2, 6.0)], 30, 1);
    let turns = counts[0][0] as f64 / counts[1][0] as f64;
    assert!((turns - 1.0).abs() < 0.05, "{turns}");
    let [fast, slow] = [channel.take_heard(0), channel.take_heard(1)];
    let time = slow.own as f64 / fast.own as f64;
    let expected = station(1, 6.0).exchange(SIZE) as f64 / station(1, 54.0).exchange(SIZE) as f64;
    assert!((time / expected - 1.0).abs() < 0.05, "{time} {expected}");
    // Both found the channel as busy; collisions are in the time of both.
    assert_eq!((fast.busy, fast.bytes), (slow.busy, counts[0][0] * u64::from(SIZE)));
    // Somebody always contends.
    let busy = fast.busy as f64 / 30e9;
    assert!((0.99..1.001).contains(&busy), "{busy}");
}

#[test]
fn the_channel_is_idle_only_while_nobody_contends() {
    let mut channel = Channel::new(1, 0);
    channel.add(station(1, 54.0));
    let exchange = station(1, 54.0).exchange(SIZE);
    let mut send = |now, contends: bool| {
        channel.offer(0, now, SIZE);
        let begins = channel.next().unwrap();
        (0..2).for_each(|_| channel.step(&mut Vec::new()));
        assert_eq!(channel.take_heard(0).busy, exchange + if contends { begins - now } else { 0 });
        begins + exchange
    };
    // After a millisecond without a frame, and one that waits for its backoff.
    let end = send(1_000_000, false);
    send(end, true);
}

#[test]
fn damaged_frames_are_sent_again_until_they_are_given_up() {
    let (damage, seconds) = (0.5, 60);
    let (mut channel, counts) = saturate(&[Station { retries: 2, damage, ..station(1, 54.0) }], seconds, 1);
    let [arrived, lost] = counts[0].map(|count| count as f64);
    assert!((lost / (arrived + lost) - damage.powi(3)).abs() < 0.01, "{arrived} {lost}");
    let attempts = arrived + f64::from(channel.take_heard(0).retries);
    assert!((arrived / attempts - (1.0 - damage)).abs() < 0.01, "{arrived} {attempts}");
}

#[test]
fn a_frame_that_finds_the_channel_idle_is_sent_in_the_next_slot_and_heard_by_the_others() {
    let mut channel = Channel::new(1, 0);
    for (address, mbps) in [(1, 54.0), (2, 24.0), (1, 54.0)] {
        channel.add(station(address, mbps));
    }
    let (now, mut sent) = (1_000_000, Vec::new());
    channel.offer(0, now, SIZE);
    let begin = channel.next().expect("a frame");
    assert!((now..now + SLOT).contains(&begin), "{begin}");
    channel.step(&mut sent);
    assert_eq!((channel.next(), &sent[..]), (Some(begin + station(1, 54.0).exchange(SIZE)), &[][..]));
    channel.step(&mut sent);
    assert_eq!((channel.next(), &sent[..]), (None, &[Sent { station: 0, arrived: true }][..]));
    // The sender does not hear itself, also not another of its links.
    assert_eq!([0, 1, 2].map(|station| channel.take_heard(station).source), [0, 1, 0]);
}

#[test]
fn frames_take_the_times_of_the_standard() {
    // 802.11a: 1536 B and 22 bits in 57 symbols of 216 bits; an ACK at 24 Mb/s takes two symbols.
    assert_eq!(station(1, 54.0).exchange(SIZE), 20_000 + 57 * 4_000 + 16_000 + 28_000);
    // At 6 Mb/s 513 symbols of 24 bits, and six for the ACK.
    assert_eq!(station(1, 6.0).exchange(SIZE), 20_000 + 513 * 4_000 + 16_000 + 44_000);
}
