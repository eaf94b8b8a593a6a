//! The classes of the wide matrix, and the ranges of their parameters.

use super::network::{Flows, MAX_PACKETS, Network, Path, bytes};
use crate::draw::Draw;

/// A class of networks with a common feature.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// Draws one network of the class.
    pub(super) network: fn(&mut Draw) -> Network,
}

pub(super) const CLASSES: [Class; 16] = [
    Class { name: "sized", network: sized },
    Class { name: "incast", network: incast },
    Class { name: "staggered", network: staggered },
    Class { name: "small window", network: small_window },
    Class { name: "slow", network: slow },
    Class { name: "long", network: long },
    Class { name: "random loss", network: random_loss },
    Class { name: "reordering", network: reordering },
    Class { name: "two bottlenecks", network: two_bottlenecks },
    Class { name: "mixed", network: mixed },
    Class { name: "queue law", network: queue_law },
    Class { name: "token bucket", network: token_bucket },
    Class { name: "four flows", network: four_flows },
    Class { name: "several bbr", network: several_bbr },
    Class { name: "step that drops", network: step_that_drops },
    Class { name: "application", network: application },
];

/// Controllers that need no marking.
const PLAIN: [&str; 3] = ["reno", "cubic", "bbr"];
const ALL: [&str; 4] = ["reno", "cubic", "dctcp", "bbr"];
/// Fractions of a run excluded as warm-up: none, so that slow start counts, or a quarter.
const WARMUPS: [f64; 2] = [0.0, 0.25];

/// Losses that a run should see where they are random.
const LOSSES: f64 = 200.0;

/// Returns the marking threshold for DCTCP in packets: a fifth of the BDP, at least 20, at most two
/// thirds of the buffer.
fn threshold(path: &Path) -> f64 {
    (path.bdp() / 5.0).max(20.0).min(path.buffer * 2.0 / 3.0).round()
}

/// Gives the path a marking queue if the controller is DCTCP.
fn marking(mut path: Path, controller: &str) -> Path {
    if controller == "dctcp" {
        path.keys = step(threshold(&path), path.buffer);
    }
    path
}

/// Returns a queue that marks, or drops packets that cannot be marked, above `threshold` packets.
fn step(threshold: f64, limit: f64) -> String {
    let [threshold, limit] = [threshold, limit].map(bytes);
    format!(", queue = {{ kind = \"step\", threshold = \"{threshold} B\", limit = \"{limit} B\" }}")
}

fn buffer_in_bdp(path: &Path) -> String {
    format!("with room for {} packets", path.buffer)
}

/// Flows of limited size that start one after the other, alone or beside a long one.
fn sized(draw: &mut Draw) -> Network {
    let controller = draw.choose(&ALL);
    let path = Path::drawn(draw, (5.0, 200.0), (5.0, 150.0), (0.4, 3.0));
    let path = marking(path, controller);
    let (count, kilobytes, load) =
        (draw.integer(8, 40), draw.log_uniform(20.0, 1000.0), draw.log_uniform(0.3, 1.2));
    let beside = draw.choose(&[0, 1]);
    let each = kilobytes * 8.0 / path.mbps;
    let mut short = Flows::new(controller, count);
    short.stagger = each / load;
    short.start = 500.0;
    short.keys = format!(", size = \"{kilobytes} kB\"");
    let mut flows = vec![short];
    if beside > 0 {
        flows.push(Flows::new(controller, 1));
    }
    let last = if beside > 0 { "beside a long one" } else { "" };
    let special = format!("of {kilobytes} kB at load {load} {} {last}", buffer_in_bdp(&path));
    // Enough for the last flows to finish, even beside a long one.
    let seconds = (count as f64 * each * 1.3 * (1.0 / load).max(2.0) / 1e3 + 10.0).ceil();
    Network { seconds: Some(seconds), ..Network::new(path, flows, special) }
}

