//! Cross traffic on the paths, as keys of scenario tables.

use super::path::{Path, digits};
use headway_worlds::draw::Draw;

/// The arrival process of a datagram source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    Constant,
    Poisson,
    Batches,
    /// Self-similar: sources with Pareto-distributed on and off times.
    LongRange,
}

/// Models without bursts, models with bursts, and all models.
pub(super) const SMOOTH: [Model; 2] = [Model::Constant, Model::Poisson];
pub(super) const BURSTY: [Model; 2] = [Model::Batches, Model::LongRange];
pub(super) const ALL: [Model; 4] = [Model::Constant, Model::Poisson, Model::Batches, Model::LongRange];

/// Minimum rate for cross traffic in jumbo frames, where the path's MTU allows them, Mb/s.
const JUMBO_RATE: f64 = 20e3;
/// Up to the rate `SLOW`, Mb/s, on and off times are multiplied by `SLOWER`, because a packet takes a
/// millisecond or more.
const SLOW: f64 = 10.0;
const SLOWER: f64 = 8.0;

/// Returns the keys of a datagram source with a mean rate of `mbps`.
pub(super) fn datagrams(draw: &mut Draw, path: &Path, model: Model, mbps: f64) -> String {
    let size = if mbps >= JUMBO_RATE && path.mtu > 1500 {
        path.packet()
    } else {
        draw.choose(&[1538.0_f64, 1538.0, 578.0]).min(path.packet())
    };
    let rate = digits(mbps);
    match model {
        Model::Constant => format!("model = \"cbr\"\nrate = \"{rate} Mb/s\"\nsize = \"{size} B\""),
        Model::Poisson => format!("model = \"poisson\"\nrate = \"{rate} Mb/s\"\nsize = \"{size} B\""),
        Model::Batches => {
            let batch = draw.log_uniform(2.0, 30.0);
            format!("model = \"batches\"\nrate = \"{rate} Mb/s\"\nsize = \"{size} B\"\nbatch = {batch:.1}")
        }
        Model::LongRange => {
            let (sources, shape) = (draw.integer(4, 40), draw.between(1.3, 1.9));
            let (share, scale) = (draw.between(0.2, 0.6), if mbps <= SLOW { SLOWER } else { 1.0 });
            let on = draw.log_uniform(3.0, 60.0) * scale;
            on_off(sources, (mbps / sources as f64 / share, share), on, shape, size)
        }
    }
}

/// Returns the keys of on-off sources: mean on time `on_ms`, on for a share of the time, and then sending at
/// a peak rate in Mb/s.
pub(super) fn on_off(sources: u64, (peak, share): (f64, f64), on_ms: f64, shape: f64, size: f64) -> String {
    let [on, off] = [on_ms * 1e3, on_ms * 1e3 * (1.0 - share) / share].map(f64::round);
    let peak = digits(peak);
    format!(
        "model = \"pareto-on-off\"\nsources = {sources}\npeak = \"{peak} Mb/s\"\non = \"{on} us\"\noff = \"{off} us\"\nshape = {shape}\nsize = \"{size} B\""
    )
}

/// Returns the keys of traffic with a mean rate of `mbps` that is silent for a part of every 10 or 100 ms.
pub(super) fn in_step(draw: &mut Draw, mbps: f64) -> String {
    let (period, silent) = (draw.choose(&[10.0, 100.0]), draw.between(0.3, 0.8));
    let (rate, silence) = (digits(mbps), period * 1e3 * silent);
    format!(
        "model = \"pareto\"\nrate = \"{rate} Mb/s\"\nsilence = \"{silence} us\"\nperiod = \"{period} ms\""
    )
}

/// Mean rate of the model `bct` (rapid Table 3.1), Mb/s.
const WEB_RATE: f64 = 2510.0;

/// Returns the keys of the web traffic of the Rapid papers with a mean rate of `mbps`: the slower,
/// the longer its bursts.
pub(super) fn web(draw: &mut Draw, mbps: f64) -> String {
    let model = draw.choose(&["bct", "sct"]);
    format!("model = \"{model}\"\nscale = {}", digits(mbps / WEB_RATE))
}

/// Returns a controller that people use.
pub(super) fn controller(draw: &mut Draw) -> &'static str {
    draw.choose(&["cubic", "reno", "bbr"])
}

/// Returns the keys of TCP flows whose applications together write `mbps`, counted on the wire.
pub(super) fn applications(draw: &mut Draw, path: &Path, mbps: f64) -> String {
    let (count, controller) = (draw.integer(1, 6), controller(draw));
    let payload = f64::from(path.mtu - 52) / path.packet();
    let each = digits(mbps * payload / count as f64);
    format!(
        "controller = \"{controller}\"\ncount = {count}\nstagger = \"130 ms\"\napplication-rate = \"{each} Mb/s\""
    )
}

/// Returns the keys of one to four greedy TCP flows.
pub(super) fn greedy(draw: &mut Draw) -> String {
    let (count, controller) = (draw.integer(1, 4), controller(draw));
    greedy_flows(count, controller)
}

/// Returns the keys of greedy TCP flows.
pub(super) fn greedy_flows(count: u64, controller: &str) -> String {
    format!("controller = \"{controller}\"\ncount = {count}\nstagger = \"170 ms\"")
}

/// Returns the keys of TCP flows that arrive at random, of `mean` bytes each and `mbps` together.
pub(super) fn sessions(draw: &mut Draw, mbps: f64, mean: f64) -> String {
    let (controller, spread, rate) = (controller(draw), draw.between(0.5, 1.7), digits(mbps));
    let sizes = format!("{{ kind = \"lognormal\", mean = \"{} B\", spread = {spread} }}", mean.round());
    format!(
        "controller = \"{controller}\"\narrivals = {{ rate = \"{rate} Mb/s\", size-distribution = {sizes} }}"
    )
}

/// Returns the keys of TCP flows that fetch a chunk and pause, and so use about `mbps` together.
pub(super) fn videos(draw: &mut Draw, path: &Path, mbps: f64) -> String {
    let (count, controller, period) = (draw.integer(1, 8), controller(draw), draw.log_uniform(0.3, 4.0));
    let chunk = (mbps / count as f64 * 1e6 / 8.0 * period).max(4.0 * path.packet());
    // The pause begins when the chunk has been fetched at about twice the rate at which it is played.
    let pause = (period * 500.0).round();
    format!(
        "controller = \"{controller}\"\ncount = {count}\nstagger = \"190 ms\"\nchunk = \"{} B\"\npause = \"{pause} ms\"",
        chunk.round()
    )
}
