//! A thread that adds to a history.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use headway_edge::snapshot::{DecisionState, Snapshot};

use crate::point::Minute;
use crate::store::Batch;
use crate::{Error, Point, Store};

/// Seconds that are written together, so that a flash memory is written to six times a minute. Range 1 to 60.
const TOGETHER: usize = 10;
/// Seconds that wait for a slow disk; further ones are lost. Range 10 to 600.
const QUEUE: usize = 60;
/// Most decisions of a second that are kept: a flood of connections must not push the others out.
const DECISIONS: usize = 100;
/// Seconds after which a disk is tried again that failed, and after which a slow one is reported again.
const AGAIN: usize = 60;

/// A thread that adds snapshots to a history. It never makes the caller wait; dropping it
/// writes what is left.
#[derive(Debug)]
pub struct Writer {
    queue: Option<SyncSender<(Point, Vec<DecisionState>)>>,
    thread: Option<JoinHandle<()>>,
    lost: Arc<AtomicU64>,
    untold: Cell<Untold>,
}

impl Writer {
    /// Starts the thread, which has the privileges of the caller.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(store: Store) -> Result<Writer, Error> {
        let (queue, entries) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || Work::new(store, counter).run(&entries)).map_err(Error::Thread)?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), lost, untold: Cell::default() })
    }

    /// Adds a snapshot, or loses it where the disk is slow, and says so once in 60 snapshots at most.
    pub fn push(&self, snapshot: &Snapshot) {
        let decisions = snapshot.decisions.iter().take(DECISIONS).cloned().collect();
        let entry = (Point::of(snapshot), decisions);
        let is_lost = self.queue.as_ref().is_some_and(|queue| queue.try_send(entry).is_err());
        self.lost.fetch_add(u64::from(is_lost), Ordering::Relaxed);
        let mut untold = self.untold.get();
        if let Some(lost) = untold.after(is_lost) {
            tracing::warn!(
                "the disk is slow: the history lost {lost} seconds since the last such message; everything else goes on"
            );
        }
        self.untold.set(untold);
    }

    /// Returns how many snapshots were not kept.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// What was lost because the disk is slow, and has not been reported.
#[derive(Clone, Copy, Debug, Default)]
struct Untold {
    lost: u64,
    /// Snapshots until something may be reported again.
    wait: usize,
}

impl Untold {
    /// Counts a snapshot; returns how many were lost if that is to be reported now.
    fn after(&mut self, is_lost: bool) -> Option<u64> {
        self.lost += u64::from(is_lost);
        self.wait = self.wait.saturating_sub(1);
        if self.lost == 0 || self.wait > 0 {
            return None;
        }
        self.wait = AGAIN;
        Some(std::mem::take(&mut self.lost))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    store: Store,
    minute: Minute,
    batch: Batch,
    lost: Arc<AtomicU64>,
    /// Whether the disk failed: it is left alone for a while then.
    failed: bool,
}

impl Work {
    fn new(store: Store, lost: Arc<AtomicU64>) -> Work {
        Work { store, minute: Minute::default(), batch: Batch::default(), lost, failed: false }
    }

    fn run(mut self, entries: &Receiver<(Point, Vec<DecisionState>)>) {
        for (point, decisions) in entries {
            self.batch.minutes.extend(self.minute.add(point));
            self.batch.seconds.push(point);
            self.batch.decisions.extend(decisions);
            if self.batch.seconds.len() >= if self.failed { AGAIN } else { TOGETHER } {
                self.write();
            }
        }
        self.batch.minutes.extend(self.minute.end());
        self.write();
    }

    /// Writes what waits. What cannot be written is lost, so that memory does not grow.
    fn write(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        match self.store.add(&batch) {
            Ok(()) => {
                if self.failed {
                    tracing::warn!("the history goes on");
                }
                self.failed = false;
            }
            Err(error) => {
                self.lost.fetch_add(batch.seconds.len() as u64, Ordering::Relaxed);
                let next = match error {
                    Error::Deleted => "start the edge again for a new one",
                    _ => "it is tried again every minute",
                };
                if !self.failed {
                    tracing::warn!("the history stops: {error}; {next}, everything else goes on");
                }
                self.failed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_file_was_deleted_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let store = Store::open(&path, crate::SIZE).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (queue, entries) = sync_channel(QUEUE);
        for _ in 0..3 {
            queue.send((Point::of(&Snapshot::default()), Vec::new())).unwrap();
        }
        drop(queue);
        let lost = Arc::new(AtomicU64::new(0));
        Work::new(store, Arc::clone(&lost)).run(&entries);
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_a_slow_disk_loses_is_told_at_once_and_then_once_a_minute() {
        let mut untold = Untold::default();
        let told: Vec<(u64, u64)> = (0..200_u64)
            .filter_map(|second| Some((second, untold.after((100..170).contains(&second))?)))
            .collect();
        assert_eq!(told, [(100, 1), (160, 60)]);
        assert_eq!(untold.lost, 9, "told with the next minute");
        assert_eq!((200..230).find_map(|_| untold.after(false)), Some(9));
    }
}
