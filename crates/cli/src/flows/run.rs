//! Asks the kernel at every interval, and reports.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context as _, Result, bail};
use headway_program::{out, print_line, time};
use headway_telemetry::{Diagnosis, Dump};
use headway_units::Instant;
use serde_json::{Value, json};

use super::FlowsArgs;
use super::folder::Folder;
use super::table::{self, SUMMED, describe, seen_of};
use super::watch::{Followed, Watch};
use headway_program::screen::Screen;
use headway_program::service::signals;

/// How often at most the table is drawn and rows are written.
const SHOWN: Duration = Duration::from_secs(1);
/// How often at most the kernel is asked for a list of all connections; in between it is asked for those that
/// are known. A list takes 8 ms where the kernel's table has a place for 262 144 connections, as on machines
/// with 20 GB of memory.
const LISTED: Duration = Duration::from_millis(100);
/// Shortest time to wait, because no time would be for ever.
const LEAST: Duration = Duration::from_micros(1);

/// Runs the subcommand until a signal or its time ends it.
///
/// # Errors
/// When the kernel does not answer, or the folder cannot be used.
pub(crate) fn run(args: &FlowsArgs, json: bool) -> Result<()> {
    let end = signals()?;
    let diagnosis = Diagnosis::open().context("cannot ask the kernel about connections")?;
    let folder = args.csv.as_deref().map(Folder::make).transpose()?;
    if folder.is_none() {
        // Files are made as connections come; without them nothing needs a privilege.
        headway_privileges::drop_all_but(&[])?;
    }
    let session = Session {
        args,
        json,
        diagnosis,
        folder,
        watch: Watch::new(args.connections as usize),
        largest: Vec::new(),
        screen: Screen::new(!json),
        first: time::now(),
        listed: None,
    };
    session.run(&end)
}

/// What the command knows while it runs.
struct Session<'a> {
    args: &'a FlowsArgs,
    json: bool,
    diagnosis: Diagnosis,
    folder: Option<Folder>,
    watch: Watch,
    /// Of the connections that have ended, those with the most data.
    largest: Vec<Followed>,
    screen: Screen,
    /// When the command began, from which a filter counts.
    first: Instant,
    /// When all connections were listed last.
    listed: Option<Clock>,
}

impl Session<'_> {
    fn run(mut self, end: &UnixStream) -> Result<()> {
        let result = self.work(end);
        self.screen.clear();
        // What was seen before a mistake counts.
        let reported = if self.watch.counts.looks > 0 { self.report() } else { Ok(()) };
        result.and(reported)?;
        out::check()
    }

    fn work(&mut self, end: &UnixStream) -> Result<()> {
        let (begun, interval) = (Clock::now(), self.args.interval.to_std());
        let (mut next, mut shown) = (begun, begun);
        let last = self.args.duration.map(|time| begun + time.to_std());
        while !out::is_closed() {
            self.look()?;
            let now = Clock::now();
            if now >= shown {
                self.show()?;
                shown = now + SHOWN;
            }
            // After a look that took longer than the interval, those that were missed are not made up for.
            next = (next + interval).max(now);
            let wake = last.map_or(next, |last| last.min(next));
            if is_over(end, wake)? || last.is_some_and(|last| Clock::now() >= last) {
                break;
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let (clock, at) = (Clock::now(), time::now());
        let dump = self.dump(clock, at)?;
        let ended = self.watch.look(dump, clock);
        for followed in ended {
            if let Some(folder) = &mut self.folder {
                folder.end(followed.now.cookie)?;
            }
            if self.json {
                print_line!("{}", object("ended", at, seen_of(&followed)));
            } else {
                self.keep(followed);
            }
        }
        if let Some(folder) = &mut self.folder {
            self.watch.found().try_for_each(|followed| folder.add(followed, at))?;
        }
        if self.json {
            let connections: Vec<Value> =
                self.watch.found().map(|it| serde_json::to_value(it.row(at))).collect::<Result<_, _>>()?;
            print_line!("{}", object("look", at, json!({ "connections": connections })));
        }
        Ok(())
    }

    /// Asks the kernel, and leaves out what the filter does not want.
    fn dump(&mut self, clock: Clock, at: Instant) -> Result<Dump> {
        let is_due = self.listed.is_none_or(|listed| clock.saturating_duration_since(listed) >= LISTED);
        let dump = if is_due {
            self.listed = Some(clock);
            self.diagnosis.dump()
        } else {
            self.diagnosis.again(self.watch.known())
        };
        let mut dump = match dump {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "this kernel cannot list connections: run `modprobe tcp_diag`, or use a kernel with CONFIG_INET_TCP_DIAG"
                )
            }
            result => result.context("the kernel does not tell of its connections")?,
        };
        if let Some(filter) = &self.args.filter {
            dump.connections.retain(|it| filter.includes([it.local, it.peer], at, self.first));
        }
        Ok(dump)
    }

    /// Keeps a connection for the end if it is one of the largest.
    fn keep(&mut self, followed: Followed) {
        let size = |followed: &Followed| {
            std::cmp::Reverse(followed.moved().map(|bytes| bytes.get()).iter().sum::<u64>())
        };
        self.largest.push(followed);
        self.largest.sort_by_key(size);
        self.largest.truncate(SUMMED);
    }

    fn show(&mut self) -> Result<()> {
        if let Some(folder) = &mut self.folder {
            folder.flush()?;
        }
        if !self.json {
            let size = self.screen.size();
            self.screen.show(&table::lines(self.watch.visible(), size));
        }
        Ok(())
    }

    /// Says what was seen, and writes what is not written.
    fn report(mut self) -> Result<()> {
        let counts = self.watch.counts;
        let lost = self.folder.as_ref().map_or(0, |folder| folder.lost);
        let rest = std::mem::replace(&mut self.watch, Watch::new(0)).into_rest();
        if self.json {
            let connections: Vec<Value> = rest.map(|it| seen_of(&it)).collect();
            let said = json!({ "counters": counts, "rows_lost": lost, "connections": connections });
            print_line!("{}", object("end", time::now(), said));
        } else {
            rest.for_each(|followed| self.keep(followed));
            if !self.largest.is_empty() {
                print_line!("{}", table::summary(&self.largest));
            }
            print_line!("{}", describe(&counts, lost));
        }
        self.folder.map_or(Ok(()), |mut folder| folder.flush())
    }
}

/// Waits for a signal until a time; returns whether there was one.
fn is_over(mut end: &UnixStream, until: Clock) -> Result<bool> {
    end.set_read_timeout(Some(until.saturating_duration_since(Clock::now()).max(LEAST)))?;
    match end.read(&mut [0]) {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds what kind of object it is, and its time.
fn object(event: &str, at: Instant, mut said: Value) -> Value {
    said["event"] = event.into();
    said["at_unix_ns"] = at.ns().into();
    said["at_rfc3339"] = time::rfc3339(at).into();
    said
}
