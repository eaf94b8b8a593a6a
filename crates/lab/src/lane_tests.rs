use headway_queue::explicit::{VERSION_RCP, VERSION_XCP, decode};
use headway_units::{Duration, Rate};

use super::*;
use crate::packet;
use crate::testing::{Packet, cases, header, transport_sum};

const START: Instant = Instant::from_ns(1_000_000_000);

/// A frame that carries no TCP.
const UDP: HostFrame = HostFrame { number: 0, is_tcp: false };

/// A lane at 10 Mb/s whose queue a scenario file describes.
fn lane(queue: &str) -> Lane {
    Lane::new(&spec(queue), 0, Direction::Forward, START)
}

fn spec(queue: &str) -> Spec {
    let text = format!("header-port = 4000\n[forward]\nrate = \"10 Mb/s\"\nqueue = {queue}");
    Spec::parse(&text).unwrap()
}

/// Passes a frame to the lane at `at` and returns the frames that it releases by then.
fn pass(lane: &mut Lane, frames: &mut FramePool, at: Instant, bytes: &[u8]) -> Vec<Vec<u8>> {
    let frame = frames.alloc();
    let len = bytes.len();
    frames.get_mut(frame)[..len].copy_from_slice(bytes);
    lane.receive(Received { frame, len, stamp: at }, frames);
    released(lane, frames, at)
}

fn released(lane: &mut Lane, frames: &mut FramePool, now: Instant) -> Vec<Vec<u8>> {
    lane.settle(now, frames);
    let mut out = Vec::new();
    while let Some(held) = lane.first()
        && held.release <= now
    {
        out.push(frames.get(held.frame.number)[..held.frame.len].to_vec());
        lane.released(now, frames);
    }
    out
}

/// Sends a packet every millisecond for a second and returns what the last one carries.
fn last_feedback(lane: &mut Lane, frames: &mut FramePool, packet: &Packet, version: u8, at: usize) -> u32 {
    let frame = packet.build(&header(version));
    let mut last = None;
    for k in 0..1000 {
        last = pass(lane, frames, START + Duration::from_ms(k), &frame).pop().or(last);
    }
    decode(&last.unwrap()[at..]).unwrap().feedback
}

#[test]
fn a_router_lowers_what_packets_ask_for() {
    let mut frames = FramePool::new(1600);
    for (packet, at) in [(Packet::v4(), 34), (Packet::v6(), 54), (Packet::v4().in_udp(4000), 42)] {
        // 10 Mb/s are 1.25 MB/s; a packet a millisecond hardly uses them.
        let rate = last_feedback(&mut lane("{ kind = \"rcp\" }"), &mut frames, &packet, VERSION_RCP, at);
        assert!((1_000_000..=1_250_000).contains(&rate), "{rate}");
        let change = last_feedback(&mut lane("{ kind = \"xcp\" }"), &mut frames, &packet, VERSION_XCP, at);
        assert!((1..1_250_000).contains(&change), "{change}");
    }
}

#[test]
fn a_router_lowers_what_options_of_tcp_ask_for() {
    let mut frames = FramePool::new(1600);
    let carrier = spec("{ kind = \"rcp\" }").carrier();
    for packet in [Packet::v4().in_tcp(12), Packet::v6().in_tcp(7)] {
        let mut lane = lane("{ kind = \"rcp\" }");
        let frame = packet.build(&header(VERSION_RCP));
        pass(&mut lane, &mut frames, START, &frame);
        let out = released(&mut lane, &mut frames, START + Duration::from_ms(5)).pop().unwrap();
        let found = congestion_header::find(&out, carrier).unwrap().unwrap();
        assert!((1..=1_250_000).contains(&found.header.rate()), "{found:?}");
        assert_eq!(transport_sum(&out), 0xffff);
        assert_eq!((lane.headers().headers, lane.headers().rewritten), (1, 1));
    }
}