/// Many responses at the same time.
fn incast(draw: &mut Draw) -> Network {
    let controller = draw.choose(&ALL);
    let mut path = Path::new(draw.log_uniform(200.0, 2000.0), draw.log_uniform(0.1, 2.0), 0.0);
    path.buffer = draw.log_uniform(60.0, 400.0);
    let path = marking(path, controller);
    let (count, kilobytes) = (draw.integer(8, 64), draw.log_uniform(16.0, 256.0));
    let mut flows = Flows::new(controller, count);
    flows.stagger = draw.choose(&[0.0, 0.01, 0.1]);
    flows.keys = format!(", size = \"{kilobytes} kB\"");
    let special = format!("of {kilobytes} kB {} us apart {}", flows.stagger * 1e3, buffer_in_bdp(&path));
    Network { seconds: Some(4.0), ..Network::new(path, vec![flows], special) }
}

/// Flows that join while others already fill the queue.
fn staggered(draw: &mut Draw) -> Network {
    let controller = draw.choose(&ALL);
    let path = Path::drawn(draw, (5.0, 100.0), (5.0, 120.0), (0.4, 4.0));
    let path = marking(path, controller);
    let mut flows = Flows::new(controller, draw.integer(2, 6));
    flows.stagger = draw.log_uniform(500.0, 5000.0);
    let special = format!("{} s apart {}", flows.stagger / 1e3, buffer_in_bdp(&path));
    Network::new(path, vec![flows], special)
}

