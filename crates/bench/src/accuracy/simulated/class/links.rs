//! Paths with links, hosts or sources of a special kind.

use headway_worlds::draw::Draw;

use super::{LINES, USUAL, USUAL_TCP, add_loaded_link, bare, jittery, one_queue};
use crate::accuracy::simulated::path::{Path, START, digits};
use crate::accuracy::simulated::traffic::{ALL, SMOOTH, applications, in_step, sessions, web};

/// A rate changes within this many seconds after the start of the first measurement, and so
/// during one of three.
const MEASURED: f64 = 5.0;

/// Active queue management at a link with datagrams, and in half of the cases with TCP.
pub(super) fn managed_queue(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, USUAL_TCP, &ALL, (0.1, 0.5));
    let packets = path.hops[0].packets.max(100.0);
    let bytes = (packets * path.packet()).round();
    // RED's thresholds are a sixth and a half of the buffer.
    let queue = match draw.integer(0, 2) {
        0 => "queue = { kind = \"codel\" }".to_owned(),
        1 => "queue = { kind = \"pie\" }".to_owned(),
        _ => {
            let (low, high) = ((bytes / 6.0).round(), (bytes / 2.0).round());
            format!("queue = {{ kind = \"red\", min = \"{low} B\", max = \"{high} B\" }}")
        }
    };
    path.hops[0].packets = packets;
    path.hops[0].keys.push(queue);
    if draw.choose(&[false, true]) {
        let load = draw.between(0.1, 0.3);
        let flows = sessions(draw, path.narrow() * load, 100e3);
        path.flows.push(flows);
    }
    path
}

/// Traffic that is silent for the same part of every 10 or 100 ms.
pub(super) fn bursts_in_step(draw: &mut Draw) -> Path {
    with_source(draw, USUAL, (0.1, 0.5), in_step)
}

/// Returns a path of one link with one source that takes a share of its rate.
fn with_source(
    draw: &mut Draw,
    (slowest, fastest): (f64, f64),
    (least, most): (f64, f64),
    source: fn(&mut Draw, f64) -> String,
) -> Path {
    let mbps = draw.log_uniform(slowest, fastest);
    let mut path = bare(draw, mbps);
    let load = draw.between(least, most);
    let traffic = source(draw, mbps * load);
    let products = draw.log_uniform(0.5, 4.0);
    path.add_link(mbps, products).traffic.push(traffic);
    path
}

pub(super) fn almost_full(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &ALL[..3], (0.9, 0.98))
}

/// A host whose line is as fast as the narrow link, or hardly faster.
pub(super) fn line_as_fast(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 2e3), &ALL, (0.1, 0.7));
    path.line = draw.choose(&[1.0, 1.0, 1.1, 1.25]);
    path
}

/// Random loss of 0.1 to 2 % beside TCP that reacts to it.
pub(super) fn loss_and_tcp(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, USUAL_TCP, &SMOOTH, (0.1, 0.4));
    let (loss, load) = (draw.log_uniform(1e-3, 2e-2), draw.between(0.1, 0.4));
    path.hops[0].keys.push(format!("loss = {loss}"));
    let flows = applications(draw, &path, path.narrow() * load);
    path.flows.push(flows);
    path
}

/// Small packets beside large ones, as of voice beside downloads.
pub(super) fn packet_sizes(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(5.0, 1e3);
    let mut path =
        Path::new(draw.choose(&[576, 1500, 9000]), draw.log_uniform(2.0, 100.0), draw.choose(&LINES));
    let (load, share) = (draw.between(0.2, 0.7), draw.between(0.1, 0.6));
    let size = |bytes: f64, mbps: f64| {
        format!("model = \"poisson\"\nrate = \"{} Mb/s\"\nsize = \"{bytes} B\"", digits(mbps))
    };
    let large = path.packet();
    let products = draw.log_uniform(0.5, 4.0);
    path.add_link(mbps, products).traffic =
        vec![size(98.0, mbps * load * share), size(large, mbps * load * (1.0 - share))];
    path
}

