//! PAUSE frames between the segments of TCP Rapid: a thread for each interface.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow};
use headway_kernel::{Departures, Loaded};
use headway_net::frames::{Filled, LineFiller};
use headway_program::print_error;

/// Fills the line of an interface until it is ended.
pub(super) struct Filler {
    interface: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Filled>>,
}

impl Filler {
    /// Starts to fill the gaps of a controller's connections at an interface.
    pub(super) fn start(loaded: &Loaded, interface: &str) -> Result<Filler> {
        let line = LineFiller::open(interface)?;
        let mut segments = Departures::take(interface, Some(&loaded.departure_times()?), None)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, name) = (Arc::clone(&stop), interface.to_owned());
        let thread = std::thread::spawn(move || {
            let filled = line.run(&mut segments, Departures::next, &stopped);
            if let Err(reason) = &filled {
                print_error!("headway: gaps at {name} are no longer filled: {reason}");
            }
            filled
        });
        Ok(Filler { interface: interface.to_owned(), stop, thread })
    }

    /// Ends all, and says what has left over each line.
    pub(super) fn end(fillers: Vec<Filler>) -> Result<Vec<String>> {
        fillers.iter().for_each(|filler| filler.stop.store(true, Ordering::Relaxed));
        fillers.into_iter().map(Filler::join).collect()
    }

    fn join(self) -> Result<String> {
        let ended = self.thread.join().map_err(|_| anyhow!("what fills the line has ended"))?;
        let filled = ended.with_context(|| format!("cannot fill the line of {}", self.interface))?;
        Ok(describe(&self.interface, &filled))
    }
}

fn describe(interface: &str, filled: &Filled) -> String {
    let Filled { segments, segment_bytes, pauses, pause_bytes, late, dry } = filled;
    format!(
        "  {interface}: {segments} segments ({segment_bytes} B on the wire), {pauses} PAUSE frames ({pause_bytes} B); \
         {late} segments late, the line ran dry {dry} times"
    )
}