#[test]
fn every_packet_with_a_header_is_counted() {
    let mut frames = FramePool::new(1600);
    let mut lane = lane("{ kind = \"xcp\" }");
    let good = header(VERSION_XCP);
    let mut wrong_length = Packet::v4().build(&good);
    wrong_length[35] = 21;
    let table = [
        (Packet::v4().build(&good), 1),
        (Packet::v4().with_options(4).build(&Header { protocol: 17, ..good }), 1),
        (Packet::v4().build(&good)[..40].to_vec(), 0),
        (wrong_length, 0),
        (Packet::v4().build(&Header { version: 3, ..good }), 0),
        (Packet::v4().build(&Header { format: 3, ..good }), 0),
        (Packet::v4().build(&header(VERSION_RCP)), 0),
        (Packet::v6().with_fragment_header(1).build(&good), 0),
        (Packet::v4().in_udp(5).build(&good), 1),
    ];
    for (k, (frame, expected)) in table.iter().enumerate() {
        let now = START + Duration::from_ms(20 * k as i64);
        let mut out = pass(&mut lane, &mut frames, now, frame);
        out.extend(released(&mut lane, &mut frames, now + Duration::from_ms(19)));
        assert_eq!(out.len(), *expected, "{k}");
    }
    let expected = HeaderCounts {
        headers: 2,
        rewritten: 2,
        behind_options: 1,
        other_protocols: 1,
        truncated: 1,
        wrong_length: 1,
        unknown_version: 1,
        unknown_format: 1,
        not_served: 1,
        fragments: 1,
    };
    assert_eq!(lane.headers(), expected);
    assert_eq!(expected.dropped(), 6);
}

#[test]
fn other_disciplines_leave_headers_alone() {
    let mut frames = FramePool::new(1600);
    for queue in ["{ kind = \"drop-tail\" }", "{ kind = \"codel\" }"] {
        let mut lane = lane(queue);
        let frame = Packet::v4().build(&Header { version: 9, ..header(VERSION_XCP) });
        pass(&mut lane, &mut frames, START, &frame);
        assert_eq!(released(&mut lane, &mut frames, START + Duration::from_ms(1)), [frame]);
        assert_eq!(lane.headers(), HeaderCounts::default());
    }
}

#[test]
fn whatever_arrives_is_counted_and_leaves_the_router_working() {
    send_anything("{ kind = \"rcp\", limit = \"20 kB\" }", true);
}

#[test]
fn whatever_arrives_is_counted_and_leaves_classes_working() {
    send_anything("{ kind = \"classes\", limit = \"20 kB\" }", false);
}

/// Sends random and mutated packets with headers of RCP to a queue that serves this version, and `only` this.
fn send_anything(queue: &str, only: bool) {
    use rand::RngExt;
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let mut frames = FramePool::new(1600);
    let mut lane = lane(queue);
    let bases = Packet::all().map(|packet| packet.build(&header(VERSION_RCP)));
    let (mut now, mut out) = (START, 0);
    for _ in 0..cases(500_000) {
        let mut frame = bases[rng.random_range(0..bases.len())].clone();
        for _ in 0..rng.random_range(0..4) {
            let place = rng.random_range(12..frame.len());
            frame[place] = rng.random();
        }
        if rng.random_bool(0.1) {
            frame.truncate(rng.random_range(14..frame.len()));
        }
        now += Duration::from_us(rng.random_range(0..300));
        out += pass(&mut lane, &mut frames, now, &frame).len();
    }
    let counts = lane.headers();
    let faults = [
        counts.truncated,
        counts.wrong_length,
        counts.unknown_version,
        counts.unknown_format,
        counts.fragments,
        counts.behind_options,
        counts.other_protocols,
    ];
    assert!(faults.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.not_served > 0, only);
    assert!(out > 0 && counts.headers > counts.dropped(), "{counts:?}");
    // The router still serves a proper sender, and holds no frame.
    let calm = now + Duration::from_ms(60_000);
    released(&mut lane, &mut frames, calm);
    let frame = Packet::v4().build(&header(VERSION_RCP));
    pass(&mut lane, &mut frames, calm, &frame);
    let last = released(&mut lane, &mut frames, calm + Duration::from_ms(50)).pop().unwrap();
    let rate = decode(&last[34..]).unwrap().rate();
    assert!((100..=1_250_000).contains(&rate), "{rate}");
    assert!(lane.first().is_none());
}

#[test]
fn a_change_of_rate_keeps_the_state_of_a_router() {
    let mut frames = FramePool::new(1600);
    let spec = spec("{ kind = \"xcp-kappa\" }");
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    let frame = Packet::v4().build(&header(VERSION_XCP));
    for k in 0..500 {
        pass(&mut lane, &mut frames, START + Duration::from_ms(k), &frame);
    }
    let before = lane.link.take_records().last().copied().unwrap();
    let mut faster = spec.links[0].path.forward.clone();
    faster.rate = Rate::from_mbps(20.0);
    let change = START + Duration::from_ms(500);
    lane.set_link(change, &faster);
    for k in 500..700 {
        pass(&mut lane, &mut frames, START + Duration::from_ms(k), &frame);
    }
    let after = lane.link.take_records();
    // Kappa is where it was, the average RTT is known, and the capacity is that of the link.
    assert!(after[0].kappa.abs_diff(before.kappa) < before.kappa / 10, "{after:?}");
    assert!((95_000_000..105_000_000).contains(&after[0].average_rtt), "{:?}", after[0]);
    assert_eq!(after.last().unwrap().capacity >> 16, 2_500_000);
}

