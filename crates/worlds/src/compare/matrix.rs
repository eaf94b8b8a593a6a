//! The calibration matrix: 288 cells with one bottleneck, for worlds in virtual time.

use crate::error::Error;
use headway_scenario::Change;
use headway_units::{Bytes, Duration, Rate, WIRE_OVERHEAD};

use super::cell::{Cell, flows, parsed};

const CONTROLLERS: [&str; 4] = ["reno", "cubic", "dctcp", "bbr"];
const RATES_MBPS: [u64; 3] = [100, 1_000, 10_000];
const RTTS_MS: [i64; 4] = [1, 10, 30, 100];
/// Buffers in bandwidth-delay products.
const BUFFERS: [f64; 3] = [0.25, 1.0, 4.0];
const FLOWS: [u64; 2] = [1, 4];
/// Stagger of the flows in RTTs, one per run. How flows share the bottleneck depends on how slow start
/// ended; with a short buffer, Jain's index of a single run varies between 0.65 and 0.98. Hence the
/// median over several runs.
const STAGGERS: [f64; 3] = [0.0, 0.37, 0.83];

/// Wire size of a full packet with an MTU of 1500 bytes.
const PACKET: Bytes = Bytes::new(1500 + WIRE_OVERHEAD.get());

/// Duration of a cell in cycles of the controller. A third of it is warm-up; over the remaining eight cycles,
/// a truncated one shifts the mean delay by only 1 or 2 %.
const CYCLES: f64 = 12.0;
/// Minimum duration of a cell in RTTs: slow start takes about 15, and recovering from its
/// overshoot some more.
const MIN_RTTS: f64 = 200.0;
/// Minimum duration of a cell: thirty times the minimum RTO of 200 ms.
const MIN_DURATION: Duration = Duration::from_ms(6_000);
/// Limit on the packets of a cell, all its runs together: 20 s of work for a real stack at 400 000 packets
/// per second. Half of the cells would need more for all their cycles, up to hours of virtual time.
const MAX_PACKETS: u64 = 8_000_000;
/// RTTs that a truncated cell keeps, regardless of the packet limit.
const KEPT_RTTS: f64 = 100.0;
/// Interval between the PROBE_RTT phases of BBR.
const BBR_CYCLE: Duration = Duration::from_ms(10_000);

/// Lower bound of DCTCP's marking threshold, in packets: a lower threshold would mark the bursts of a single
/// host.
const MIN_THRESHOLD: u64 = 20;

/// Largest window that TCP can advertise.
const MAX_WINDOW: Bytes = Bytes::new(1 << 30);
/// Default receive buffer of scenarios.
const USUAL_WINDOW: Bytes = Bytes::new(64_000_000);

/// A point in the parameter space of the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    controller: &'static str,
    mbps: u64,
    rtt_ms: i64,
    /// In bandwidth-delay products.
    buffer: f64,
    flows: u64,
}

/// Returns all cells, or with `quick` a subset that covers all values; `set` may change anything but
/// the cell's parameters.
pub(super) fn cells(quick: bool, set: &[Change]) -> Result<Vec<Cell>, Error> {
    let points = if quick { subset() } else { all() };
    points.iter().map(|point| point.cell(set)).collect()
}

fn all() -> Vec<Point> {
    let mut points = Vec::new();
    for controller in CONTROLLERS {
        for mbps in RATES_MBPS {
            for rtt_ms in RTTS_MS {
                for buffer in BUFFERS {
                    for flows in FLOWS {
                        points.push(Point { controller, mbps, rtt_ms, buffer, flows });
                    }
                }
            }
        }
    }
    points
}

