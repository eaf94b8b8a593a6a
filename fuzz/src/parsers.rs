//! All that reads bytes from outside, a function for each family of parsers: `cargo fuzz` feeds them with
//! what it makes of `fuzz/corpus`, and a test of the program with that corpus itself.
//!
//! None of them may panic, whatever the bytes. The assertions say what else holds for all input.

use std::io::Read as _;
use std::path::Path;

use headway_arithmetic::flow::{Framing, Packet as Segment};
use headway_capture::{Link, Next, Packet, Reader, Unpacked};
use headway_control::Kind;
use headway_edge::{Limits, Middlebox, Policy};
use headway_estimate::Settings;
use headway_estimate::measure::Method;
use headway_estimate::offline::{Bench, Denoising, Estimator};
use headway_estimate::stream::parse_table;
use headway_lab::congestion_header::{Carrier, find, rewrite};
use headway_lab::{Direction, PathSpec, Spec, Status, Truths, check_network, state::State};
use headway_learned::Model;
use headway_learned::stream::Gaps;
use headway_net::Host;
use headway_net::protocol::preamble::PREAMBLE_LEN;
use headway_net::protocol::probe::{HEADER_LEN, cookie};
use headway_net::protocol::{Decoder, Header, MAX_STREAM_PACKETS, Message, Preamble, encode};
use headway_passive::{Filter, Options, Skipped, Tracker, headers};
use headway_queue::explicit;
use headway_queue::{Level, QueueSpec};
use headway_scenario::{Buffer, BufferSize, Change, FlowController, KernelQueue, Scenario};
use headway_traffic::channel::CapacityTrace;
use headway_traffic::channel::DelayTrace;
use headway_traffic::pcap::Capture;
use headway_uml::plan::Plan;
use headway_uml::report::Line;
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};

use crate::token;

/// A target: the name of its corpus, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 15] = [
    ("capture", capture),
    ("command_line", command_line),
    ("congestion_header", congestion_header),
    ("control_messages", control_messages),
    ("datagrams", datagrams),
    ("filter", filter),
    ("frames", frames),
    ("helpers", helpers),
    ("middlebox", middlebox),
    ("model", model),
    ("policy", policy),
    ("replay", replay),
    ("scenario", scenario),
    ("streams", streams),
    ("traces", traces),
];

/// A file whose folder does not exist, so that a scenario finds no other files.
const FILE: &str = "/nonexistent/file";

/// Packets that pass a middlebox. Each has before it a byte with framing, side and ms since the one
/// before, and its length.
pub fn middlebox(bytes: &[u8]) {
    let limits = Limits { half_open: 4, established: 4, idle: Duration::from_ms(100) };
    let mut middlebox = Middlebox::new(&Policy::default(), [Rate::from_mbps(1.0); 2], limits);
    let mut now = Instant::from_ns(0);
    let mut rest = bytes;
    while let [head, length, after @ ..] = rest {
        let framing = if head & 1 == 0 { Framing::Ip } else { Framing::Ethernet };
        let side = head >> 1 & 1;
        now += Duration::from_ms(i64::from(head >> 2));
        let (packet, later) = after.split_at(after.len().min(usize::from(*length)));
        let mut left = packet.to_vec();
        if middlebox.on_bytes(&mut left, framing, side, now) {
            let [before, after] =
                [packet, &left].map(|bytes| Segment::read(bytes, framing, side).expect("a segment"));
            assert!(after.window > 0 && after.window < before.window);
            let at = before.at() + 14..before.at() + 18;
            assert_eq!((&left[..at.start], &left[at.end..]), (&packet[..at.start], &packet[at.end..]));
        } else {
            assert_eq!(left, packet);
        }
        middlebox.expire(now);
        rest = later;
    }
    assert!(middlebox.connections().count() <= 4 && middlebox.half_open() <= 4);
}

/// Policies of a middlebox.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(policy) = Policy::parse(text, Path::new(FILE)) {
        Middlebox::new(&policy, [Rate::from_mbps(1.0); 2], Limits::default());
    }
}