#[test]
fn a_change_of_the_queue_leaves_a_varying_link_where_it_is() {
    let text =
        "[forward]\nrates = [[\"0 s\", \"10 Mb/s\"], [\"1 s\", \"2 Mb/s\"]]\nqueue = { kind = \"xcp\" }";
    let spec = Spec::parse(text).unwrap();
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    let before = &spec.links[0].path.forward;
    let queue = Some(serde_json::from_value(serde_json::json!({ "kind": "codel" })).unwrap());
    let after = LinkSpec { queue, ..before.clone() };
    assert!(after.is_same_but_queue(before) && !before.is_same_but_queue(before));
    assert!(!LinkSpec { delay: Duration::from_ms(1), ..after.clone() }.is_same_but_queue(before));
    // Set 1.5 s after the start, the rate stays the second one.
    let change = START + Duration::from_ms(1_500);
    lane.link.set_queue(change, &after);
    assert!(lane.link.versions().is_empty());
    let packet = packet::Packet { frame: Some(UDP), ..packet::Packet::new(change, wire_size(1500)) };
    lane.link.offer(packet);
    let sent = Fate::Arrives { at: change + Duration::from_us(6_152), marked: false };
    assert_eq!(lane.link.take(change).map(|decided| decided.fate), Some(sent));
}

#[test]
fn packets_stay_in_the_queue_when_the_discipline_changes() {
    let mut frames = FramePool::new(1600);
    let kinds =
        ["rcp", "classes", "xcp", "codel", "classes", "drop-tail", "classes", "classes", "xcp-b", "errors"];
    let mut lane = lane("{ kind = \"xcp\" }");
    let mut sent = 0;
    for kind in kinds {
        let spec = spec(&format!("{{ kind = \"{kind}\" }}"));
        for _ in 0..20 {
            let version = lane.link.versions().first().copied().unwrap_or(VERSION_XCP);
            pass(&mut lane, &mut frames, START, &Packet::v4().build(&header(version)));
            sent += 1;
        }
        lane.set_link(START, &spec.links[0].path.forward);
    }
    assert_eq!(released(&mut lane, &mut frames, START + Duration::from_ms(10_000)).len(), sent);
}

/// Passes a packet every 900 us to a queue that has 5 Mb/s of cross traffic, and returns when which feedback
/// leaves. The lane settles at every turn, or only when it asks for it.
fn releases(queue: &str, every_turn: bool) -> (Vec<(Instant, Vec<u8>)>, u32) {
    let text = format!(
        "[forward]\nrate = \"20 Mb/s\"\ndelay = \"3 ms\"\nqueue = {queue}\n\
         [[cross]]\ndirection = \"forward\"\nmodel = \"poisson\"\nrate = \"5 Mb/s\""
    );
    let spec = Spec::parse(&text).unwrap();
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    let mut frames = FramePool::new(1600);
    let frame = Packet::v4().build(&header(VERSION_XCP));
    let (mut out, mut settled) = (Vec::new(), 0);
    let mut now = START;
    for k in 0..2_000 {
        let arrival = START + Duration::from_us(900 * k);
        loop {
            let release = lane.first().map(|held| held.release);
            let event = if every_turn { lane.link.next_turn() } else { lane.next_event() };
            let Some(next) = release.into_iter().chain(event).min().filter(|next| *next < arrival) else {
                break;
            };
            assert!(next >= now, "a frame became due in the past");
            now = next;
            if every_turn {
                lane.link.advance(now);
            }
            settled += u32::from(event == Some(now));
            out.extend(released(&mut lane, &mut frames, now).into_iter().map(|frame| (now, frame)));
        }
        now = arrival;
        let len = frame.len();
        let number = frames.alloc();
        frames.get_mut(number)[..len].copy_from_slice(&frame);
        lane.receive(Received { frame: number, len, stamp: arrival }, &mut frames);
    }
    (out, settled)
}

#[test]
fn packets_leave_as_if_the_router_had_looked_at_every_turn() {
    // Where it may drop packets, or serve others first, it looks at every turn.
    for (queue, looks_ahead) in [
        ("{ kind = \"xcp\" }", true),
        ("{ kind = \"errors\", capacity = \"0 b/s\" }", true),
        ("{ kind = \"codel\" }", false),
        ("{ kind = \"classes\" }", false),
    ] {
        let ((often, turns), (rarely, events)) = (releases(queue, true), releases(queue, false));
        assert!(often.len() > 1_900 && often == rarely, "{queue}");
        assert!(!looks_ahead || events < turns * 3 / 4, "{queue}: {events} of {turns}");
    }
}

