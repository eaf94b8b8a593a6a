//! The log of pairs and trains, one JSON object per line (wan 1.4).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use headway_net::TrainOutcome;
use headway_units::{Bytes, Instant};
use serde::Serialize;

use crate::output_file;

/// Writes pairs and trains to a file.
pub(crate) struct PairWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

/// One pair or train. Times are those of its first and last packet.
#[derive(Serialize)]
struct Logged {
    /// Random number of the session.
    session: String,
    /// Number of the stream in the session.
    group: u32,
    /// Number of the train in its stream, of those whose departures are known.
    train: usize,
    /// Size of each packet on the wire.
    z_bytes: u64,
    t_tx1_ns: u64,
    t_tx2_ns: u64,
    /// Absent for a lost packet.
    t_rx1_ns: Option<u64>,
    t_rx2_ns: Option<u64>,
    hidden_sent: u8,
    hidden_seen: u8,
    /// TTL of the hidden packets; absent for pairs.
    ttl_hidden: Option<u8>,
}

impl PairWriter {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<PairWriter> {
        let file = output_file::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(PairWriter { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Writes the trains of one stream.
    pub(crate) fn write(&mut self, outcome: &TrainOutcome, packet: Bytes) -> Result<()> {
        for (number, train) in outcome.trains.iter().enumerate() {
            let [sent_first, sent_last] = train.sent.map(Instant::ns);
            let [first, last] = train.received.map(|time| time.map(Instant::ns));
            let line = serde_json::to_string(&Logged {
                session: format!("{:016x}", outcome.session),
                group: outcome.stream,
                train: number,
                z_bytes: packet.get(),
                t_tx1_ns: sent_first,
                t_tx2_ns: sent_last,
                t_rx1_ns: first,
                t_rx2_ns: last,
                hidden_sent: train.train.hidden,
                hidden_seen: train.hidden_seen,
                ttl_hidden: (train.train.hidden > 0).then_some(train.train.hops),
            })?;
            writeln!(self.file, "{line}").with_context(|| self.failed())?;
        }
        Ok(())
    }

    /// Writes what is still in memory.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.flush().with_context(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("cannot write to {}", self.path.display())
    }
}
