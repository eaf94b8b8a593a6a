//! Tables of streams.

use std::io::Write;

use csv::Writer;
use headway_estimate::Gaps;
use headway_host::nic::Coalescing;
use headway_learned::stream::{self, Features, Kind, Statistic};
use headway_units::{Duration, Rate};

use super::numbered;
use crate::streams::{Plan, Run, Stream};

/// Writes streams: what they are, the truth, statistics, features if asked for, and all gaps.
pub struct StreamTable<W: Write> {
    out: Writer<W>,
    features: Option<Features>,
    gaps: Gaps,
    scratch: stream::Scratch,
    values: Vec<f32>,
    row: Vec<String>,
}

/// The columns before the statistics.
const FIRST: [&str; 15] = [
    "run",
    "part",
    "traffic",
    "coalescing",
    "rates",
    "packets_per_rate",
    "range",
    "capacity_bps",
    "packet_wire_bytes",
    "average_bps",
    "lowest_bps",
    "highest_bps",
    "free_bps",
    "covered",
    "above",
];

impl<W: Write> StreamTable<W> {
    /// Writes the names of the columns. With a `kind`, streams have columns of these features, of
    /// gaps in nanoseconds.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(plan: &Plan, kind: Option<Kind>, out: W) -> csv::Result<StreamTable<W>> {
        let gaps = plan.shape().gaps();
        let features = kind.and_then(|kind| Features::new(kind, gaps));
        let mut out = Writer::from_writer(out);
        let statistics = Statistic::ALL.map(|one| format!("stat_{}", one.name()));
        let mut names: Vec<String> = FIRST.map(str::to_owned).into_iter().chain(statistics).collect();
        names.extend(numbered("x", features.as_ref().map_or(0, Features::len)));
        names.extend(numbered("send_gap_ns", gaps).chain(numbered("receive_gap_ns", gaps)));
        out.write_record(&names)?;
        let (scratch, values) = (stream::Scratch::default(), Vec::new());
        Ok(StreamTable { out, features, gaps: Gaps::default(), scratch, values, row: Vec::new() })
    }

    /// Writes a stream of a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, plan: &Plan, run: &Run<'_>, stream: &Stream) -> csv::Result<()> {
        // Of streams without losses, in order, as all are here.
        if stream.record.gaps(&mut self.gaps).is_err() {
            return Ok(());
        }
        let [lowest, highest] = stream.ends();
        let bps = |rate: Rate| rate.bps().to_string();
        let yes = |is: bool| u8::from(is).to_string();
        self.row.clear();
        self.row.extend([
            run.number.to_string(),
            run.part.name().to_owned(),
            run.traffic.model().to_owned(),
            describe(run.coalescing),
            plan.rates.to_string(),
            plan.packets_per_rate.to_string(),
            plan.range.to_string(),
            bps(run.path.capacity),
            run.path.packet.get().to_string(),
            bps(stream.record.average),
            bps(lowest),
            bps(highest),
            bps(stream.available),
            yes(stream.is_covered()),
            yes(stream.is_above()),
        ]);
        let gaps = stream::Gaps { send: &self.gaps.send, receive: &self.gaps.receive };
        self.row.extend(stream::statistics(gaps, 1.0).map(|value| value.to_string()));
        if let Some(features) = &self.features
            && features.compute(gaps, 1.0, &mut self.scratch, &mut self.values).is_ok()
        {
            self.row.extend(self.values.iter().map(f32::to_string));
        }
        self.row.extend(gaps.send.iter().chain(gaps.receive).map(|gap| gap.ns().to_string()));
        self.out.write_record(&self.row)
    }

    /// Writes what is left, and returns what was written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> std::io::Result<W> {
        self.out.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

/// Returns a few words on the coalescing of interrupts, such as `120 us`.
fn describe(coalescing: Coalescing) -> String {
    match coalescing {
        Coalescing::Fixed { interval: Duration::ZERO, .. } => "none".to_owned(),
        Coalescing::Fixed { interval, frames: None, .. } => format!("{interval}"),
        Coalescing::Fixed { interval, frames: Some(frames), .. } => format!("{interval} or {frames} frames"),
        Coalescing::Adaptive { interval, frames } => format!("adaptive {interval} {frames} frames"),
    }
}