/// Files of `headway passive`: compressed or not, framing, link layer to TCP, and what the connections say.
pub fn capture(bytes: &[u8]) {
    let mut tracker = Tracker::new(&small());
    // Compressed, a few bytes are gigabytes.
    let mut reader = Reader::new(Unpacked::new(bytes).take(1 << 20));
    let mut packets = 0;
    loop {
        match reader.next() {
            Ok(Next::Packet(packet)) => tracker.packet(&packet, None),
            Ok(Next::OddRecord) => tracker.odd_record(),
            Ok(Next::Pending) => panic!("memory is never pending"),
            Ok(Next::End) | Err(_) => break,
        }
        packets += 1;
    }
    check_counts(&mut tracker, packets);
}

/// Tables so small that they overflow.
fn small() -> Options {
    Options { connections: 8, paths: 4, memory: 64 << 10, ..Options::default() }
}

/// Every packet was used or skipped for a reason, and tables are no larger than was said: of connections and
/// paths, and what they have become after their end.
fn check_counts(tracker: &mut Tracker, packets: u64) {
    tracker.finish();
    let counts = *tracker.counts();
    let skipped: u64 = Skipped::ALL.into_iter().map(|reason| counts.skipped(reason)).sum();
    assert_eq!((counts.packets, counts.used + skipped), (packets, packets));
    tracker.end_interval();
    assert!(tracker.paths().len() <= 6 && tracker.flows().len() <= 16);
}

/// Single packets of `headway passive`, behind the number of their link layer; each is seen three times.
pub fn frames(bytes: &[u8]) {
    let Some((number, data)) = bytes.split_first_chunk::<2>() else { return };
    let link = Link::from_number(u16::from_be_bytes(*number));
    let mut tracker = Tracker::new(&small());
    for ms in 1..=3 {
        let (at, length) = (Instant::from_ns(ms * 1_000_000), data.len() as u32);
        let packet = Packet { at, data, length, interface: 0, link, check_sequence: false, declared: 0 };
        if let Ok(tcp) = headers::parse(&packet) {
            assert!(tcp.segment.cut || tcp.segment.headers as usize <= data.len());
        }
        tracker.packet(&packet, None);
    }
    check_counts(&mut tracker, 3);
}

