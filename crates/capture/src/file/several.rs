//! Reads several captures as one, in the order of their times.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use headway_units::Instant;

use super::{Ahead, Found, Next, ReadError, Reader, Unpacked};

/// Largest step back of a file's time stamps that other files follow, ns.
const BACK: u64 = 1_000_000_000;
/// Largest step ahead that other files follow, ns: a day. After a larger one, the time stamp may be wrong.
const AHEAD: u64 = 86_400 * 1_000_000_000;
/// Bits of the number of an interface within its file.
const INTERFACES: u32 = 16;

/// Why one of several files cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub error: ReadError,
}

/// Capture files of any format, packed with gzip or not, read as one. A file is open only from its first
/// packet to its last, so that any number of rotated files can be read. Interfaces of files that overlap have
/// numbers of their own.
#[derive(Debug)]
pub struct Several {
    /// Files not begun yet, with the times of their first packets, the latest first.
    later: Vec<(Instant, PathBuf)>,
    open: Vec<Open>,
    /// The open file that the last packet came from.
    last: Option<usize>,
    /// Odd records that have not been returned.
    odd: u64,
    /// Bytes of the files that have ended, and of all.
    ended: u64,
    length: u64,
}

/// A file with a packet.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    reader: Reader<Unpacked<File>>,
    found: Found,
    used: usize,
    /// By which time the packet takes its turn.
    turn: u64,
    number: u32,
}

impl Several {
    /// Reads the first packet of every file; files without packets count as read.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be opened, or is no capture.
    pub fn open(paths: &[PathBuf]) -> Result<Several, FileError> {
        let mut later = Vec::new();
        let [mut length, mut ended, mut odd] = [0; 3];
        for path in paths {
            let failed = |error| FileError { path: path.clone(), error };
            let file = File::open(path).map_err(|error| failed(ReadError::Io(error)))?;
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            length += size;
            let mut reader = Reader::new(Unpacked::new(file));
            let mut before = 0;
            loop {
                match reader.next() {
                    Ok(Next::Packet(packet)) => later.push((packet.at, path.clone())),
                    Ok(Next::OddRecord) => {
                        before += 1;
                        continue;
                    }
                    // It is not read again.
                    Ok(Next::Pending | Next::End) => (ended, odd) = (ended + size, odd + before),
                    Err(error) => return Err(failed(error)),
                }
                break;
            }
        }
        later.reverse();
        later.sort_by_key(|(first, _)| std::cmp::Reverse(*first));
        Ok(Several { later, open: Vec::new(), last: None, odd, ended, length })
    }

    /// Returns the next packet of all files.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read to its end. A later call goes on with the others.
    #[expect(clippy::should_implement_trait, reason = "a packet borrows from a reader")]
    pub fn next(&mut self) -> Result<Next<'_>, FileError> {
        if let Some(last) = self.last.take() {
            self.advance(last)?;
        }
        while self.odd == 0
            && let Some((first, _)) = self.later.last()
            && self.open.iter().all(|open| open.turn >= first.ns())
            && let Some((_, path)) = self.later.pop()
        {
            self.begin(path)?;
        }
        if self.odd > 0 {
            self.odd -= 1;
            return Ok(Next::OddRecord);
        }
        let turns = self.open.iter().enumerate().map(|(place, open)| (open.turn, open.number, place));
        let Some((.., place)) = turns.min() else { return Ok(Next::End) };
        self.last = Some(place);
        let Open { reader, found, used, number, .. } = &self.open[place];
        let mut packet = reader.packet(found, *used);
        packet.interface = number << INTERFACES | packet.interface & ((1 << INTERFACES) - 1);
        Ok(Next::Packet(packet))
    }

    /// Returns the bytes read, and all bytes.
    pub fn progress(&self) -> (u64, u64) {
        let open = self.open.iter().map(|open| (&open.file).stream_position().unwrap_or(0));
        (self.ended + open.sum::<u64>(), self.length)
    }

    /// Opens a file.
    fn begin(&mut self, path: PathBuf) -> Result<(), FileError> {
        let number = (0..).find(|number| self.open.iter().all(|open| open.number != *number)).unwrap_or(0);
        let (file, reader) =
            open(&path).map_err(|error| FileError { path: path.clone(), error: ReadError::Io(error) })?;
        let found = Found::default();
        self.open.push(Open { path, file, reader, found, used: 0, turn: 0, number });
        self.advance(self.open.len() - 1)
    }

    /// Goes to the next packet of a file, or closes it.
    fn advance(&mut self, place: usize) -> Result<(), FileError> {
        let open = &mut self.open[place];
        let failure = loop {
            match open.reader.advance() {
                Ok(Ahead::Packet(found, used)) => {
                    let stamps = open.found.at.saturating_sub(BACK)..=open.found.at.saturating_add(AHEAD);
                    if open.turn == 0 || stamps.contains(&found.at) {
                        open.turn = found.at.max(1);
                    }
                    (open.found, open.used) = (found, used);
                    return Ok(());
                }
                Ok(Ahead::Odd) => self.odd += 1,
                Ok(Ahead::Pending | Ahead::End) => break None,
                Err(error) => break Some(error),
            }
        };
        let Open { path, file, .. } = self.open.swap_remove(place);
        self.ended += file.metadata().map_or(0, |metadata| metadata.len());
        failure.map_or(Ok(()), |error| Err(FileError { path, error }))
    }
}

fn open(path: &Path) -> io::Result<(File, Reader<Unpacked<File>>)> {
    let file = File::open(path)?;
    let reader = Reader::new(Unpacked::new(file.try_clone()?));
    Ok((file, reader))
}
