//! What an edge does in each round, and until when.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;

use anyhow::{Result, bail};
use headway_history::Writer;
use headway_kernel::EdgeCounters;

use super::page::Page;
use super::splitter::Change;
use super::steps::{BEGIN, Edge};
use super::{Event, Options};
use crate::life::Living;

/// Hears what happens; an error of it ends the edge.
type Tell<'a> = dyn FnMut(Event<'_>) -> Result<()> + 'a;

/// Runs an edge until that is asked for, and returns what has passed.
///
/// # Errors
/// When interfaces, policy or history cannot be used, the kernel refuses, or `tell` fails.
pub fn run(options: &Options, ends: &Ends, tell: &mut Tell<'_>) -> Result<EdgeCounters> {
    Living::begin(Edge::new(options)?, &BEGIN)?.0.work(ends, tell)
}

/// Where somebody says that the edge is to end, or to read its policy again.
#[derive(Debug)]
pub struct Ends {
    end: UnixStream,
    reload: Option<UnixStream>,
}

impl Ends {
    /// A byte that arrives at the first one ends the edge, one at the other has the policy read.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(end: UnixStream, reload: Option<UnixStream>) -> Result<Ends> {
        for stream in reload.iter().chain([&end]) {
            stream.set_nonblocking(true)?;
        }
        Ok(Ends { end, reload })
    }

    fn has_ended(&self) -> Result<bool> {
        has_come(&self.end)
    }

    fn is_to_reload(&self) -> Result<bool> {
        self.reload.as_ref().map_or(Ok(false), has_come)
    }
}

/// Whether there is something to read.
fn has_come(mut from: &UnixStream) -> Result<bool> {
    loop {
        match from.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return Ok(result.map(|_| true)?),
        }
    }
}

impl Edge<'_> {
    /// Works until it is to end, and returns what has passed.
    fn work(&mut self, ends: &Ends, tell: &mut Tell<'_>) -> Result<EdgeCounters> {
        let Edge { rules, shaper, splitter, programs, watch, page, history, .. } = self;
        let (Some(shaper), Some(programs), Some(watch)) = (shaper, programs, watch) else {
            bail!("the edge has not begun");
        };
        tell(Event::On(&rules.policy, page.as_ref().and_then(Page::address)))?;
        if let Some(reason) = rules.is_out_of_reach() {
            tracing::warn!("{reason}");
        }
        while !ends.has_ended()? {
            let due = programs.work()?;
            watch.listen()?;
            let is_other = match rules.look(ends.is_to_reload()?) {
                None => false,
                Some(Err(mistake)) => {
                    tell(Event::Mistake(&mistake))?;
                    false
                }
                Some(Ok(unchanged)) => {
                    programs.set_policy(&rules.policy)?;
                    watch.set_policy(&rules.policy);
                    tell(Event::Policy(&rules.policy, &unchanged))?;
                    true
                }
            };
            if due.look || is_other {
                shaper.hold(watch.look(programs)?, rules.policy.overhead);
            }
            if due.second || is_other {
                let mut found = watch.found(programs)?;
                found.snapshot.history_lost = history.as_ref().map(Writer::lost);
                if let Some(splitter) = splitter {
                    match splitter.look(&found.counted) {
                        Some(Change::Stop) => programs.split_no_more()?,
                        Some(Change::Resume) => programs.split_by(&rules.policy, splitter.ports())?,
                        None => {}
                    }
                }
                if let Some(page) = page {
                    page.publish(&found.snapshot);
                }
                if let Some(history) = history {
                    history.push(&found.snapshot);
                }
                tell(Event::Second(Box::new(found)))?;
            }
        }
        Ok(programs.counters()?)
    }
}
