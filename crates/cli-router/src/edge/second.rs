//! A second as lines of JSON.
//!
//! With many flows they are long, so each flow goes into the text by itself, and not into a tree of values
//! first, which would have ten times the size.

use std::io::Write as _;

use headway_edge::classify::Features;
use headway_edge::evaluate::Decision;
use headway_edge::snapshot::FlowState;
use headway_edge::{Judged, Shares};
use headway_kernel::EdgeCounters;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use headway_router::edge::Found;

/// What is known at the end of a second: what the snapshot says, but for what is long or an event of
/// its own, and all flows.
#[derive(Serialize)]
struct State<'a> {
    event: &'a str,
    #[serde(flatten)]
    snapshot: Map<String, Value>,
    connections: Map<String, Value>,
    counters: &'a EdgeCounters,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows: Option<Flows<'a>>,
}

/// Something that happened.
#[derive(Serialize)]
struct Event<'a, T> {
    event: &'a str,
    #[serde(flatten)]
    what: T,
}

struct Flows<'a> {
    judged: &'a [Judged],
    classes: &'a [String],
    shares: &'a Shares,
}

impl Serialize for Flows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.judged.iter().map(|judged| Flow::new(judged, self.classes, self.shares)))
    }
}

/// What a page shows of a flow, its windows and rates by its ends, and the features by which it was judged.
#[derive(Serialize)]
struct Flow<'a> {
    #[serde(flatten)]
    state: FlowState,
    client_window_bytes: Option<u32>,
    client_window_let_through_bytes: Option<u32>,
    server_window_bytes: Option<u32>,
    server_window_let_through_bytes: Option<u32>,
    client_receives_bps: u64,
    server_receives_bps: u64,
    features: Option<Features>,
    strategies: &'a Decision,
}

impl Flow<'_> {
    fn new<'a>(judged: &'a Judged, classes: &[String], shares: &Shares) -> Flow<'a> {
        let ends = [judged.seen.client, 1 - judged.seen.client];
        let [client, server] = ends.map(|end| judged.windows(end, shares));
        Flow {
            state: judged.state(classes, shares),
            client_window_bytes: client[0],
            client_window_let_through_bytes: client[1],
            server_window_bytes: server[0],
            server_window_let_through_bytes: server[1],
            // What an end sends, the other one receives.
            client_receives_bps: judged.rates[ends[1]].bps(),
            server_receives_bps: judged.rates[ends[0]].bps(),
            features: judged.features,
            strategies: &judged.decision,
        }
    }
}

/// Returns the decisions of a second, each in a line, and then its state, in which are all
/// flows if they are wanted.
pub(super) fn lines(mut found: Found, shows_flows: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for decision in std::mem::take(&mut found.snapshot.decisions) {
        add(&mut text, &Event { event: "decision", what: decision });
    }
    found.snapshot.flows.clear();
    let Value::Object(mut snapshot) = json!(found.snapshot) else { return text };
    snapshot.retain(|name, _| !["decisions", "flows"].contains(&name.as_str()));
    let (judged, shares, classes) = (&found.judged[..], &found.shares, &found.classes[..]);
    let flows = shows_flows.then_some(Flows { judged, classes, shares });
    let connections =
        classes.iter().cloned().zip(found.connections.iter().map(|count| (*count).into())).collect();
    add(&mut text, &State { event: "state", snapshot, connections, counters: &found.counted, flows });
    text
}

