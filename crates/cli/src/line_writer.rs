//! Non-blocking line output to a file that may be full or closed, or to a pipe that nobody reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Largest number of queued lines of up to about 1 kB, so that the queue takes at most about 1 MB.
const QUEUE: usize = 1024;

/// How long to wait for queued lines when the program ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Passes lines to a writer thread without ever blocking. Counts the lines that do not fit the queue or cannot
/// be written.
#[derive(Clone, Debug)]
pub(crate) struct LineWriter {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
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
    pub(crate) fn start(to: impl AsFd) -> io::Result<LineWriter> {
        LineWriter::with_queue(to, QUEUE)
    }

    /// As [`LineWriter::start`], with a queue of so many lines.
    ///
    /// # Errors
    /// When the descriptor cannot be copied or the thread cannot be started.
    pub(crate) fn with_queue(to: impl AsFd, lines: usize) -> io::Result<LineWriter> {
        let file = File::from(to.as_fd().try_clone_to_owned()?);
        let (queue, entries) = sync_channel(lines);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("line-writer".to_owned())
            .spawn(move || write(file, &entries, &counter))?;
        Ok(LineWriter { queue, lost })
    }

    /// Returns the number of lines that were not written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits, for a limited time, until all lines are written.
    pub(crate) fn finish(&self) {
        let (written, wait) = sync_channel(1);
        if self.queue.try_send(Entry::Finish(written)).is_ok() {
            let _ = wait.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

impl Write for LineWriter {
    /// Accepts a whole line; never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes entries until all senders are dropped.
fn write(mut file: File, entries: &Receiver<Entry>, lost: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                lost.fetch_add(u64::from(file.write_all(&line).is_err()), Ordering::Relaxed);
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
}
