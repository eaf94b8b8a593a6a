//! What a monitor makes of flows that the kernel has counted.

use headway_arithmetic::flow::{Half, Meter};
use headway_edge::classify::{Behaviour, LimitedBy};
use headway_edge::{Connections, Judged, Monitor, News, Passive, Policy, Seen, Treatments, Weight};

use headway_units::{Instant, Side};

use crate::support::{Connection, MS, mbps, policy};

const SECOND: u64 = 1_000 * MS;

/// A flow of a client on the LAN to a port, of which the server has sent packets of this size
/// with this gap in ms.
struct Source {
    connection: Connection,
    is_tcp: bool,
    size: u32,
    gap: u64,
    sent: Meter,
    limited_by: LimitedBy,
}

impl Source {
    fn new(port: u16, size: u32, gap: u64) -> Source {
        let connection = Connection::new(port, 443, 40, 7);
        Source { connection, is_tcp: true, size, gap, sent: Meter::default(), limited_by: LimitedBy::Unknown }
    }

    /// Sends for a second that ends at `now`.
    fn send(&mut self, now: u64) {
        for at in (now - SECOND..now).step_by((self.gap * MS) as usize) {
            self.sent.add(at, self.size, 1);
        }
    }

    fn seen(&self) -> Seen {
        let [(syn, _), (answer, half), (third, rtt)] = self.connection.handshake();
        let key = *third.key();
        let client = third.sender();
        let tcp = self.is_tcp.then(|| {
            let mut handshake = Half::begin(&syn, SECOND).unwrap();
            handshake.on_answer(&answer, SECOND + half * MS);
            let mut flow = handshake.on_third(&third, SECOND + rtt * MS, 0).unwrap();
            flow.on_segment(&third, SECOND + rtt * MS);
            flow
        });
        let (mut sent, mut passive) = ([Meter::default(); 2], [Passive::default(); 2]);
        sent[1 - client] = self.sent;
        passive[1 - client].limited_by = self.limited_by;
        let number = self.connection.client.1.into();
        Seen {
            number,
            key,
            client,
            side: Side::Lan,
            class: Some(0),
            tcp,
            sent,
            is_split: false,
            ecn: [false; 2],
            passive,
            weight: Weight::default(),
        }
    }
}

/// An edge without a kernel.
struct Edge {
    monitor: Monitor,
    connections: Connections,
    now: u64,
}

impl Edge {
    fn new(policy: &Policy, sources: &[Source]) -> Edge {
        let mut connections = Connections::new(policy, mbps(10.0));
        for source in sources.iter().filter(|source| source.is_tcp) {
            connections.begin(source.seen().key, 0);
        }
        Edge { monitor: Monitor::new(policy, Some(mbps(10.0))), connections, now: 2 * SECOND }
    }

    /// Lets all send for a second, and does what is decided.
    fn step(&mut self, sources: &mut [Source]) -> Vec<Judged> {
        self.treat(sources).judged
    }

    /// The same, with what shares are computed from.
    fn treat(&mut self, sources: &mut [Source]) -> Treatments {
        self.now += SECOND;
        sources.iter_mut().for_each(|source| source.send(self.now));
        let seen = sources.iter().map(Source::seen).collect();
        let treatments = self.monitor.look(Instant::from_ns(self.now), seen, &self.connections.shares());
        self.connections.apply(&treatments);
        treatments
    }
}

fn behaviours(judged: &[Judged]) -> Vec<Behaviour> {
    judged.iter().map(|judged| judged.behaviour.0).collect()
}

#[test]
fn a_call_is_spared_and_downloads_share_what_is_said_of_them() {
    // Two downloads that are soon at their shares of 5 Mb/s, a call of speech, and the same by UDP.
    let mut sources = [
        Source::new(1, 1250, 1),
        Source::new(2, 1250, 1),
        Source::new(3, 160, 20),
        Source { is_tcp: false, ..Source::new(4, 160, 20) },
    ];
    let policy = Policy::default();
    let mut edge = Edge::new(&policy, &sources);
    let first = edge.step(&mut sources);
    assert!(first.iter().all(|judged| judged.news == News::Kind));
    (0..3).for_each(|_| drop(edge.step(&mut sources)));
    sources[..2].iter_mut().for_each(|source| source.gap = 2);
    let judged = (0..12).map(|_| edge.step(&mut sources)).last().unwrap();
    assert_eq!(behaviours(&judged), [Behaviour::Bulk, Behaviour::Bulk, Behaviour::Cbr, Behaviour::Cbr]);
    let passes: Vec<bool> = judged.iter().map(|judged| judged.decision.passes()).collect();
    assert_eq!(passes, [false, false, true, true]);
    let shares = edge.connections.shares();
    for download in &judged[..2] {
        // Half of what two calls of 64 kb/s leave of the data in 10 Mb/s, and 40 ms; windows are
        // in units of 128 bytes.
        let state = download.state(&["all".to_owned()], &shares);
        assert_eq!(state.window_let_through_bytes, Some(23_218 / 128 * 128), "{state:?}");
        assert!(state.decision.starts_with("has a window of 23.2 kB at most"), "{}", state.decision);
        assert!(state.decision.ends_with("10.0 Mb/s, of which others use 136 kb/s"), "{}", state.decision);
        assert_eq!(
            (state.limited_by.as_str(), state.down_bps, state.up_bps),
            ("receive-window", 5_000_000, 0)
        );
        assert_eq!(download.news, News::None);
    }
    for call in &judged[2..] {
        let state = call.state(&[], &shares);
        assert_eq!(state.decision, "passes, because it has a constant rate, and delay hurts it");
        assert_eq!(state.window_let_through_bytes, state.window_bytes);
    }
}

