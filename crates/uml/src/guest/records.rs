//! Reads the counters that the module `headway_record` keeps at the devices of links.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use super::{Failure, system};
use crate::plan::PlannedDirection;
use crate::report::DirectionCounters;

const COUNTERS: &str = "/proc/headway_record";
const DELAYS: &str = "/proc/headway_record_delays";

/// The counters of all directions.
#[derive(Debug)]
pub(super) struct Records {
    counters: File,
    text: String,
    /// The watched devices, in the order of the module's slots.
    watched: Vec<Watched>,
    /// Counts from before the module was reset, by direction.
    base: Vec<DirectionCounters>,
}

/// The meaning of a slot of the module.
#[derive(Clone, Copy, Debug)]
enum Watched {
    /// The queue of the direction with this index.
    Queue(usize),
    /// The random losses of the direction with this index.
    Random(usize),
}

impl Records {
    /// Watches the device of every direction that delays or loses packets.
    pub(super) fn watch(directions: &[PlannedDirection], nodes: &[File]) -> Result<Records, Failure> {
        let mut watched = Vec::new();
        for (index, direction) in directions.iter().enumerate() {
            if let Some(fixed) = direction.fixed {
                system::enter(&nodes[direction.node])?;
                say(&format!("watch {} {}", direction.device, fixed.ns()))?;
                watched.push(Watched::Queue(index));
            }
            if let Some((node, device)) = &direction.random {
                system::enter(&nodes[*node])?;
                say(&format!("watch {device} 0"))?;
                watched.push(Watched::Random(index));
            }
        }
        let counters =
            File::open(COUNTERS).map_err(|error| Failure::of(format!("cannot open {COUNTERS}"), error))?;
        Ok(Records {
            counters,
            text: String::new(),
            watched,
            base: vec![DirectionCounters::default(); directions.len()],
        })
    }

    /// Resets waiting times and their maximum; counters go on.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.base = self.counters()?;
        say("reset")
    }

    /// Returns the counters.
    pub(super) fn counters(&mut self) -> Result<Vec<DirectionCounters>, Failure> {
        system::reread(&self.counters, &mut self.text)?;
        let mut counters = self.base.clone();
        let mut lines = self.text.lines();
        for watched in &self.watched {
            let line = lines.next().unwrap_or_default();
            let now = direction(line).ok_or_else(|| Failure(format!("{COUNTERS} holds `{line}`")))?;
            match *watched {
                Watched::Queue(index) => {
                    counters[index] =
                        DirectionCounters { lost: counters[index].lost, ..sum(&now, &self.base[index]) };
                }
                Watched::Random(index) => counters[index].lost = now.dropped + self.base[index].lost,
            }
        }
        Ok(counters)
    }

    /// Returns the histogram of waiting times of every direction, as bins with their counts.
    pub(super) fn waits(&self) -> Result<Vec<Vec<(usize, u64)>>, Failure> {
        let text = system::read(DELAYS)?;
        let mut waits = vec![Vec::new(); self.base.len()];
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
            let [slot, bin, count] = numbers[..] else {
                return Err(Failure(format!("{DELAYS} holds `{line}`")));
            };
            match self.watched.get(slot as usize) {
                Some(Watched::Queue(index)) => waits[*index].push((bin as usize, count)),
                Some(Watched::Random(_)) => (),
                None => return Err(Failure(format!("{DELAYS} holds `{line}`"))),
            }
        }
        Ok(waits)
    }
}

/// Adds the counts from before the reset; the other values are those of now.
fn sum(now: &DirectionCounters, base: &DirectionCounters) -> DirectionCounters {
    DirectionCounters {
        arrived: now.arrived + base.arrived,
        departed: now.departed + base.departed,
        measured: now.measured + base.measured,
        cross: now.cross + base.cross,
        marked: now.marked + base.marked,
        waited: now.waited + base.waited,
        dropped: now.dropped + base.dropped,
        ..*now
    }
}

fn say(command: &str) -> Result<(), Failure> {
    // Opened for every command, because the module uses the namespace of the writer.
    OpenOptions::new()
        .write(true)
        .open(COUNTERS)
        .and_then(|mut file| file.write_all(command.as_bytes()))
        .map_err(|error| Failure::of(format!("headway_record rejected `{command}`"), error))
}

/// `slot arrived departed measured cross ce waited waited_max queue packets queue_max dropped`.
fn direction(line: &str) -> Option<DirectionCounters> {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [_, arrived, departed, measured, cross, marked, waited, waited_max, queue, _, _, dropped] =
        numbers[..]
    else {
        return None;
    };
    Some(DirectionCounters {
        arrived,
        departed,
        measured,
        cross,
        marked,
        waited,
        waited_max,
        queue,
        dropped,
        lost: 0,
    })
}
