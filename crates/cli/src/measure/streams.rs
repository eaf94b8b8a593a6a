//! The packets of a measurement as a CSV file, for inspection or for running estimators again.

use std::fs::File;
use std::path::Path;

use anyhow::Context as _;
use headway_estimate::{Arrival, StreamRecord};
use headway_record::{csv, row};
use serde::Serialize;

/// Writes one line per packet.
pub(crate) struct StreamWriter(csv::Writer<File>);

impl StreamWriter {
    pub(crate) fn create(path: &Path) -> anyhow::Result<StreamWriter> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(StreamWriter(csv::begin(file, csv_row(&StreamRecord::default(), &Arrival::default()))?))
    }

    /// Appends a stream; a lost packet has no receive time.
    pub(crate) fn write(&mut self, record: &StreamRecord) -> anyhow::Result<()> {
        for arrival in &record.arrivals {
            self.0.serialize(csv_row(record, arrival))?;
        }
        Ok(self.0.flush()?)
    }
}

fn csv_row(record: &StreamRecord, arrival: &Arrival) -> impl Serialize + use<> {
    row! {
        stream: record.id,
        index: arrival.index,
        packet_wire_bytes: arrival.size.get(),
        average_bps: record.average.bps(),
        sent_ns: arrival.sent,
        received_ns: arrival.received,
    }
}