/// RTTs of 0.2 to 2 ms.
pub(super) fn nearby(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(50.0, 10e3);
    let mut path =
        Path::new(draw.choose(&[1500, 1500, 9000]), draw.log_uniform(0.2, 2.0), draw.choose(&LINES));
    add_loaded_link(draw, &mut path, mbps, &ALL, (0.1, 0.7));
    path
}

/// A link whose rate changes once while it is measured.
pub(super) fn rate_step(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &SMOOTH, (0.1, 0.4));
    let (at, other) = (draw.between(0.2, MEASURED), draw.choose(&[0.5, 0.6, 0.75, 1.33, 1.67, 2.0]));
    let (at, mbps) = ((START + at) * 1e3, path.narrow());
    let other = digits(mbps * other);
    path.hops[0].rates =
        Some(format!("rates = [[\"0 s\", \"{mbps} Mb/s\"], [\"{at} ms\", \"{other} Mb/s\"]]"));
    path
}

/// A link whose rate is drawn anew all the time, as on a radio channel.
pub(super) fn varying_rate(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &SMOOTH, (0.1, 0.3));
    let (least, every) = (digits(draw.between(0.5, 0.9)), draw.log_uniform(100.0, 2000.0).round());
    path.hops[0].keys.push(format!("redrawn = {{ least = {least}, every = \"{every} ms\" }}"));
    path
}

/// A link that is silent for 50 to 500 ms every now and then, as a radio between two cells. Half of the
/// buffers hold what comes meanwhile.
pub(super) fn stalls(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 500.0), &SMOOTH, (0.1, 0.8));
    let length = draw.log_uniform(50.0, 500.0).round();
    let every = draw.log_uniform(f64::max(2.0 * length, 500.0), 5e3).round();
    path.hops[0].keys.push(format!("outages = {{ every = \"{every} ms\", length = \"{length} ms\" }}"));
    if draw.choose(&[false, true]) {
        let held = path.narrow() * 1e3 / 8.0 * length / path.packet();
        path.hops[0].packets += held.ceil();
    }
    path
}

/// Delays that vary by 1 to 50 ms, as those of radio links that send again what was damaged.
pub(super) fn radio_jitter(draw: &mut Draw) -> Path {
    jittery(draw, false, (1.0, 50.0))
}

/// 1 to 40 Gb/s with a receiver that coalesces interrupts by time or, under load, by number.
pub(super) fn fast_coalescing(draw: &mut Draw) -> Path {
    let mbps = draw.choose(&[1e3, 2.5e3, 5e3, 10e3, 25e3, 40e3]);
    let mut path =
        Path::new(draw.choose(&[1500, 9000]), draw.log_uniform(0.5, 40.0), draw.choose(&[1.0, 2.0, 4.0]));
    add_loaded_link(draw, &mut path, mbps, &ALL, (0.1, 0.7));
    let interval = draw.log_uniform(8.0, 120.0).round();
    path.coalescing = Some(if draw.choose(&[true, false]) {
        format!("{{ kind = \"fixed\", interval = \"{interval} us\", frames = {} }}", draw.integer(8, 64))
    } else {
        format!("{{ kind = \"adaptive\", interval = \"{interval} us\", frames = {} }}", draw.integer(8, 64))
    });
    path
}

/// The shaper of an access line, which sends its bursts at a peak rate.
pub(super) fn peak_rate(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &SMOOTH, (0.0, 0.5));
    let (burst, peak) = ((draw.log_uniform(10.0, 300.0) * 1e3).round(), draw.log_uniform(1.2, 5.0));
    let mbps = path.narrow();
    path.line = path.line.max(1.5 * peak);
    path.hops[0].keys.push(format!("burst = \"{burst} B\"\npeak-rate = \"{} Mb/s\"", digits(mbps * peak)));
    path
}

/// The web traffic of the Rapid papers.
pub(super) fn web_traffic(draw: &mut Draw) -> Path {
    with_source(draw, (10.0, 2e3), (0.1, 0.6), web)
}
