//! Lines for a file that may be full, closed, or a pipe that nobody reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait at most. The longest has about 1 kB, so that they take no more than 1 MB.
const QUEUE: usize = 1024;

/// How long the end of the program waits for what is still to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Hands lines to a thread that writes them, and never waits for it: what does not fit or cannot be written is counted.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// To be answered once everything before it is written.
    Finish(SyncSender<()>),
}

impl Outlet {
    /// Starts the thread for a copy of a descriptor such as standard output.
    ///
    /// # Errors
    /// When the descriptor cannot be copied or the thread not be started.
    pub(crate) fn start(to: impl AsFd) -> io::Result<Outlet> {
        let file = File::from(to.as_fd().try_clone_to_owned()?);
        let (queue, entries) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("outlet".to_owned())
            .spawn(move || write(file, &entries, &counter))?;
        Ok(Outlet { queue, lost })
    }

    /// Lines that were not written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, but not for long.
    pub(crate) fn finish(&self) {
        let (written, wait) = sync_channel(1);
        if self.queue.try_send(Entry::Finish(written)).is_ok() {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

impl Write for Outlet {
    /// Takes a whole line, always.
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

/// The thread: writes until all senders are gone.
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
        let mut outlet = Outlet::start(&writer).unwrap();
        drop(writer);
        for line in ["one\n", "two\n"] {
            outlet.write_all(line.as_bytes()).unwrap();
        }
        outlet.finish();
        drop(outlet);
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
        for mut outlet in
            [Outlet::start(&full), Outlet::start(&to_closed), Outlet::start(&to_unread)].map(Result::unwrap)
        {
            // More than the queue and any pipe hold.
            (0..5000).for_each(|_| outlet.write_all(&[b'x'; 1000]).unwrap());
            outlet.finish();
            assert!(outlet.lost() > 0);
        }
    }
}