/// Adds a line.
fn add(text: &mut Vec<u8>, value: &impl Serialize) {
    // Neither names that are no strings nor a writer that fails are there.
    let _ = serde_json::to_writer(&mut *text, value);
    let _ = text.write_all(b"\n");
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    use headway_arithmetic::flow::{Flow as Tracked, Packet};
    use headway_edge::classify::{Behaviour, Rule};
    use headway_edge::evaluate::{Action, Step, Why};
    use headway_edge::snapshot::{DecisionState, Snapshot};
    use headway_edge::{News, Seen, Weight};
    use headway_units::{PerSide, Rate, Side};

    use super::*;

    /// The system allocator, which counts the bytes that the current thread has, and the most that it had.
    struct Counting;

    thread_local! {
        static BYTES: Cell<[isize; 2]> = const { Cell::new([0; 2]) };
    }

    fn count(change: isize) {
        let [now, most] = BYTES.get();
        BYTES.set([now + change, most.max(now + change)]);
    }

    // SAFETY: every call is passed on to the system allocator unchanged.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout.size() as isize);
            // SAFETY: as for this function.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            count(-(layout.size() as isize));
            // SAFETY: as for this function.
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count(size as isize - layout.size() as isize);
            // SAFETY: as for this function.
            unsafe { System.realloc(pointer, layout, size) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    /// A connection that was judged.
    fn judged(number: u64) -> Judged {
        let packet = Packet::between(([10, 0, 0, 1].into(), number as u16), ([192, 0, 2, 1].into(), 443));
        let seen = Seen {
            number,
            key: *packet.key(),
            client: 0,
            side: Side::Lan,
            class: Some(0),
            tcp: Some(Tracked::default()),
            sent: Default::default(),
            is_split: false,
            ecn: [false; 2],
            passive: Default::default(),
            weight: Weight::default(),
        };
        let why = Why::DelayHurts(Behaviour::Interactive);
        let step =
            Step { strategy: "spared", action: Action::Pass { priority: false }, why, is_lowered: false };
        Judged {
            seen,
            features: None,
            behaviour: (Behaviour::Interactive, Rule::SmallPackets),
            rates: [Rate::from_bps(1_000), Rate::ZERO],
            main_side: Side::Lan,
            unused: PerSide::default(),
            decision: Decision {
                flow: number,
                chain: vec![step],
                changed: false,
                waiting: Vec::new(),
                shares: true,
                weight: Weight::default(),
            },
            news: News::None,
        }
    }

    fn second(flows: u64, decisions: Vec<DecisionState>) -> Found {
        let judged: Vec<Judged> = (0..flows).map(judged).collect();
        Found {
            snapshot: Snapshot { time_ms: 7, decisions, ..Snapshot::default() },
            judged,
            classes: vec!["all".to_owned()],
            connections: vec![1],
            shares: Shares::default(),
            counted: EdgeCounters::default(),
            new_kinds: 0,
        }
    }

    #[test]
    fn a_second_is_its_decisions_and_then_its_state_with_all_flows() {
        let text = lines(second(2, vec![judged(1).decided(7)]), true);
        let lines: Vec<Value> = String::from_utf8(text)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [decision, state] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&decision["event"], &decision["flow"]), (&json!("decision"), &json!(1)));
        assert_eq!((&state["event"], &state["time_ms"]), (&json!("state"), &json!(7)));
        assert!(state.get("decisions").is_none() && state["counters"]["segments"] == 0);
        let flow = &state["flows"][1];
        assert_eq!((&flow["id"], &flow["class"]), (&json!(1), &json!("all")));
        assert_eq!(flow["strategies"]["chain"][0]["strategy"], "spared");
        // Without the flows, what a page shows of them is not in the state either.
        let text = super::lines(second(1, Vec::new()), false);
        assert!(!String::from_utf8(text).unwrap().contains("\"flows\""));
    }

    #[test]
    fn many_flows_take_hardly_more_memory_than_their_text() {
        let found = second(1_000, Vec::new());
        let [before, _] = BYTES.get();
        BYTES.set([before; 2]);
        let text = lines(found, true);
        let [_, most] = BYTES.get();
        // A vector that grows has up to twice the room that it needs.
        let bytes = (most - before) as usize;
        assert!((text.len()..2 * text.len() + 10_000).contains(&bytes), "{bytes} for {}", text.len());
    }
}