#[test]
fn classes_send_in_turns_and_every_frame_keeps_its_content() {
    let mut frames = FramePool::new(1600);
    let mut lane = lane("{ kind = \"classes\", limit = \"100 kB\" }");
    let with_header = |version, protocol| {
        let mut frame = Packet::v4().build(&Header { protocol, ..header(version) });
        frame.resize(1_400, 0);
        frame
    };
    let plain = |number: u8| {
        let mut frame = with_header(VERSION_XCP, number);
        // UDP, so that nobody takes its content for a header.
        frame[23] = 17;
        frame
    };
    // Ten packets of RCP, then ten of XCP, then ten without a header; the byte of the
    // protocol tells them apart.
    let arrivals: Vec<Vec<u8>> = (100..110)
        .map(|number| with_header(VERSION_RCP, number))
        .chain((110..120).map(|number| with_header(VERSION_XCP, number)))
        .chain((120..130).map(plain))
        .collect();
    for frame in &arrivals {
        pass(&mut lane, &mut frames, START, frame);
    }
    let left = released(&mut lane, &mut frames, START + Duration::from_ms(1_000));
    let numbers: Vec<u8> = left.iter().map(|frame| frame[34]).collect();
    assert_eq!(numbers.len(), 30);
    for class in [100_u8..110, 110..120, 120..130] {
        let of_class = numbers.iter().copied().filter(|number| class.contains(number));
        assert!(of_class.eq(class.clone()), "{numbers:?}");
        // A turn is one large packet.
        assert!(numbers[..15].iter().filter(|number| class.contains(*number)).count() >= 4, "{numbers:?}");
    }
    assert_eq!(
        lane.headers(),
        HeaderCounts { headers: 20, rewritten: 20, other_protocols: 20, ..lane.headers() }
    );
}

/// Bytes that ten flows of RCP deliver in the second half of 20 s from `start` on; the first of them sends at
/// three times the rate that it is given.
fn delivered_beside_a_liar(lane: &mut Lane, frames: &mut FramePool, start: Instant) -> [u64; 10] {
    const SIZE: usize = 1_000;
    let (mut told, mut credit, mut delivered) = ([10_000_u64; 10], [0; 10], [0; 10]);
    for ms in 0..20_000 {
        let now = start + Duration::from_ms(ms);
        let mut left = released(lane, frames, now);
        for flow in 0..10 {
            let rate = told[flow] * if flow == 0 { 3 } else { 1 };
            credit[flow] += rate;
            while credit[flow] >= 1_000 * SIZE as u64 {
                credit[flow] -= 1_000 * SIZE as u64;
                let x = ((SIZE as u64) << 28) / rate;
                let said = Header { x: x as u32, protocol: 6, ..header(VERSION_RCP) };
                let mut frame = Packet::v4().build(&said);
                frame.resize(SIZE, 0);
                frame[54..58].copy_from_slice(&[0, 80, 1, flow as u8]);
                left.extend(pass(lane, frames, now, &frame));
            }
        }
        for frame in left {
            let flow = usize::from(frame[57]);
            told[flow] = u64::from(decode(&frame[34..]).unwrap().feedback).clamp(1_000, 1_250_000);
            delivered[flow] += if ms < 10_000 { 0 } else { SIZE as u64 };
        }
    }
    delivered
}

#[test]
fn a_router_of_real_packets_checks_what_flows_send() {
    let share = |delivered: [u64; 10]| delivered[0] as f64 * 10.0 / delivered.iter().sum::<u64>() as f64;
    let mut frames = FramePool::new(1600);
    let mut changed = lane("{ kind = \"rcp\" }");
    let believed = share(delivered_beside_a_liar(&mut changed, &mut frames, START));
    assert!(believed > 2.0, "{believed}");
    for queue in
        ["{ kind = \"rcp\", police = 64 }", "{ kind = \"classes\", rcp = { kind = \"rcp\", police = 64 } }"]
    {
        let checked = share(delivered_beside_a_liar(&mut lane(queue), &mut frames, START));
        assert!(checked < 1.6, "{queue}: {checked}");
    }
    let later = START + Duration::from_ms(20_000);
    changed.set_link(later, &spec("{ kind = \"rcp\", police = 64 }").links[0].path.forward);
    let checked = share(delivered_beside_a_liar(&mut changed, &mut frames, later));
    assert!(checked < 1.6, "{checked}");
}

