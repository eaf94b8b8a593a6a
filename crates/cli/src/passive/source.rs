//! Where packets come from: a file, a pipe or an interface.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use headway_capture::{Live, Next, ReadError, Reader, Tracker};
use headway_core::{Duration as Span, Rate};

use super::PassiveArgs;
use crate::exit::Failed;

/// Longest wait for packets before the caller can do something else.
const WAIT: Duration = Duration::from_millis(100);
/// Packets taken before the caller can do something else.
const BATCH: usize = 4_096;

/// A source of packets.
pub(super) enum Source {
    /// A file, and its length.
    File(Reader<File>, u64),
    /// A stream that a program writes.
    Pipe(Reader<Pipe>),
    Live(Live),
}

/// What became of a call for packets.
pub(super) enum Step {
    /// More may be there.
    More,
    /// The source has ended, with the reason if it was not the end of a capture.
    End(Option<ReadError>),
}

impl Source {
    pub(super) fn open(args: &PassiveArgs) -> Result<Source, Failed> {
        if let Some(name) = &args.interface {
            return Ok(Source::Live(Live::open(name)?));
        }
        let path = args.file.as_deref().unwrap_or(Path::new("-"));
        if path == Path::new("-") {
            let stdin = io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?;
            return Ok(Source::Pipe(Reader::new(Pipe(File::from(stdin)))));
        }
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            return Err(anyhow::anyhow!("{}: it is a directory", cannot()).into());
        }
        if metadata.is_file() {
            return Ok(Source::File(Reader::new(file), metadata.len()));
        }
        Ok(Source::Pipe(Reader::new(Pipe(file))))
    }

    /// Whether packets arrive as they are captured.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self, Source::File(..))
    }

    /// Returns the rate of the interface.
    pub(super) fn speed(&self) -> Option<Rate> {
        match self {
            Source::Live(live) => live.speed(),
            _ => None,
        }
    }

    /// Returns the bytes read, and all bytes, of a file.
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        match self {
            Source::File(reader, length) => Some((reader.position(), *length)),
            _ => None,
        }
    }

    /// Returns the packets that the kernel has dropped.
    pub(super) fn drops(&mut self) -> u64 {
        match self {
            Source::Live(live) => live.drops(),
            _ => 0,
        }
    }

    /// Gives packets to the tracker until there are none, a batch is full, or an interval of a file is over.
    pub(super) fn step(&mut self, tracker: &mut Tracker, interval: Option<Span>) -> Result<Step, Failed> {
        match self {
            Source::File(reader, _) => Ok(read(reader, tracker, interval)),
            Source::Pipe(reader) => Ok(read(reader, tracker, None)),
            Source::Live(live) => {
                for _ in 0..BATCH {
                    let Some((packet, outgoing)) = live.packet() else {
                        live.wait(WAIT)?;
                        break;
                    };
                    tracker.packet(&packet, outgoing);
                }
                Ok(Step::More)
            }
        }
    }
}

fn read(reader: &mut Reader<impl Read>, tracker: &mut Tracker, interval: Option<Span>) -> Step {
    for _ in 0..BATCH {
        match reader.next() {
            Ok(Next::Packet(packet)) => tracker.packet(&packet, None),
            Ok(Next::Pending) => break,
            Ok(Next::End) => return Step::End(None),
            Err(error) => return Step::End(Some(error)),
        }
        if is_over(tracker, interval) {
            break;
        }
    }
    Step::More
}

/// Whether an interval is over, by the clock of the capture.
pub(super) fn is_over(tracker: &Tracker, interval: Option<Span>) -> bool {
    interval.is_some_and(|interval| tracker.now() - tracker.interval() >= interval)
}

/// A stream whose reads wait for a bounded time.
pub(super) struct Pipe(File);

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd that outlives the call.
        match unsafe { libc::poll(&raw mut poll, 1, WAIT.as_millis() as i32) } {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            // A signal: the caller looks what it means.
            ready if ready < 0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => self.0.read(out),
        }
    }
}