/// A point: controller, rate in Mb/s, RTT in ms, buffer in bandwidth-delay products, and flows.
type Cheap = (&'static str, u64, i64, f64, u64);

/// The subset: cells that together react to mistakes in every part of the transport, and of
/// those the cheap ones.
///
/// A group has nine at most, so that a single cell outside its bands is more than the tenth that may be.
const QUICK: [Cheap; 21] = [
    ("reno", 100, 1, 0.25, 1),
    ("reno", 100, 10, 1.0, 1),
    ("reno", 1_000, 1, 4.0, 1),
    ("reno", 100, 10, 0.25, 4),
    ("reno", 1_000, 10, 4.0, 4),
    ("cubic", 100, 10, 1.0, 1),
    ("cubic", 100, 30, 4.0, 1),
    ("cubic", 1_000, 10, 0.25, 1),
    ("cubic", 100, 30, 1.0, 4),
    ("cubic", 100, 100, 0.25, 4),
    ("cubic", 100, 1, 4.0, 4),
    ("dctcp", 100, 100, 0.25, 1),
    ("dctcp", 1_000, 1, 0.25, 1),
    ("dctcp", 10_000, 30, 0.25, 1),
    ("dctcp", 100, 1, 1.0, 4),
    ("dctcp", 100, 10, 0.25, 4),
    ("bbr", 100, 100, 0.25, 1),
    ("bbr", 100, 1, 1.0, 1),
    ("bbr", 1_000, 10, 1.0, 1),
    ("bbr", 100, 1, 0.25, 4),
    ("bbr", 100, 10, 4.0, 4),
];

/// Returns the cells of [`QUICK`].
fn subset() -> Vec<Point> {
    let point = |&(controller, mbps, rtt_ms, buffer, flows): &Cheap| Point {
        controller,
        mbps,
        rtt_ms,
        buffer,
        flows,
    };
    QUICK.iter().map(point).collect()
}

impl Point {
    fn rate(&self) -> Rate {
        Rate::from_mbps(self.mbps as f64)
    }

    fn rtt(&self) -> Duration {
        Duration::from_ms(self.rtt_ms)
    }

    /// Returns the bandwidth-delay product times `factor`.
    fn bdp(&self, factor: f64) -> Bytes {
        self.rate().bytes_in(self.rtt().scale(factor))
    }

    /// Returns one period of the controller in steady state.
    fn cycle(&self) -> Duration {
        // The maximum window of a flow, and the RTT with the queue half full.
        let window = self.bdp(1.0 + self.buffer).get() as f64 / PACKET.get() as f64 / self.flows as f64;
        let round = self.rtt().scale(1.0 + self.buffer / 2.0);
        // cwnd grows from half to full by one segment per RTT.
        let reno = round.scale(window / 2.0);
        match self.controller {
            "reno" => reno,
            // K of RFC 9438; CUBIC behaves like Reno where K is longer than Reno's cycle.
            "cubic" => reno.min(Duration::from_secs_f64((window * 0.3 / 0.4).cbrt())),
            // Its period is short, about the square root of the window (Alizadeh et al., equation 8). But the
            // first mark halves the window, because alpha starts at one, and warm-up, a third of the run,
            // must cover the regrowth.
            "dctcp" => reno.scale(3.0 / CYCLES).max(round.scale(window.sqrt())),
            _ => BBR_CYCLE,
        }
    }

    /// Returns the number of runs.
    fn runs(&self) -> u64 {
        if self.flows > 1 { STAGGERS.len() as u64 } else { 1 }
    }

    /// Returns the duration of each run, in whole seconds.
    fn duration(&self) -> Duration {
        let wanted = self.cycle().scale(CYCLES).max(self.rtt().scale(MIN_RTTS)).max(MIN_DURATION);
        let most =
            self.rate().time_for(PACKET * (MAX_PACKETS / self.runs())).max(self.rtt().scale(KEPT_RTTS));
        Duration::from_ms((wanted.min(most).ms() / 1e3).ceil() as i64 * 1_000)
    }

    /// Returns DCTCP's marking threshold: a seventh of the BDP (RFC 8257, 3.1), at least 20 packets, but low
    /// enough that the queue marks before the buffer overflows.
    fn threshold(&self) -> Bytes {
        let threshold = Bytes::new(self.bdp(1.0).get() / 7);
        let room = Bytes::new(self.bdp(self.buffer).get() * 2 / 3);
        threshold.max(PACKET * MIN_THRESHOLD).min(room)
    }

    /// Returns a receive buffer that does not limit the window.
    fn window(&self) -> Bytes {
        Bytes::new(self.bdp(1.0 + self.buffer).get() * 2).clamp(USUAL_WINDOW, MAX_WINDOW)
    }

    fn cell(&self, set: &[Change]) -> Result<Cell, Error> {
        let Point { controller, mbps, rtt_ms, buffer, flows: count } = *self;
        let rate = if mbps < 1_000 { format!("{mbps} Mb/s") } else { format!("{} Gb/s", mbps / 1_000) };
        let duration = self.duration();
        let mut changes = vec![
            format!("duration={} ms", duration.ms()),
            format!("warmup={} ms", (duration.ms() / 3.0).round()),
            format!("flow.0.receive-buffer={} B", self.window().get()),
        ];
        // The user may override these, but not the parameters that name the cell.
        changes.extend(set.iter().map(ToString::to_string));
        changes.extend([
            format!("link.0.rate={rate}"),
            format!("link.0.delay={} us", rtt_ms * 500),
            format!("link.0.buffer={} B", self.bdp(buffer).get()),
            format!("flow.0.controller={controller}"),
            format!("flow.0.count={count}"),
        ]);
        if controller == "dctcp" {
            let threshold = self.threshold().get();
            changes.push("flow.0.ecn=dctcp".to_owned());
            changes.push(format!("link.0.queue={{ kind = \"step\", threshold = \"{threshold} B\" }}"));
        }
        let labels =
            [controller.to_owned(), rate, format!("{rtt_ms} ms"), format!("{buffer} BDP"), flows(count)];
        let runs = if count > 1 { self.staggered()? } else { Vec::new() };
        Ok(Cell { runs, ..Cell::new(labels, &changes)? })
    }

    /// Returns the overrides of several runs, one for each stagger.
    fn staggered(&self) -> Result<Vec<Vec<Change>>, Error> {
        let stagger = |part: &f64| format!("flow.0.stagger={} us", self.rtt().scale(*part).us().round());
        STAGGERS.iter().map(|part| parsed(&[stagger(part)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_scenario::Scenario;
    use std::collections::HashMap;
    use std::path::Path;

    #[test]
    fn every_cell_is_a_scenario() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml");
        let cells = cells(false, &[]).unwrap();
        assert_eq!(cells.len(), 288);
        for cell in &cells {
            let scenario = Scenario::load(&path, &cell.changes).unwrap_or_else(|e| panic!("{cell}: {e}"));
            assert_eq!(scenario.flow[0].controller.to_string(), cell.labels[0]);
            assert_eq!(format!("{} ms", scenario.link[0].delay.ms() * 2.0), cell.labels[2]);
        }
    }

    #[test]
    fn several_flows_are_run_with_several_staggers() {
        let cells = cells(false, &[]).unwrap();
        let runs = |label: &str| {
            let cell =
                cells.iter().find(|cell| cell.labels[2] == "30 ms" && cell.labels[4] == label).unwrap();
            cell.each_run().iter().map(|run| run.last().unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(runs("1 flow").len(), 1);
        assert_eq!(
            runs("4 flows"),
            ["flow.0.stagger=0 us", "flow.0.stagger=11100 us", "flow.0.stagger=24900 us"]
        );
    }

    #[test]
    fn the_subset_has_every_value_and_a_group_that_one_cell_can_fail() {
        let (all, subset) = (all(), subset());
        assert!(subset.iter().all(|point| all.contains(point)));
        let mut seen: HashMap<String, usize> = HashMap::new();
        for label in cells(true, &[]).unwrap().into_iter().flat_map(|cell| cell.labels) {
            *seen.entry(label).or_default() += 1;
        }
        assert_eq!(seen.len(), 4 + 3 + 4 + 3 + 2);
        let count = |wanted: fn(&Point) -> bool| subset.iter().filter(|point| wanted(point)).count();
        assert_eq!(count(|point| point.controller != "bbr" && point.flows == 1), 9);
        assert_eq!(count(|point| point.flows > 1), 9);
        assert_eq!(count(|point| point.controller == "bbr"), 5);
    }

    #[test]
    fn the_subset_takes_a_minute_or_two_of_two_cores() {
        let packets = |points: Vec<Point>| -> f64 {
            let bytes = |point: &Point| point.rate().bytes_in(point.duration()).get() * point.runs();
            let bytes = points.iter().map(bytes);
            bytes.sum::<u64>() as f64 / PACKET.get() as f64
        };
        let minutes = |packets: f64| packets / 400e3 / 2.0 / 60.0;
        assert!(minutes(packets(subset())) < 1.5, "{}", minutes(packets(subset())));
        assert!(minutes(packets(all())) < 45.0, "{}", minutes(packets(all())));
    }

    #[test]
    fn cells_last_for_their_cycles_within_bounds() {
        let point = Point { controller: "reno", mbps: 100, rtt_ms: 30, buffer: 1.0, flows: 1 };
        // 487 packets: 244 RTTs of 45 ms.
        assert!((10.9..11.1).contains(&point.cycle().secs_f64()), "{}", point.cycle());
        assert_eq!(point.duration(), Duration::from_ms(132_000));
        let cubic = Point { controller: "cubic", ..point };
        assert!((7.1..7.2).contains(&cubic.cycle().secs_f64()), "{}", cubic.cycle());
        let short = Point { rtt_ms: 1, ..point };
        assert_eq!(short.duration(), MIN_DURATION);
        let long = Point { mbps: 10_000, rtt_ms: 100, ..point };
        assert_eq!(long.duration(), Duration::from_ms(10_000));
        assert_eq!(Point { controller: "bbr", ..point }.duration(), Duration::from_ms(120_000));
    }

    #[test]
    fn marks_come_before_losses() {
        for point in all() {
            let buffer = point.bdp(point.buffer);
            assert!(PACKET <= point.threshold() && point.threshold() < buffer, "{point:?}");
            assert!(point.window() > point.bdp(1.0 + point.buffer), "{point:?}");
        }
    }

    #[test]
    fn what_is_set_may_shorten_a_cell_and_not_move_it() {
        let set = ["duration=2 s", "warmup=1 s", "link.0.rate=7 Mb/s"].map(|text| text.parse().unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml");
        let scenario = Scenario::load(&path, &cells(true, &set).unwrap()[0].changes).unwrap();
        assert_eq!(scenario.duration, Duration::from_ms(2_000));
        assert_eq!(scenario.link[0].rate, Some(Rate::from_mbps(100.0)));
    }
}