#[test]
fn what_a_capture_says_counts_unless_the_window_is_full() {
    let mut sources = [Source { limited_by: LimitedBy::Path, ..Source::new(1, 1250, 20) }];
    let mut edge = Edge::new(&Policy::default(), &sources);
    let judged = (0..3).map(|_| edge.step(&mut sources)).last().unwrap();
    assert_eq!(judged[0].limited_by(), LimitedBy::Path);
    // As fast as its window allows.
    sources[0].gap = 1;
    let judged = (0..12).map(|_| edge.step(&mut sources)).last().unwrap();
    assert_eq!(judged[0].limited_by(), LimitedBy::ReceiveWindow);
}

#[test]
fn what_has_no_window_takes_no_share_and_says_why_it_passes() {
    let mut sources = [Source::new(1, 1250, 1), Source { is_tcp: false, ..Source::new(2, 1250, 1) }];
    let mut edge = Edge::new(&Policy::default(), &sources);
    let judged = (0..8).map(|_| edge.step(&mut sources)).last().unwrap();
    let [held, passes] = &judged[..] else { panic!("{judged:?}") };
    assert!(held.decision.to_string().contains("alone in its class"), "{}", held.decision);
    assert_eq!(passes.protocol(), "udp");
    let sentence =
        "passes, because it has no window that could be lowered, and its ends do not react to marks";
    assert_eq!(passes.decision.to_string(), sentence);
}

#[test]
fn another_policy_changes_judgements_at_once() {
    let mut sources = [Source::new(1, 1250, 1)];
    let mut edge = Edge::new(&Policy::default(), &sources);
    for _ in 0..8 {
        edge.step(&mut sources);
    }
    edge.monitor.set_policy(&policy("[[class]]\nname = 'a'\nshare = 0.5"));
    let judged = edge.step(&mut sources);
    assert_eq!(judged[0].news, News::Amount);
    assert!(judged[0].decision.to_string().contains("window of 23.5 kB"), "{}", judged[0].decision);
    // Everything is an answer now.
    edge.monitor.set_policy(&policy("[classifier]\nlargest-answer = '1 GB'\nlongest-answer = '1000 s'"));
    let judged = edge.step(&mut sources);
    assert_eq!((judged[0].behaviour.0, judged[0].news), (Behaviour::Unknown, News::Kind));
    edge.monitor.set_policy(&policy("[[class]]\nname = 'a'\nshare = 0.5\npriority = true"));
    let judged = (0..3).map(|_| edge.step(&mut sources)).last().unwrap();
    assert_eq!(judged[0].decision.to_string(), "passes, because its class has priority");
}

#[test]
fn nothing_is_kept_of_flows_that_are_gone() {
    let mut monitor = Monitor::new(&Policy::default(), Some(mbps(10.0)));
    let shares = Connections::new(&Policy::default(), mbps(10.0)).shares();
    for round in 1..100_u64 {
        let source = Source::new(round as u16, 100, 10);
        let now = Instant::from_ns(round * SECOND);
        let judged = monitor.look(now, vec![source.seen()], &shares).judged;
        // The first of a number is news again and again.
        assert_eq!(judged[0].news, News::Kind);
    }
    let now = Instant::from_ns(100 * SECOND);
    assert!(monitor.look(now, Vec::new(), &shares).judged.is_empty());
}

#[test]
fn a_flow_that_begins_is_not_taken_for_one_of_others() {
    let mut sources = [Source::new(1, 1250, 1)];
    let mut edge = Edge::new(&Policy::default(), &sources);
    edge.step(&mut []);
    for _ in 0..8 {
        let Treatments { judged, rates } = edge.treat(&mut sources);
        assert!(!judged[0].decision.to_string().contains("others use"), "{}", judged[0].decision);
        assert_eq!(rates.available[Side::Lan], None);
    }
}

#[test]
fn what_was_seen_again_gives_the_same_treatments_again() {
    let mut sources: Vec<Source> = (1..=40).map(|port| Source::new(port, 1250, u64::from(port))).collect();
    let policy = Policy::default();
    let shares = Connections::new(&policy, mbps(10.0)).shares();
    let recorded: Vec<(Instant, Vec<Seen>)> = (3..30)
        .map(|second| {
            sources.iter_mut().for_each(|source| source.send(second * SECOND));
            (Instant::from_ns(second * SECOND), sources.iter().map(Source::seen).collect())
        })
        .collect();
    for rates in [None, Some(mbps(10.0))] {
        let [one, other] = [0, 1].map(|_| {
            let mut monitor = Monitor::new(&policy, rates);
            let treat = |(now, seen): &(Instant, Vec<Seen>)| {
                format!("{:?}", monitor.look(*now, seen.clone(), &shares))
            };
            recorded.iter().map(treat).collect::<Vec<_>>()
        });
        assert_eq!(one, other);
    }
}
