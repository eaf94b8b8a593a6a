//! Connections and paths, from packets made by hand.

use crate::support::{Bulk, Handshake, Tcp};
use headway_capture::{Link, Next, Packet, Reader};
use headway_estimate::sabes::Side;
use headway_passive::{Direction, Grouping, Options, PathRow, Peer, Skipped, Tracker};
use headway_units::{Duration, Instant};

const CLIENT: (&str, u16) = ("192.0.2.1", 40_000);
const SERVER: (&str, u16) = ("198.51.100.2", 443);
const MS: u64 = 1_000_000;

/// A transfer of 2000 segments through a link of about 100 Mb/s.
fn bulk() -> Bulk<'static> {
    Bulk { client: CLIENT, server: SERVER, at: 1_000 * MS, rtt: 20 * MS, gap: 246_080, segments: 2_000 }
}

fn packet(at: u64, data: &[u8], length: u32, interface: u32) -> Packet<'_> {
    let at = Instant::from_ns(at);
    Packet { at, data, length, interface, link: Link::Ethernet, check_sequence: false, declared: 0 }
}

fn feed(tracker: &mut Tracker, packets: impl IntoIterator<Item = (u64, Tcp)>) {
    for (at, tcp) in packets {
        let (data, length) = tcp.ethernet();
        tracker.packet(&packet(at, &data, length, 0), None);
    }
    tracker.finish();
}

fn tracker() -> Tracker {
    Tracker::new(&Options { connections: 1_000, paths: 100, ..Options::default() })
}

