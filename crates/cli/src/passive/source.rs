//! Where packets come from: a file, a pipe or an interface.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use headway_capture::{FileError, Live, Next, ReadError, Reader, Several, Unpacked};
use headway_passive::Tracker;
use headway_units::{Duration as Span, Rate};

use super::PassiveArgs;
use headway_program::exit::Failed;

/// Longest wait for packets before the caller can do something else.
const WAIT: Duration = Duration::from_millis(100);
/// Packets taken before the caller can do something else.
const BATCH: usize = 4_096;

/// A source of packets.
pub(super) enum Source {
    Files(Box<Several>),
    /// A stream that a program writes, and its name.
    Pipe {
        reader: Reader<Unpacked<Pipe>>,
        name: String,
        /// Whether nothing can be read after an error.
        ended: bool,
    },
    Live(Live),
}

/// What became of a call for packets.
pub(super) enum Step {
    /// More may be there.
    More,
    /// A part of the source ended before the end of a capture.
    Failed(Failure),
    /// The source has ended.
    End,
}

/// What could not be read, and why.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) name: String,
    pub(super) error: ReadError,
}

impl From<FileError> for Failure {
    fn from(FileError { path, error }: FileError) -> Failure {
        Failure { name: path.display().to_string(), error }
    }
}

impl Source {
    pub(super) fn open(args: &PassiveArgs) -> Result<Source, Failed> {
        if let Some(name) = &args.interface {
            return Ok(Source::Live(Live::open(name)?));
        }
        let is_input = |path: &Path| path == Path::new("-");
        if let [path] = &args.files[..] {
            if is_input(path) {
                let stdin = io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?;
                return Ok(Source::pipe(File::from(stdin), "standard input".to_owned()));
            }
            if !check(path)?.is_file() {
                let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
                return Ok(Source::pipe(file, path.display().to_string()));
            }
        }
        for path in &args.files {
            if is_input(path) || !check(path)?.is_file() {
                let name = path.display();
                return Err(
                    anyhow!("cannot read {name} among other files: it is a stream; name it alone").into()
                );
            }
        }
        let files = Several::open(&args.files).map_err(|FileError { path, error }| match error {
            ReadError::Io(error) => anyhow!(error).context(format!("cannot read {}", path.display())),
            error => anyhow!(error).context(path.display().to_string()),
        })?;
        Ok(Source::Files(Box::new(files)))
    }

    fn pipe(file: File, name: String) -> Source {
        Source::Pipe { reader: Reader::new(Unpacked::new(Pipe(file))), name, ended: false }
    }

    /// Whether packets arrive as they are captured.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self, Source::Files(..))
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
            Source::Files(files) => Some(files.progress()),
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
        for _ in 0..BATCH {
            let next = match self {
                Source::Files(files) => files.next().map_err(Failure::from),
                Source::Pipe { ended: true, .. } => Ok(Next::End),
                Source::Pipe { reader, name, ended } => reader.next().map_err(|error| {
                    *ended = true;
                    Failure { name: name.clone(), error }
                }),
                Source::Live(live) => {
                    let Some((packet, outgoing)) = live.packet() else {
                        live.wait(WAIT)?;
                        break;
                    };
                    tracker.packet(&packet, outgoing);
                    continue;
                }
            };
            match next {
                Ok(Next::Packet(packet)) => tracker.packet(&packet, None),
                Ok(Next::OddRecord) => tracker.odd_record(),
                Ok(Next::Pending) => break,
                Ok(Next::End) => return Ok(Step::End),
                Err(failure) => return Ok(Step::Failed(failure)),
            }
            if matches!(self, Source::Files(_)) && is_over(tracker, interval) {
                break;
            }
        }
        Ok(Step::More)
    }
}

/// Returns what a file is, if it is no directory.
fn check(path: &Path) -> Result<Metadata, Failed> {
    let cannot = || format!("cannot read {}", path.display());
    let metadata = std::fs::metadata(path).with_context(cannot)?;
    if metadata.is_dir() {
        return Err(anyhow!("{}: it is a directory", cannot()).into());
    }
    Ok(metadata)
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
