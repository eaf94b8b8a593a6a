//! TCP Rapid's packets in flight and departures (rapid 1.4, 2.3, F15, F18, F52).

use headway_arithmetic::rapid::{Ack, Config, Departures, Flight, Packet, Preset, Rapid};

const LINE: u64 = 10_000_000_000;
const PACKET: u32 = 9038;

struct Sender {
    rapid: Rapid,
    departures: Departures,
    flight: Flight,
    now: u64,
    segment: u32,
}

impl Sender {
    /// A sender past start-up whose first segment has this number.
    fn new(flight: Flight, segment: u32) -> Sender {
        let mut config = Config::new(Preset::Default, LINE, PACKET, LINE);
        config.flags = headway_arithmetic::rapid::flags::LITERAL_START;
        Sender { rapid: Rapid::new(config, 0), departures: Departures::default(), flight, now: 0, segment }
    }

    /// Sends the next packet when it is due.
    fn send(&mut self) {
        self.now = self.now.max(self.departures.due(&mut self.rapid, self.now, false));
        let sent = self.departures.take(self.segment, false, true);
        self.flight.push(&sent, self.now);
        self.segment = self.segment.wrapping_add(1);
    }

    fn send_again(&mut self, segment: u32) {
        let sent = self.departures.take(segment, true, true);
        self.flight.push(&sent, self.now);
    }

    /// Returns what an acknowledgement settles.
    fn settled(&mut self, una: u32, arrival: Option<(u32, Option<u32>)>) -> Vec<Packet> {
        self.flight.on_ack(&Ack { now: self.now, una, arrival });
        std::iter::from_fn(|| self.flight.take()).collect()
    }
}

fn sender(segment: u32) -> Sender {
    Sender::new(Flight::new(false, 1000), segment)
}

/// Whether each packet has a stamp, is usable and is lost.
fn fates(packets: &[Packet]) -> Vec<(bool, bool, bool)> {
    packets.iter().map(|packet| (packet.stamp != 0, packet.unusable == 0, packet.lost != 0)).collect()
}

const STAMPED: (bool, bool, bool) = (true, true, false);
const COVERED: (bool, bool, bool) = (false, true, false);
const LOST: (bool, bool, bool) = (false, false, true);

#[test]
fn a_delayed_ack_settles_all_that_it_covers_and_stamps_the_one_that_caused_it() {
    // The numbers wrap within the first packets.
    let mut sender = sender(u32::MAX);
    (0..4).for_each(|_| sender.send());
    let settled = sender.settled(1, Some((0, Some(77))));
    assert_eq!(fates(&settled), [COVERED, STAMPED]);
    assert_eq!(settled[1].stamp, 77);
    assert_eq!((settled[0].index, settled[1].index), (0, 1));
    assert_eq!(sender.flight.packets().count(), 2);
}

#[test]
fn a_packet_that_a_later_one_overtakes_is_lost_and_its_repair_is_no_probe() {
    let mut sender = sender(0);
    (0..4).for_each(|_| sender.send());
    assert_eq!(fates(&sender.settled(1, Some((0, Some(1))))), [STAMPED]);
    assert_eq!(fates(&sender.settled(1, Some((2, Some(3))))), [LOST, STAMPED]);
    sender.departures.due(&mut sender.rapid, sender.now, false);
    sender.send_again(1);
    // The repair fills the hole, so the ACK covers all and nothing caused it that was sent only once.
    assert_eq!(fates(&sender.settled(4, None)), [COVERED, (false, false, false)]);
    assert_eq!(sender.flight.packets().count(), 0);
}

#[test]
fn a_receiver_that_never_stamps_is_taken_at_the_arrival_of_its_acks() {
    let mut sender = sender(0);
    (0..2).for_each(|_| sender.send());
    sender.now = 5_000_000;
    assert_eq!(sender.settled(1, Some((0, None)))[0].stamp, 5_000);
    // One that has stamped others has not seen this one.
    assert_eq!(sender.settled(2, Some((1, Some(9))))[0].stamp, 9);
    sender.send();
    assert_eq!(sender.settled(3, Some((2, None)))[0].stamp, 0);
}

/// rapid F18.
#[test]
fn a_ring_of_two_bandwidth_delay_products_loses_no_packet() {
    let mut sender = Sender::new(Flight::with_slots(false, 1000, 8300), 0);
    (0..8300).for_each(|_| sender.send());
    let settled = sender.settled(8300, Some((8299, Some(1))));
    assert_eq!(settled.len(), 8300);
    assert!(settled.iter().enumerate().all(|(place, packet)| packet.index == place as u32 % 64));
    assert_eq!(sender.flight.forgotten(), 0);
}

#[test]
fn a_full_ring_forgets_its_first_packets_only() {
    let mut sender = Sender::new(Flight::with_slots(false, 1000, 64), 0);
    (0..100).for_each(|_| sender.send());
    assert_eq!(sender.flight.forgotten(), 36);
    let settled = sender.settled(100, Some((99, Some(1))));
    let indices: Vec<u32> = settled.iter().map(|packet| packet.index).collect();
    assert_eq!(indices, (36..64).chain(0..36).collect::<Vec<u32>>());
}

#[test]
fn a_growing_ring_keeps_the_order_of_sending() {
    let mut sender = sender(0);
    (0..50).for_each(|_| sender.send());
    sender.settled(40, None);
    (0..1000).for_each(|_| sender.send());
    let segments: Vec<u32> = sender.flight.packets().map(|packet| packet.segment()).collect();
    assert_eq!(segments, (40..1050).collect::<Vec<u32>>());
}

#[test]
fn what_an_ack_leaves_untaken_the_next_one_settles_without_a_stamp() {
    let mut sender = sender(0);
    (0..4).for_each(|_| sender.send());
    sender.flight.on_ack(&Ack { now: 0, una: 2, arrival: Some((1, Some(7))) });
    assert_eq!(sender.flight.take().map(|packet| packet.index), Some(0));
    assert_eq!(fates(&sender.settled(3, Some((2, Some(8))))), [COVERED, STAMPED]);
}

#[test]
fn late_packets_catch_up_with_the_schedule_but_for_one_stream_at_most() {
    let mut sender = sender(0);
    (0..64).for_each(|_| sender.send());
    // At 100 kb/s a stream lasts 46 s.
    let length = 64 * u64::from(PACKET) * 80_000;
    sender.now += 1_000_000_000_000;
    let dues: Vec<u64> = (0..64)
        .map(|_| {
            let due = sender.departures.due(&mut sender.rapid, sender.now, false);
            sender.departures.take(0, false, true);
            due
        })
        .collect();
    // Its first packet is its first gap later than one length ago, and its last packet is due now.
    let first = dues[0] - (sender.now - length);
    assert!((800_000_000..900_000_000).contains(&first), "{first}");
    assert_eq!(dues[63], sender.now);
}

/// rapid F15.
#[test]
fn after_an_idle_time_a_new_stream_begins_at_once_and_its_first_gap_is_none() {
    let mut sender = sender(0);
    (0..3).for_each(|_| sender.send());
    let later = sender.now + 3_600_000_000_000;
    assert_eq!(sender.departures.due(&mut sender.rapid, later, true), later);
    sender.now = later;
    sender.send();
    let settled = sender.settled(4, Some((3, Some(5))));
    assert_eq!(fates(&settled[..3]), [COVERED; 3]);
    // The mark of the idle time, then the packet.
    assert_eq!(fates(&settled[3..]), [(false, false, false), STAMPED]);
    assert_eq!((settled[4].stream, settled[4].index), (1, 0));
}