fn only(mut rows: Vec<PathRow>) -> PathRow {
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn a_transfer_in_a_file_becomes_a_path_with_rate_and_rtt() {
    let file = bulk().pcap();
    let mut tracker = tracker();
    let mut reader = Reader::new(&file[..]);
    while let Next::Packet(packet) = reader.next().unwrap() {
        tracker.packet(&packet, None);
    }
    tracker.finish();
    let row = only(tracker.paths());
    assert_eq!(row.key.peer, Peer::Network("198.51.100.0".parse().unwrap()));
    assert_eq!(row.key.direction, Direction::To);
    assert_eq!(row.known.volume.packets, 2_000);
    assert_eq!(row.known.volume.wire, 2_000 * (1_448 + 40 + 38));
    // Two packets of 1526 bytes every 246.08 us.
    assert!((row.known.rate.mbps() - 99.2).abs() < 10.0, "{}", row.known.rate);
    assert!((row.known.rtt.unwrap().ms() - 20.0).abs() < 1.0, "{:?}", row.known.rtt);
    // It is paced, and there is no queue.
    assert!(row.known.capacity.is_none() && row.known.free.is_none() && row.known.why.is_some(), "{row:?}");
    assert_eq!((tracker.counts().connections, tracker.counts().used), (1, 3_003));
    assert_eq!(tracker.one_way(), 0);
}

#[test]
fn the_handshake_tells_which_end_is_near() {
    for (to_client, to_server, direction) in
        [(1, 20, Direction::To), (20, 1, Direction::From), (5, 9, Direction::To)]
    {
        let mut tracker = tracker();
        let handshake = Handshake {
            client: CLIENT,
            server: SERVER,
            at: MS,
            to_client: to_client * MS,
            to_server: to_server * MS,
        };
        feed(&mut tracker, handshake.segments());
        let data =
            Tcp { sequence: 1_001, acknowledgement: Some(5_001), payload: 100, ..Tcp::new(CLIENT, SERVER) };
        feed(&mut tracker, [(100 * MS, data)]);
        let row = only(tracker.paths());
        assert_eq!(row.key.direction, direction);
        let peer = if direction == Direction::To { "198.51.100.0" } else { "192.0.2.0" };
        assert_eq!(row.key.peer, Peer::Network(peer.parse().unwrap()));
        assert_eq!(tracker.flows()[0].evidence.name(), "handshake");
    }
}

#[test]
fn the_first_data_may_come_before_the_end_of_the_handshake() {
    // TCP Fast Open: a request in the SYN, and the answer before the third segment, seen near the server.
    let handshake =
        Handshake { client: CLIENT, server: SERVER, at: MS, to_client: 20 * MS, to_server: MS / 10 };
    let [syn, mut syn_ack, mut third] = handshake.segments();
    let syn = (syn.0, Tcp { payload: 500, ..syn.1 });
    syn_ack.1.acknowledgement = Some(1_501);
    (third.1.sequence, third.1.acknowledgement) = (1_501, Some(5_001 + 1_000));
    let answer =
        Tcp { sequence: 5_001, acknowledgement: Some(1_501), payload: 1_000, ..Tcp::new(SERVER, CLIENT) };
    let more = Tcp { sequence: 6_001, ..answer.clone() };
    let mut tracker = tracker();
    feed(&mut tracker, [syn, syn_ack, (2 * MS, answer), third, (22 * MS, more)]);
    // The side of the sender was assumed, and private addresses do not tell.
    let row = only(tracker.paths());
    assert_eq!((row.key.direction, row.transfers, row.known.volume.packets), (Direction::To, 1, 2));
    assert_eq!(row.known.rtt.map(|rtt| rtt.ms()), Some(19.1), "of the answer and the third segment");
    assert_eq!(row.key.peer, Peer::Network("192.0.2.0".parse().unwrap()));

    // The same near the client: the answer comes from the path.
    let handshake = Handshake { to_client: MS, to_server: 20 * MS, ..handshake };
    let [syn, mut syn_ack, third] = handshake.segments();
    syn_ack.1.acknowledgement = Some(1_501);
    let syn = (syn.0, Tcp { payload: 500, ..syn.1 });
    let answer =
        Tcp { sequence: 5_001, acknowledgement: Some(1_501), payload: 1_000, ..Tcp::new(SERVER, CLIENT) };
    let mut tracker = self::tracker();
    feed(&mut tracker, [syn, syn_ack, (21 * MS, answer), third]);
    let row = only(tracker.paths());
    assert_eq!((row.key.direction, row.transfers), (Direction::From, 1));
    assert_eq!((row.known.volume.packets, row.known.rtt.map(|rtt| rtt.ms())), (1, Some(21.0)));
}

#[test]
fn without_a_handshake_other_evidence_tells_which_end_is_near() {
    let data = |from: (&str, u16), to: (&str, u16)| Tcp { payload: 1_000, ..Tcp::new(from, to) };
    let evidence = |tracker: &Tracker| {
        let flow = tracker.flows().remove(0);
        (flow.evidence.name(), flow.near.address.to_string())
    };
    let mut private = tracker();
    feed(&mut private, [(MS, data(SERVER, ("10.0.0.1", 7)))]);
    assert_eq!(evidence(&private), ("private-address", "10.0.0.1".to_owned()));

    let mut assumed = tracker();
    feed(&mut assumed, [(MS, data(SERVER, CLIENT))]);
    assert_eq!(evidence(&assumed), ("assumed", SERVER.0.to_owned()));
    assert_eq!(assumed.assumed(), 1);

    let mut outgoing = tracker();
    let (bytes, length) = data(SERVER, CLIENT).ethernet();
    outgoing.packet(&packet(MS, &bytes, length, 0), Some(false));
    outgoing.finish();
    assert_eq!(evidence(&outgoing), ("capture", CLIENT.0.to_owned()));

    let mut given = Tracker::new(&Options { side: Some(Side::Receiver), ..Options::default() });
    feed(&mut given, [(MS, data(SERVER, CLIENT))]);
    assert_eq!(evidence(&given), ("given", CLIENT.0.to_owned()));

    // The client of a complete connection is near in another one, too.
    let mut known = tracker();
    feed(&mut known, Bulk { segments: 10, ..bulk() }.packets());
    feed(&mut known, [(2_000 * MS, data(("203.0.113.9", 80), (CLIENT.0, 50_000)))]);
    let flow = known.flows().into_iter().find(|flow| flow.far.port == 80).unwrap();
    assert_eq!((flow.evidence.name(), flow.direction), ("other-connections", Direction::From));
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let mut tracker = tracker();
    feed(&mut tracker, Bulk { segments: 100, ..bulk() }.packets());
    let again = Bulk { segments: 100, at: 9_000 * MS, ..bulk() }.packets();
    let again = again.into_iter().map(|(at, mut tcp)| {
        // Other initial sequence numbers.
        let client = tcp.source.1 == CLIENT.1;
        let ahead = if client { [70_000, 90_000] } else { [90_000, 70_000] };
        tcp.sequence = tcp.sequence.wrapping_add(ahead[0]);
        tcp.acknowledgement = tcp.acknowledgement.map(|number| number.wrapping_add(ahead[1]));
        (at, tcp)
    });
    feed(&mut tracker, again);
    assert_eq!(tracker.counts().connections, 2);
    let row = only(tracker.paths());
    assert_eq!((row.transfers, row.known.volume.packets), (2, 200));
    // A SYN that is sent again is not.
    let mut tracker = self::tracker();
    let packets = Bulk { segments: 10, ..bulk() }.packets();
    feed(&mut tracker, [(500 * MS, packets[0].1.clone())]);
    feed(&mut tracker, packets.clone());
    assert_eq!(tracker.counts().connections, 1);
    // Nor is one that comes behind all others, whether it is a copy or the only one.
    for first in 0..2 {
        let mut tracker = self::tracker();
        feed(&mut tracker, packets[first..].to_vec());
        feed(&mut tracker, [(9_000 * MS, packets[0].1.clone())]);
        assert_eq!(tracker.counts().connections, 1);
    }
}

#[test]
fn packets_of_queues_in_blocks_count_as_in_the_order_of_their_times() {
    let mut ordered = tracker();
    feed(&mut ordered, bulk().packets());
    let expected = only(ordered.paths());
    for length in [5, 20, 100, 900] {
        let mut packets = bulk().packets();
        packets.sort_by_key(|(at, tcp)| (at / (length * MS), tcp.source.1 == CLIENT.1));
        let mut tracker = tracker();
        tracker.expect_late(true);
        feed(&mut tracker, packets);
        let row = only(tracker.paths());
        assert_eq!(
            (row.known.rtt, row.known.capacity, row.known.free),
            (expected.known.rtt, expected.known.capacity, expected.known.free)
        );
        assert_eq!(
            (row.known.round_trips, row.known.sums),
            (expected.known.round_trips, expected.known.sums),
            "{length} ms"
        );
        assert_eq!((tracker.clock().late, tracker.clock().steps), (0, 0));
        assert!(tracker.clock().disordered > 1_000);
    }
}

#[test]
fn a_packet_captured_on_two_interfaces_counts_once() {
    let mut tracker = tracker();
    for (at, tcp) in bulk().packets() {
        let (data, length) = tcp.ethernet();
        tracker.packet(&packet(at, &data, length, 0), None);
        tracker.packet(&packet(at + 1_000, &data, length, 1), None);
    }
    tracker.finish();
    assert_eq!(tracker.counts().skipped(Skipped::Copy), 3_003);
    assert_eq!(only(tracker.paths()).known.volume.packets, 2_000);
}

/// Takes a segment over IPv4 with an identification.
fn take(
    tracker: &mut Tracker,
    at: u64,
    tcp: &Tcp,
    identification: u16,
    interface: u32,
    outgoing: Option<bool>,
) {
    let (mut data, length) = tcp.ethernet();
    data[18..20].copy_from_slice(&identification.to_be_bytes());
    tracker.packet(&packet(at, &data, length, interface), outgoing);
}

#[test]
fn what_is_sent_again_is_no_copy() {
    // Without identifications: after packets of which none was a copy, equal ones were sent again.
    let mut tracker = tracker();
    feed(&mut tracker, Bulk { segments: 100, ..bulk() }.packets());
    let used = tracker.counts().used;
    let mut data = Tcp::new(CLIENT, SERVER);
    (data.sequence, data.acknowledgement, data.payload) = (1_001, Some(5_001), 1_448);
    let ack = Tcp { sequence: 5_001, acknowledgement: Some(100_000), ..Tcp::new(SERVER, CLIENT) };
    feed(&mut tracker, (0..3).map(|k| (2_000 * MS + k * 100_000, data.clone())));
    feed(&mut tracker, (0..3).map(|k| (2_001 * MS + k * 100_000, ack.clone())));
    assert_eq!((tracker.counts().skipped(Skipped::Copy), tracker.counts().used), (0, used + 6));
    // With them, a packet that was sent again has another one, and a copy has not, even much later.
    for (id, at, copies) in [(70, 3_000, 0), (71, 3_000, 0), (72, 3_001, 0), (71, 3_300, 1), (73, 3_400, 1)] {
        take(&mut tracker, at * MS, &data, id, 0, None);
        tracker.finish();
        assert_eq!(tracker.counts().skipped(Skipped::Copy), copies, "{id}");
    }
}

#[test]
fn copies_of_any_place_and_delay_count_once() {
    // From a mirror port, between two interfaces with a delay of 30 ms, and from three of them.
    for (delays, places) in
        [(vec![3_000], vec![0, 0]), (vec![30 * MS], vec![0, 1]), (vec![10, 20_000], vec![0, 1, 2])]
    {
        let mut all: Vec<(u64, Tcp, u32)> = Vec::new();
        for (at, tcp) in bulk().packets() {
            for (k, place) in places.iter().enumerate() {
                let delay = if k == 0 { 0 } else { delays[k - 1] };
                all.push((at + delay, tcp.clone(), *place));
            }
        }
        all.sort_by_key(|(at, ..)| *at);
        let mut tracker = tracker();
        all.iter().for_each(|(at, tcp, place)| take(&mut tracker, *at, tcp, 0, *place, None));
        tracker.finish();
        let copies = 3_003 * delays.len() as u64;
        assert_eq!(tracker.counts().skipped(Skipped::Copy), copies, "{delays:?}");
        assert_eq!(only(tracker.paths()).known.volume.packets, 2_000, "{delays:?}");
    }
}

#[test]
fn a_connection_spread_over_interfaces_is_whole() {
    let mut tracker = tracker();
    for (k, (at, tcp)) in bulk().packets().into_iter().enumerate() {
        take(&mut tracker, at, &tcp, 0, (k % 3) as u32, None);
    }
    tracker.finish();
    assert_eq!((tracker.counts().skipped(Skipped::Copy), tracker.counts().used), (0, 3_003));
}

#[test]
fn headings_do_not_tell_the_side_of_a_connection_that_is_forwarded() {
    let private = ("10.0.0.9", 40_000);
    for (skip, evidence, used) in [(0, "handshake", 3_003), (3, "private-address", 3_000)] {
        let mut tracker = tracker();
        for (at, tcp) in (Bulk { client: private, ..bulk() }).packets().into_iter().skip(skip) {
            take(&mut tracker, at, &tcp, 0, 0, Some(false));
            take(&mut tracker, at + 20_000, &tcp, 0, 1, Some(true));
        }
        tracker.finish();
        assert_eq!((tracker.counts().skipped(Skipped::Copy), tracker.counts().used), (used, used));
        let row = only(tracker.paths());
        assert_eq!((row.key.direction, row.known.volume.packets, row.transfers), (Direction::To, 2_000, 1));
        assert_eq!(tracker.flows()[0].evidence.name(), evidence);
    }
}

#[test]
fn a_packet_with_a_wrong_time_stamp_is_left_out() {
    for (at, wrong) in [(0, 0), (3, u64::MAX), (3_002, 0), (1_500, 0), (1_500, 9_000_000_000 * MS)] {
        let mut tracker = tracker();
        let base = 1_600_000_000_000 * MS;
        let packets = Bulk { at: base, ..bulk() }.packets().into_iter();
        feed(
            &mut tracker,
            packets.enumerate().map(|(k, (time, tcp))| (if k == at { wrong } else { time }, tcp)),
        );
        assert_eq!(
            (tracker.counts().skipped(Skipped::WrongStamp), tracker.counts().used),
            (1, 3_002),
            "{at}"
        );
        let row = only(tracker.paths());
        assert!((row.known.rate.mbps() - 99.2).abs() < 10.0, "{}", row.known.rate);
        assert!((row.known.rtt.unwrap().ms() - 20.0).abs() < 1.0, "{:?}", row.known.rtt);
        assert!((base..base + 1_000 * MS).contains(&tracker.first().unwrap().ns()), "{at}");
        assert!((base..base + 1_000 * MS).contains(&tracker.now().ns()), "{at}");
    }
}

#[test]
fn captures_of_one_direction_are_used_or_named() {
    let mut data_only = tracker();
    feed(&mut data_only, bulk().packets().into_iter().filter(|(_, tcp)| tcp.source.1 == CLIENT.1));
    assert_eq!(data_only.one_way(), 1);
    let row = only(data_only.paths());
    assert_eq!((row.known.volume.packets, row.known.free), (2_000, None));

    let mut acks_only = tracker();
    feed(&mut acks_only, bulk().packets().into_iter().filter(|(_, tcp)| tcp.source.1 == SERVER.1));
    assert_eq!((acks_only.one_way(), acks_only.counts().acks_only), (1, 1));
    assert_eq!(only(acks_only.paths()).known.volume.packets, 0);
}

#[test]
fn packets_larger_than_the_mss_count_as_the_segments_they_become() {
    let mut tracker = tracker();
    let handshake = bulk().packets().into_iter().take(3);
    feed(&mut tracker, handshake);
    let big =
        Tcp { sequence: 1_001, acknowledgement: Some(5_001), payload: 14_600, ..Tcp::new(CLIENT, SERVER) };
    feed(&mut tracker, [(2_000 * MS, big)]);
    let row = only(tracker.paths());
    assert_eq!((row.known.volume.packets, row.known.volume.wire), (10, 14_600 + 10 * 78));
    assert_eq!(tracker.counts().oversized, 1);
}

#[test]
fn the_tables_and_their_memory_are_bounded() {
    let options = Options { connections: 500, paths: 50, memory: 1 << 20, ..Options::default() };
    let mut tracker = Tracker::new(&options);
    let empty = tracker.memory();
    let mut most = 0;
    for k in 0..20_000u32 {
        let client = format!("10.{}.{}.{}", k >> 16, k >> 8 & 255, k & 255);
        let bulk = Bulk {
            client: (&client, 1_000),
            server: (&format!("198.{}.{}.1", k >> 8 & 255, k & 255), 443),
            segments: 20,
            at: u64::from(k) * MS,
            ..bulk()
        };
        feed(&mut tracker, bulk.packets());
        most = most.max(tracker.memory());
    }
    // Tables, transfers, and estimates of at most 52 paths.
    assert!(most < empty + (1 << 20) + 52 * 2 * 1_024 * 24, "{most} bytes");
    assert_eq!(tracker.counts().connections, 20_000);
    assert!(tracker.counts().evicted > 19_000);
    let rows = tracker.paths();
    assert!(rows.len() <= 52);
    let data: u64 = rows.iter().map(|row| row.known.volume.packets).sum();
    assert!(data >= 50 * 20, "the paths in the table keep what was counted");
}

#[test]
fn a_tracker_that_never_ends_forgets_what_is_over() {
    let [closed, idle] = [10, 300].map(|s| Duration::from_ms(1_000 * s));
    let fin = |k: u16, ends: bool| {
        let mut last = Tcp { payload: 1, ..Tcp::new((CLIENT.0, k), SERVER) };
        last.fin = ends;
        last
    };
    let (mut tracker, mut most) = (tracker(), 0);
    // A connection of a packet in each second, and one in ten that is never closed.
    for second in 0..2_000u16 {
        feed(&mut tracker, [(u64::from(second) * 1_000 * MS, fin(second, second % 10 != 0))]);
        tracker.expire(closed, idle);
        most = most.max(tracker.limits().count());
    }
    assert!((36..=42).contains(&most), "{most}");
    assert_eq!((tracker.counts().connections, tracker.counts().evicted), (2_000, 0));
    // Paths keep what was counted.
    assert_eq!(only(tracker.paths()).known.volume.packets, 2_000);
}

#[test]
fn a_full_table_of_paths_counts_the_rest_as_others() {
    let options = Options { connections: 500, paths: 2, grouping: Grouping::Address, ..Options::default() };
    let mut tracker = Tracker::new(&options);
    for k in 1..=5 {
        let server = format!("198.51.100.{k}");
        feed(&mut tracker, Bulk { server: (&server, 443), segments: 10, at: k * MS, ..bulk() }.packets());
    }
    let rows = tracker.paths();
    assert_eq!(rows.len(), 3);
    let others = rows.iter().find(|row| row.is_others()).unwrap();
    assert_eq!((others.transfers, others.known.volume.packets), (3, 30));
}

#[test]
fn intervals_add_up_to_the_whole() {
    let mut tracker = tracker();
    let (mut packets, mut used, mut refused) = (0, 0, 0);
    for (k, (at, tcp)) in bulk().packets().into_iter().enumerate() {
        feed(&mut tracker, [(at, tcp)]);
        if k % 500 == 499 {
            for row in tracker.end_interval() {
                packets += row.known.volume.packets;
                used += row.known.sums.used;
                refused += row.known.sums.refused.iter().sum::<u64>();
            }
        }
    }
    for row in tracker.end_interval() {
        packets += row.known.volume.packets;
        used += row.known.sums.used;
        refused += row.known.sums.refused.iter().sum::<u64>();
    }
    let whole = only(tracker.paths());
    assert_eq!(packets, whole.known.volume.packets);
    assert_eq!((used, refused), (whole.known.sums.used, whole.known.sums.refused.iter().sum::<u64>()));
    assert!(tracker.end_interval().is_empty(), "nothing is new");
}

#[test]
fn a_clock_that_is_set_back_is_counted_and_survived() {
    let mut tracker = tracker();
    let packets = bulk().packets();
    let middle = packets.len() / 2;
    feed(
        &mut tracker,
        packets
            .into_iter()
            .enumerate()
            .map(|(k, (at, tcp))| (if k < middle { at + 60_000 * MS } else { at }, tcp)),
    );
    assert_eq!(tracker.clock().steps, 1);
    let row = only(tracker.paths());
    assert!((row.known.rate.mbps() - 99.2).abs() < 10.0, "{}", row.known.rate);
}
