//! The thread that writes the truth file, so that the emulator never waits for the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

use crate::control::{LinkStatus, Status};
use crate::emulator::{Report, of_lane};
use crate::error::Error;
use crate::spec::Direction;
use crate::state::{OLD_TRUTH, TRUTH};
use crate::truth::HEADER;

/// At this size the file is rotated, and the previous rotated file is removed. Two files hold one to two hours of 10 ms
/// intervals of one link, and a forgotten lab does not fill `/run`, which lies in memory (16 to 256 MB is sensible).
const LIMIT: u64 = 64 << 20;

/// The truth file of a lab.
pub(crate) struct TruthLog {
    folder: PathBuf,
    file: File,
    size: u64,
}

impl TruthLog {
    /// Creates a file with only the header.
    pub(crate) fn create(folder: &Path) -> Result<TruthLog, Error> {
        let path = folder.join(TRUTH);
        let file = open(&path).map_err(|e| Error::file("write", &path, e))?;
        Ok(TruthLog { folder: folder.to_owned(), file, size: 0 })
    }

    /// Appends the emulator's reports until the emulator ends; `lanes` are the names of the emulator's lanes.
    pub(crate) fn write(mut self, lanes: &[String], reports: &Receiver<Report>, status: &Mutex<Status>) {
        let mut text = String::new();
        for report in reports {
            match report {
                Report::Intervals(intervals) => {
                    text.clear();
                    for (lane, interval) in &intervals {
                        interval.write_csv(&lanes[*lane], &mut text);
                    }
                    if let Err(error) = self.append(&text) {
                        tracing::error!("cannot write the truth: {error}");
                    }
                    if let Ok(mut status) = status.lock() {
                        for (lane, interval) in intervals {
                            let (link, direction) = of_lane(lane);
                            let LinkStatus { forward, reverse, .. } = &mut status.links[link];
                            match direction {
                                Direction::Forward => *forward = Some(interval),
                                Direction::Reverse => *reverse = Some(interval),
                            }
                        }
                    }
                }
                // Sending fails only if the client has gone, which does not matter here.
                Report::Synced(answer) => drop(answer.send(())),
                Report::Trouble(sentence) => tracing::warn!("{sentence}"),
            }
        }
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        if self.size > LIMIT {
            let path = self.folder.join(TRUTH);
            fs::rename(&path, self.folder.join(OLD_TRUTH))?;
            self.file = open(&path)?;
            self.size = 0;
        }
        self.size += text.len() as u64;
        self.file.write_all(text.as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut file = File::create(path)?;
    writeln!(file, "{HEADER}")?;
    Ok(file)
}