/// Flows limited by the receive window.
fn small_window(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let path = Path::drawn(draw, (5.0, 200.0), (5.0, 200.0), (0.3, 2.0));
    // As a fraction of what the path holds.
    let share = draw.log_uniform(0.05, 1.5);
    let mut flows = Flows::new(controller, draw.choose(&[1, 1, 2, 4]));
    let room = path.bdp() + path.buffer;
    let bytes = (room * share / flows.count as f64).round().max(8.0) * 1500.0;
    flows.stagger = draw.log_uniform(50.0, 1000.0);
    flows.keys = format!(", receive-buffer = \"{bytes} B\"");
    let special = format!("with windows of {} kB {}", bytes / 1e3, buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Access links with low rates.
fn slow(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let path = Path::drawn(draw, (1.0, 50.0), (10.0, 120.0), (0.4, 4.0));
    let mut flows = Flows::new(controller, draw.choose(&[1, 1, 2, 4]));
    flows.stagger = draw.log_uniform(100.0, 2000.0);
    let special = buffer_in_bdp(&path);
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Intercontinental and satellite paths.
fn long(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let path = Path::drawn(draw, (1.0, 50.0), (150.0, 600.0), (0.25, 2.0));
    let mut flows = Flows::new(controller, draw.choose(&[1, 1, 2]));
    flows.stagger = draw.log_uniform(500.0, 3000.0);
    let special = buffer_in_bdp(&path);
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Losses unrelated to congestion.
fn random_loss(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let mut path = Path::drawn(draw, (5.0, 100.0), (5.0, 200.0), (0.5, 2.0));
    let loss = draw.log_uniform(1e-4, 1e-2);
    path.keys = format!(", loss = {loss}");
    let mut flows = Flows::new(controller, draw.choose(&[1, 1, 2]));
    flows.stagger = 1000.0;
    let special = format!("with loss {loss} {}", buffer_in_bdp(&path));
    Network {
        random: true,
        seconds: Some(enough(&path, loss)),
        warmup: WARMUPS[1],
        ..Network::new(path, vec![flows], special)
    }
}

/// Returns a duration, in seconds, with enough losses for goodput to be within a few percent of its mean,
/// subject to the packet limit.
fn enough(path: &Path, loss: f64) -> f64 {
    // The average window of a Reno flow (Mathis et al., CCR 27(3), 1997).
    let window = (1.22 / loss.sqrt()).min(path.bdp() + path.buffer);
    let losses = window / (path.rtt_ms / 1e3) * loss;
    (LOSSES / losses).min(MAX_PACKETS / path.packets_per_second()).clamp(30.0, 300.0).ceil()
}

/// Reordered packets, with and without losses.
fn reordering(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let mut path = Path::drawn(draw, (5.0, 100.0), (10.0, 150.0), (0.5, 2.0));
    let jitter = (draw.log_uniform(0.01, 0.3) * path.rtt_ms * 1e3).round();
    let loss = draw.choose(&[0.0, 0.0003, 0.001, 0.003]);
    path.keys = format!(", jitter = \"{jitter} us\", reordering = true, loss = {loss}");
    let mut flows = Flows::new(controller, draw.choose(&[1, 1, 2]));
    flows.stagger = 1000.0;
    let special = format!("with jitter of {} ms and loss {loss} {}", jitter / 1e3, buffer_in_bdp(&path));
    Network {
        random: true,
        seconds: Some(if loss > 0.0 { enough(&path, loss) } else { 40.0 }),
        warmup: WARMUPS[1],
        ..Network::new(path, vec![flows], special)
    }
}

/// Two bottlenecks in a row, each with flows of its own.
fn two_bottlenecks(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let path = Path::drawn(draw, (10.0, 100.0), (4.0, 60.0), (0.5, 2.0));
    let rate = (path.mbps * draw.log_uniform(0.6, 1.6)).round();
    let further = Path::new(rate, draw.log_uniform(4.0, 60.0), draw.log_uniform(0.5, 2.0));
    let group = |count, ends, start| Flows { ends, start, stagger: 400.0, ..Flows::new(controller, count) };
    let flows = vec![
        group(draw.integer(1, 2), ["client", "server"], 0.0),
        group(draw.integer(0, 2), ["client", "router"], 130.0),
        group(draw.integer(1, 2), ["router", "server"], 270.0),
    ];
    let special = format!(
        "{} and then at {rate} Mb/s and {} ms {}",
        buffer_in_bdp(&path),
        further.rtt_ms,
        buffer_in_bdp(&further)
    );
    let flows = flows.into_iter().filter(|flows| flows.count > 0).collect();
    Network { further: Some(further), warmup: draw.choose(&WARMUPS), ..Network::new(path, flows, special) }
}

/// Different controllers at one bottleneck.
fn mixed(draw: &mut Draw) -> Network {
    const PAIRS: [[&str; 2]; 5] =
        [["reno", "cubic"], ["cubic", "bbr"], ["reno", "bbr"], ["dctcp", "cubic"], ["dctcp", "reno"]];
    let pair = draw.choose(&PAIRS);
    let path = Path::drawn(draw, (10.0, 200.0), (5.0, 80.0), (0.5, 4.0));
    let path = marking(path, pair[0]);
    let flows: Vec<Flows> = pair
        .into_iter()
        .zip([0.0, 700.0])
        .map(|(controller, start)| Flows {
            start,
            stagger: 300.0,
            ..Flows::new(controller, draw.integer(1, 2))
        })
        .collect();
    let special = format!("of {} and {} {}", pair[0], pair[1], buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, flows, special) }
}

/// Queues that drop or mark before they are full (AQM).
fn queue_law(draw: &mut Draw) -> Network {
    let controller = draw.choose(&ALL);
    let mut path = Path::new(draw.log_uniform(5.0, 200.0), draw.log_uniform(5.0, 100.0), 2.0);
    path.buffer = path.buffer.max(100.0);
    let law = draw.choose(&["codel", "pie", "red"]);
    let target = draw.log_uniform(2.0, 20.0);
    let limit = path.buffer;
    let marks = controller == "dctcp" || draw.choose(&[false, true]);
    let least = (path.packets_per_second() * target / 1e3).max(8.0);
    let queue = match law {
        "red" => {
            let [min, max, limit] = [least, least * 3.0, limit.max(least * 6.0)].map(bytes);
            format!("kind = \"red\", min = \"{min} B\", max = \"{max} B\", limit = \"{limit} B\"")
        }
        law => format!("kind = \"{law}\", target = \"{target} ms\", limit = \"{} B\"", bytes(limit)),
    };
    path.keys = format!(", queue = {{ {queue} }}");
    let mut flows = Flows::new(controller, draw.choose(&[1, 2, 4]));
    flows.stagger = draw.log_uniform(50.0, 500.0);
    if marks && controller != "dctcp" {
        flows.keys = ", ecn = \"classic\"".to_owned();
    }
    let special = format!("at {law} of {target} ms {}", if marks { "with marks" } else { "" });
    Network {
        random: law != "codel",
        warmup: draw.choose(&WARMUPS),
        ..Network::new(path, vec![flows], special)
    }
}

/// Shapers that let bursts pass.
fn token_bucket(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let mut path = Path::drawn(draw, (5.0, 200.0), (5.0, 100.0), (0.4, 3.0));
    let burst = draw.log_uniform(8.0, 300.0);
    path.keys = format!(", burst = \"{burst} kB\"");
    let mut flows = Flows::new(controller, draw.choose(&[1, 2, 4]));
    flows.stagger = draw.log_uniform(50.0, 500.0);
    let special = format!("with a bucket of {burst} kB {}", buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Four flows that start at nearly the same time.
fn four_flows(draw: &mut Draw) -> Network {
    let controller = draw.choose(&ALL);
    let path = Path::drawn(draw, (10.0, 300.0), (2.0, 80.0), (0.3, 4.0));
    let path = marking(path, controller);
    let mut flows = Flows::new(controller, 4);
    flows.stagger = draw.log_uniform(1.0, 300.0);
    let special = format!("{} ms apart {}", flows.stagger, buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Several flows of BBR, whose retransmissions count.
fn several_bbr(draw: &mut Draw) -> Network {
    let path = Path::drawn(draw, (5.0, 200.0), (5.0, 120.0), (0.3, 4.0));
    let mut flows = Flows::new("bbr", draw.integer(2, 8));
    flows.stagger = draw.log_uniform(1.0, 3000.0);
    let special = format!("{} ms apart {}", flows.stagger, buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![flows], special) }
}

/// Non-ECN flows at a marking queue, which acts as a short buffer with a sharp edge.
fn step_that_drops(draw: &mut Draw) -> Network {
    let controller = draw.choose(&["reno", "cubic"]);
    let mut path = Path::new(draw.log_uniform(10.0, 200.0), draw.log_uniform(1.0, 40.0), 4.0);
    let edge = draw.log_uniform(4.0, 60.0);
    path.keys = step(edge, path.buffer.max(edge * 2.0));
    let mut flows = Flows::new(controller, draw.integer(1, 8));
    flows.stagger = draw.log_uniform(5.0, 300.0);
    let special = format!("at an edge of {edge} packets");
    Network::new(path, vec![flows], special)
}

/// Application-limited flows beside a bulk flow.
fn application(draw: &mut Draw) -> Network {
    let controller = draw.choose(&PLAIN);
    let path = Path::drawn(draw, (10.0, 100.0), (5.0, 100.0), (0.4, 3.0));
    let share = draw.log_uniform(0.05, 0.4);
    let mut slow = Flows::new(controller, draw.integer(1, 3));
    slow.stagger = 300.0;
    slow.keys = format!(", application-rate = \"{} kb/s\"", (path.mbps * share * 1e3).round());
    let bulk = Flows { start: 1000.0, ..Flows::new(controller, 1) };
    let special = format!("of which all but one write {share} of the rate {}", buffer_in_bdp(&path));
    Network { warmup: draw.choose(&WARMUPS), ..Network::new(path, vec![slow, bulk], special) }
}
