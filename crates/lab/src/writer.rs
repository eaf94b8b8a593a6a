//! The thread that writes what the emulator reports, so that the emulator never waits for the disk.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

use headway_record::{ControlInterval, csv, json_lines};

use crate::control::{RouterStatus, Status};
use crate::emulator::{Report, RouterReport, of_lane};
use crate::error::Error;
use crate::log_file::LogFile;
use crate::spec::Direction;
use crate::state::{OLD_ROUTERS, OLD_TRUTH, ROUTERS, TRUTH};
use crate::truth::Interval;

/// Writes the truth and the records of routers to files, where wanted, and the latest of both to a status.
pub(crate) struct Writer {
    truth: Option<LogFile>,
    routers: Option<LogFile>,
    /// The names of the emulator's lanes.
    lanes: Vec<String>,
}

impl Writer {
    /// Creates the files in the folder of a lab; `lanes` are the names of the emulator's lanes.
    pub(crate) fn create(folder: &Path, lanes: Vec<String>) -> Result<Writer, Error> {
        let file = |new, old, header: &str| LogFile::create(&folder.join(new), &folder.join(old), header);
        Ok(Writer {
            truth: Some(file(TRUTH, OLD_TRUTH, &csv::header(Interval::default().row("")))?),
            routers: Some(file(ROUTERS, OLD_ROUTERS, "")?),
            lanes,
        })
    }

    /// Creates a writer without truth that writes the records of routers to `routers`, if given.
    pub(crate) fn of_routers(routers: Option<&Path>, lanes: Vec<String>) -> Result<Writer, Error> {
        let file = |path: &Path| LogFile::create_both(path, &path.with_added_extension("old"));
        Ok(Writer { truth: None, routers: routers.map(file).transpose()?, lanes })
    }

    /// Appends the emulator's reports until the emulator ends.
    pub(crate) fn write(mut self, reports: &Receiver<Report>, status: &Mutex<Status>) {
        for report in reports {
            match report {
                Report::Intervals(intervals) => self.intervals(intervals, status),
                Report::Routers(routers) => self.routers(routers, status),
                // Sending fails only if the client has gone, which does not matter here.
                Report::Synced(answer) => drop(answer.send(())),
                Report::Trouble(sentence) => tracing::warn!("{sentence}"),
            }
        }
    }

    fn intervals(&mut self, intervals: Vec<(usize, Interval)>, status: &Mutex<Status>) {
        if let Some(truth) = &mut self.truth {
            let rows = intervals.iter().map(|(lane, interval)| interval.row(&self.lanes[*lane]));
            if let Err(error) = truth.append(&csv::lines(rows)) {
                tracing::error!("cannot write the truth: {error}");
            }
        }
        let Ok(mut status) = status.lock() else { return };
        for (lane, interval) in intervals {
            let (link, direction) = of_lane(lane);
            let link = &mut status.links[link];
            match direction {
                Direction::Forward => link.forward = Some(interval),
                Direction::Reverse => link.reverse = Some(interval),
            }
        }
    }

    fn routers(&mut self, routers: Vec<RouterReport>, status: &Mutex<Status>) {
        for RouterReport { lane, oversized, headers, records } in routers {
            let name = &self.lanes[lane];
            let records: Vec<_> = records.iter().map(|record| ControlInterval::new(name, record)).collect();
            if let Some(file) = &mut self.routers {
                let written = json_lines(&records).map_err(Into::into).and_then(|text| file.append(&text));
                if let Err(error) = written {
                    tracing::error!("cannot write the records of routers: {error}");
                }
            }
            let Ok(mut status) = status.lock() else { continue };
            let (link, direction) = of_lane(lane);
            let link = &mut status.links[link];
            let (place, dropped) = match direction {
                Direction::Forward => (&mut link.forward_router, &mut link.forward_oversized),
                Direction::Reverse => (&mut link.reverse_router, &mut link.reverse_oversized),
            };
            *dropped += oversized;
            let latest = records.into_iter().last().or(place.take().and_then(|router| router.latest));
            *place = headers.map(|headers| RouterStatus { headers, latest });
        }
    }
}
