//! Non-blocking line output to a file that may be full or closed, or to a pipe that nobody reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Largest number of queued lines of up to about 1 kB, so that the queue takes at most about 1 MB.
const QUEUE: usize = 1024;

/// Bytes that wait to be written from which on no more are taken: with the queue's limit only small
/// lines would be bounded.
const ROOM: usize = 1 << 20;

/// How long to wait for queued lines when the program ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Passes lines to a writer thread without ever blocking. Counts the lines that do not fit the queue
/// or cannot be written.
#[derive(Clone, Debug)]
pub struct LineWriter {
    queue: SyncSender<Entry>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    lost: AtomicU64,
    /// Bytes of lines that were taken and are not written yet.
    waiting: AtomicUsize,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Acknowledged once all entries before it are written.
    Finish(SyncSender<()>),
}

impl LineWriter {
    /// Starts the writer thread, with a copy of a descriptor such as standard output.
    ///
    /// # Errors
    /// When the descriptor cannot be copied or the thread cannot be started.
    pub fn start(to: impl AsFd) -> io::Result<LineWriter> {
        LineWriter::with_queue(to, QUEUE)
    }

    /// As [`LineWriter::start`], with a queue of so many lines.
    ///
    /// # Errors
    /// When the descriptor cannot be copied or the thread cannot be started.
    pub fn with_queue(to: impl AsFd, lines: usize) -> io::Result<LineWriter> {
        let file = File::from(to.as_fd().try_clone_to_owned()?);
        let (queue, entries) = sync_channel(lines);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("line-writer".to_owned())
            .spawn(move || write(file, &entries, &counted))?;
        Ok(LineWriter { queue, counts })
    }

    /// Returns the number of lines that were not written.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Writes the lines that `lines` returns, all of them or none, which count as one. They may be long, so
    /// they are not even made where too much waits already.
    pub fn write_all_or_none(&self, lines: impl FnOnce() -> Vec<u8>) {
        let has_room = self.counts.waiting.load(Ordering::Relaxed) < ROOM;
        if !has_room || !self.send(lines()) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether there was a place in the queue.
    fn send(&self, lines: Vec<u8>) -> bool {
        let bytes = lines.len();
        // Before the other thread may subtract it.
        self.counts.waiting.fetch_add(bytes, Ordering::Relaxed);
        let is_sent = self.queue.try_send(Entry::Line(lines)).is_ok();
        if !is_sent {
            self.counts.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_sent
    }

    /// Waits, for a limited time, until all lines are written.
    pub fn finish(&self) {
        let (written, wait) = sync_channel(1);
        if self.queue.try_send(Entry::Finish(written)).is_ok() {
            let _ = wait.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

impl Write for LineWriter {
    /// Accepts a whole line; never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all_or_none(|| line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes entries until all senders are dropped.
fn write(mut file: File, entries: &Receiver<Entry>, counts: &Counts) {
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                counts.lost.fetch_add(u64::from(file.write_all(&line).is_err()), Ordering::Relaxed);
                let bytes = line.len();
                drop(line);
                counts.waiting.fetch_sub(bytes, Ordering::Relaxed);
            }
            Entry::Finish(written) => {
                let _ = written.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_arrive_in_order() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut line_writer = LineWriter::start(&writer).unwrap();
        drop(writer);
        for line in ["one\n", "two\n"] {
            line_writer.write_all(line.as_bytes()).unwrap();
        }
        line_writer.finish();
        drop(line_writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_full_disk_a_closed_pipe_and_an_unread_one_lose_lines_and_nothing_else() {
        let (closed, to_closed) = io::pipe().unwrap();
        drop(closed);
        let (_unread, to_unread) = io::pipe().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        for mut line_writer in
            [LineWriter::start(&full), LineWriter::start(&to_closed), LineWriter::start(&to_unread)]
                .map(Result::unwrap)
        {
            // More lines than the queue and any pipe can hold.
            (0..5000).for_each(|_| line_writer.write_all(&[b'x'; 1000]).unwrap());
            line_writer.finish();
            assert!(line_writer.lost() > 0);
        }
    }
    #[test]
    fn of_long_lines_that_nobody_reads_one_waits_and_no_more_are_made() {
        let (mut reader, writer) = io::pipe().unwrap();
        let line_writer = LineWriter::start(&writer).unwrap();
        drop(writer);
        let mut made = 0;
        for _ in 0..5 {
            line_writer.write_all_or_none(|| {
                made += 1;
                vec![b'x'; ROOM]
            });
        }
        assert_eq!((made, line_writer.lost()), (1, 4));
        drop(line_writer);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), ROOM);
    }
}