#[test]
fn cross_traffic_leaves_classes_with_headers_their_part() {
    let text = "[forward]\nrate = \"10 Mb/s\"\nqueue = { kind = \"classes\" }\n\
                [[cross]]\ndirection = \"forward\"\nmodel = \"poisson\"\nrate = \"30 Mb/s\"";
    let spec = Spec::parse(text).unwrap();
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    let mut frames = FramePool::new(1600);
    let frame = Packet::v4().build(&header(VERSION_XCP));
    // A few Mb/s: less than half of the link.
    let (mut waited, mut out) = (0, 0);
    for k in 0..5_000 {
        let at = START + Duration::from_us(400 * k);
        waited += usize::from(lane.link.next_turn().is_some());
        out += pass(&mut lane, &mut frames, at, &frame).len();
    }
    assert!(waited > 4_000 && out > 4_900, "{waited}, {out}");
}

#[test]
fn nobody_wakes_up_for_cross_traffic_alone() {
    let text = "[forward]\nrate = \"20 Mb/s\"\nqueue = { kind = \"xcp\" }\n\
                [[cross]]\ndirection = \"forward\"\nmodel = \"poisson\"\nrate = \"25 Mb/s\"";
    let spec = Spec::parse(text).unwrap();
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    lane.link.advance(START + Duration::from_ms(500));
    assert!(lane.link.next_turn().is_some());
    assert_eq!(lane.next_event(), None);
}

#[test]
fn frames_are_doubled_damaged_and_lose_ecn_behind_the_queue() {
    let mut frames = FramePool::new(1600);
    let text = "[forward]\nrate = \"10 Mb/s\"\nduplicate = 0.5\ncorrupt = 0.5\necn = \"clear\"";
    let spec = Spec::parse(text).unwrap();
    let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
    let mut packet = Packet::v4().in_udp(5).build(&header(VERSION_XCP));
    ecn::mark(&mut packet);
    let right = transport_sum(&packet);
    let (mut out, mut whole) = (0, 0);
    for k in 0..2_000 {
        let at = START + Duration::from_ms(20 * k);
        pass(&mut lane, &mut frames, at, &packet);
        let arrived = released(&mut lane, &mut frames, at + Duration::from_ms(19));
        // Both copies are the same, whether they are right or wrong.
        assert!(arrived.windows(2).all(|pair| pair[0] == pair[1]) && arrived.len() <= 2);
        assert!(arrived.iter().all(|frame| !ecn::is_capable(frame) && frame.len() == packet.len()));
        out += arrived.len();
        whole += usize::from(arrived.iter().any(|frame| transport_sum(frame) == right));
    }
    // Four standard deviations.
    assert!(out.abs_diff(3_000) < 90 && whole.abs_diff(1_000) < 90, "{out} {whole}");
    lane.link.advance(START + Duration::from_ms(50_000));
    let intervals: Vec<_> = std::iter::from_fn(|| lane.link.take_finished()).collect();
    let counted = |value: fn(&crate::truth::Interval) -> u64| intervals.iter().map(value).sum::<u64>();
    assert_eq!(counted(|i| i.host_copies), out as u64 - 2_000);
    assert_eq!(counted(|i| i.host_damaged), 2_000 - whole as u64);
}

/// A PAUSE frame of this length with its Ethernet header.
fn pause(len: usize) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0, 1];
    frame.resize(len, 0);
    frame
}

#[test]
fn pause_frames_take_time_on_a_line_and_go_no_further() {
    // rapid F8.
    let mut frames = FramePool::new(1600);
    let packet = Packet::v4().build(&header(VERSION_XCP));
    for line in ["", "line = \"100 Mb/s\""] {
        let text = format!("[forward]\nrate = \"1 Gb/s\"\n{line}");
        let spec = Spec::parse(&text).unwrap();
        let mut lane = Lane::new(&spec, 0, Direction::Forward, START);
        // All are handed over at once.
        let mut out = Vec::new();
        for frame in [&pause(1514), &packet, &pause(64), &packet] {
            out.extend(pass(&mut lane, &mut frames, START, frame));
        }
        assert!(out.is_empty());
        // Of 80 ns, 1538 bytes are 123 us, and a packet between 88 bytes of PAUSE less than 20.
        let early = released(&mut lane, &mut frames, START + Duration::from_us(120)).len();
        let late = released(&mut lane, &mut frames, START + Duration::from_us(170)).len();
        assert_eq!((early, late), if line.is_empty() { (2, 0) } else { (0, 2) }, "{line}");
        lane.link.advance(START + Duration::from_ms(20));
        assert_eq!(lane.link.take_finished().unwrap().control_frames, 2);
    }
}