/// What `headway passive --filter` says, asked about a packet.
pub fn filter(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Filter>() {
        Ok(filter) => {
            let mut tracker = Tracker::new(&small());
            tracker.set_filter(filter);
            for at in [0, 1 << 60, u64::MAX] {
                let (at, data) = (Instant::from_ns(at), &SEGMENT[..]);
                let (interface, link) = (0, Link::Raw);
                let length = data.len() as u32;
                tracker.packet(
                    &Packet { at, data, length, interface, link, check_sequence: false, declared: 0 },
                    None,
                );
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

/// An IPv4 packet with an empty TCP segment, from 192.0.2.1 port 443 to 192.0.2.2 port 40000.
const SEGMENT: [u8; 40] = [
    0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, // IPv4
    1, 187, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0, // TCP
];

/// Captures whose packets are replayed as cross traffic.
pub fn replay(bytes: &[u8]) {
    match Capture::parse(Path::new(FILE), bytes) {
        Ok(capture) => assert!(capture.packets().is_sorted_by_key(|packet| packet.at)),
        Err(error) => drop(error.to_string()),
    }
}

/// What arrives on a control connection, in pieces of the length that the first byte says,
/// and the lists in it.
pub fn control_messages(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first() else { return };
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(usize::from(*length) + 1) {
        decoder.push(piece);
        while let Ok(Some(message)) = decoder.take() {
            let again = encode(&message).map(|frame| {
                let mut decoder = Decoder::default();
                decoder.push(&frame);
                decoder.take()
            });
            assert_eq!(again, Ok(Ok(Some(message.clone()))));
            match message {
                Message::Announce(announce) => {
                    let most = MAX_STREAM_PACKETS as usize;
                    assert!(announce.gaps.decode(most).is_none_or(|gaps| gaps.len() <= most));
                    assert!(
                        announce.hops.decode(100).is_none_or(|hops| hops.is_empty() || hops.len() == 100)
                    );
                }
                Message::Report(report) => drop(report.times.decode(100)),
                Message::Sent(report) => drop(report.times.decode(100)),
                _ => {}
            }
        }
    }
}

/// What arrives in datagrams, and the parts of them that routers quote; and before the first message of
/// a control connection.
pub fn datagrams(bytes: &[u8]) {
    if let Ok(header) = Header::parse(bytes) {
        let mut again = [0; HEADER_LEN];
        header.write(&mut again);
        assert_eq!(again, bytes[..HEADER_LEN]);
    }
    let _ = cookie(bytes);
    if let Some(bytes) = bytes.first_chunk::<PREAMBLE_LEN>()
        && let Ok(preamble) = Preamble::parse(bytes)
    {
        assert_eq!(preamble.to_bytes(), *bytes);
    }
}

/// Frames in which a router looks for a congestion header, as an IP protocol, behind UDP and as an option of
/// TCP; and what hosts read. The first byte says whether UDP carries headers.
pub fn congestion_header(bytes: &[u8]) {
    let Some((choice, frame)) = bytes.split_first() else { return };
    let carrier = Carrier { protocol: 253, port: (choice & 1 == 1).then_some(7_000), option: 253 };
    let mut frame = frame.to_vec();
    if let Some(Ok(found)) = find(&frame, carrier) {
        let _ = found.flow(&frame);
        if let Some(place) = found.place {
            let feedback = u32::from_be_bytes([*choice; 4]);
            rewrite(&mut frame, place, feedback);
            let again = find(&frame, carrier).and_then(Result::ok);
            assert_eq!(again.map(|found| found.header.feedback), Some(feedback));
        }
    }
    let _ = explicit::decode(&frame);
    let _ = explicit::decode_option(&frame);
    if let Ok(record) = explicit::decode_record(&frame) {
        assert_eq!(explicit::encode_record(&record), frame[..explicit::LOG_RECORD_BYTES]);
    }
}

/// Scenario files, of the worlds and of labs. Lines behind a zero are changes such as those of `--set`.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Absolute paths name files outside of the input.
    if ["\"/", "'/", "\n/", "\\"].iter().any(|path| text.contains(path)) {
        return;
    }
    let (text, changes) = text.split_once('\0').unwrap_or((text, ""));
    let changes: Vec<Change> = changes.lines().filter_map(|change| change.parse().ok()).collect();
    match Scenario::parse(text, Path::new(FILE), &changes) {
        Ok(scenario) => drop(format!("{scenario:?}")),
        Err(error) => drop(error.to_string()),
    }
    let network = match Scenario::parse_network(text, Path::new(FILE)) {
        Ok(network) => network,
        Err(error) => return drop(error.to_string()),
    };
    match Spec::of(&network) {
        Ok(spec) => {
            let written = serde_json::to_string(&spec).expect("plain values");
            let again: Spec = serde_json::from_str(&written).expect("what was written");
            assert_eq!(again, spec);
            let _ = check_network(&network);
        }
        Err(error) => drop(error.to_string()),
    }
}

/// Traces of capacity and of delay, and the log of a lab.
pub fn traces(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match CapacityTrace::parse(text, Path::new(FILE)) {
        Ok(trace) => drop(trace.mean_rate()),
        Err(error) => drop(error.to_string()),
    }
    if let Ok(trace) = DelayTrace::parse(text)
        && trace.check("delay-trace").is_ok()
    {
        let most = trace.most();
        assert!(trace.least() <= most && trace.at(Duration::MAX) <= most);
        let _ = trace.dilated(1_000).plus(most);
    }
    let Ok(truths) = Truths::parse(text) else { return };
    for (_, truth) in truths.iter() {
        for direction in Direction::BOTH {
            for interval in truth.intervals(direction) {
                let (from, to) = (interval.start, interval.start + interval.length);
                let _ = (interval.free(), interval.cross_offered(), interval.host());
                let _ = truth.free_between(direction, from, to);
                let _ = (
                    truth.capacity_between(direction, from, to),
                    truth.lateness_between(direction, from, to),
                );
                let _ = truth.cross_drops_between(direction, from, to);
            }
        }
        let _ = truth.end();
    }
}

/// Streams recorded as CSV, which `headway estimate` reads, and what the estimators make of them.
pub fn streams(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let packet = Bytes::new(1_538);
    match parse_table(text, Path::new(FILE), Some(packet)) {
        Ok(streams) => {
            for denoising in [Denoising::None, Denoising::OnePass, Denoising::TwoPasses, Denoising::Full] {
                let mut bench = Bench::new(Settings::for_link(packet, Rate::from_mbps(100.0)), denoising);
                for estimator in Estimator::all() {
                    for stream in &streams {
                        let _ = bench.answer(estimator, &stream.record);
                    }
                }
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

/// Files of trained models, and what the models make of features, of streams and of windows.
pub fn model(bytes: &[u8]) {
    let model = match Model::parse(bytes) {
        Ok(model) => model,
        Err(error) => return drop(error.to_string()),
    };
    let mut scratch = headway_learned::Scratch::default();
    let features: Vec<f32> = (0..model.features()).map(|k| k as f32 * 1_000.0 - 5_000.0).collect();
    if let Ok(found) = model.predict(&features, &mut scratch) {
        assert!(found.interval.is_none_or(|(low, high)| low <= found.value && found.value <= high));
    }
    let path = (Bytes::new(9_038), Some(Rate::from_mbps(10_000.0)));
    let count = model.shape().map_or(4, |shape| (shape.rates * shape.packets_per_rate) as usize);
    let gaps: Vec<Duration> = (0..count).map(|k| Duration::from_ns(9_000 - k as i64)).collect();
    let gaps = Gaps { send: &gaps, receive: &gaps };
    let rates = [1e6, 2e6, 4e6, 9e9];
    let reasons = [
        model.rate(gaps, path, &mut scratch).err(),
        model.above(gaps, path, &mut scratch).err(),
        model.good(&rates, Rate::from_mbps(100.0), &mut scratch).err(),
        model.density(&rates, None, &mut scratch).err(),
    ];
    reasons.into_iter().flatten().for_each(|reason| drop(reason.to_string()));
}

/// What the command line takes as text: hosts, quantities, methods, controllers, queues, tokens.
pub fn command_line(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<Host>().map(|host| host.to_string());
    let _ = token::parse(text).map_err(|error| error.to_string());
    reads_again::<Rate>(text);
    reads_again::<Bytes>(text);
    reads_again::<Duration>(text);
    reads_again::<Buffer>(text);
    let _ = text.parse::<BufferSize>();
    let _ = text.parse::<Level>();
    let _ = text.parse::<Method>().map_err(|error| error.to_string());
    let _ = text.parse::<Estimator>();
    let _ = text.parse::<Direction>();
    let _ = text.parse::<Change>().map(|change| change.to_string());
    let _ = text.parse::<KernelQueue>().map(|queue| queue.to_string());
    let _ = text.parse::<FlowController>().map(|controller| controller.to_string());
    if let Ok(kind) = text.parse::<Kind>() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
}

/// Checks that what is printed for a value is read, too.
fn reads_again<T: std::str::FromStr + std::fmt::Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        assert!(written.parse::<T>().is_ok(), "{written}");
    }
}

/// What processes of the program tell each other as JSON: the start and the state of a lab, requests to it
/// and its answers, the plan and the report of a kernel in virtual time.
pub fn helpers(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Spec>(bytes);
    if let Ok(path) = serde_json::from_slice::<PathSpec>(bytes) {
        let _ = path.check(1_500).map_err(|error| error.to_string());
    }
    let _ = serde_json::from_slice::<QueueSpec>(bytes);
    let _ = serde_json::from_slice::<RateSteps>(bytes);
    let _ = serde_json::from_slice::<State>(bytes);
    let _ = serde_json::from_slice::<Status>(bytes);
    let _ = serde_json::from_slice::<Plan>(bytes);
    if let Ok(Line::Control(control)) = serde_json::from_slice(bytes) {
        let _ = control.read();
    }
}
