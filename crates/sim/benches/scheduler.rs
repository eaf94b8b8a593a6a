//! Time per operation of schedulers under the load of the simulator:
//! `cargo bench -p headway-sim --bench scheduler`.
//!
//! Every stream (a link or a source) has one pending event, and each step replaces the first event by the
//! next one of its stream, one transmission time later. The schedulers also hold timers of flows, far in the
//! future; one that fires is re-armed a timeout later. One operation is one step. Times are CPU time of the
//! thread, median of five runs; all schedulers must return the same events in the same order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headway_sim::schedule::{EventKind, Schedule};
use nix::time::{ClockId, clock_gettime};

const RUNS: usize = 5;
const STEPS: u64 = 1_000_000;
/// Transmission times (ns) of 1538 and 90 bytes at 10 and 1 Gb/s.
const INCREMENTS: [u64; 4] = [1_230, 72, 12_304, 720];
const TIMEOUT: u64 = 210_000_000;

/// The operations a simulation needs. Events of equal time are in order of insertion.
trait Queue {
    fn insert(&mut self, time: u64, item: u32);
    fn first(&mut self) -> (u64, u32);
    /// Removes the event that [`Queue::first`] has just returned and adds another.
    fn replace_first(&mut self, time: u64, item: u32);
}

impl Queue for Schedule {
    #[inline]
    fn insert(&mut self, time: u64, item: u32) {
        Schedule::insert(self, 0, time, EventKind::Arrival, item as usize);
    }

    #[inline]
    fn first(&mut self) -> (u64, u32) {
        self.peek().map_or((u64::MAX, 0), |event| (event.time(), event.index() as u32))
    }

    #[inline]
    fn replace_first(&mut self, time: u64, item: u32) {
        Schedule::replace_first(self, 0, time, EventKind::Arrival, item as usize);
    }
}

/// Time, number of the insertion, item.
type Entry = (u64, u64, u32);

/// The heap of the standard library; its top is replaced in place.
#[derive(Default)]
struct Binary {
    heap: BinaryHeap<Reverse<Entry>>,
    age: u64,
}

impl Queue for Binary {
    #[inline]
    fn insert(&mut self, time: u64, item: u32) {
        self.age += 1;
        self.heap.push(Reverse((time, self.age, item)));
    }

    #[inline]
    fn first(&mut self) -> (u64, u32) {
        self.heap.peek().map_or((u64::MAX, 0), |Reverse((time, _, item))| (*time, *item))
    }

    #[inline]
    fn replace_first(&mut self, time: u64, item: u32) {
        self.age += 1;
        if let Some(mut first) = self.heap.peek_mut() {
            *first = Reverse((time, self.age, item));
        }
    }
}

/// A calendar queue: days of equal length in a year that repeats, each sorted in descending order. It is
/// tuned to its load: a day of 2^`day_log2` ns is about as long as the time between two events.
struct Calendar {
    days: Vec<Vec<Entry>>,
    day_log2: u32,
    today: u64,
    age: u64,
}

impl Calendar {
    fn new(streams: u64) -> Calendar {
        // About two events per day, and enough days for a timeout to fit into one year.
        let day_log2 = (2 * 3_600 / streams).max(1).ilog2();
        let days = (TIMEOUT >> day_log2).next_power_of_two().min(1 << 16);
        Calendar { days: vec![Vec::new(); days as usize], day_log2, today: 0, age: 0 }
    }

    #[inline]
    fn day(&mut self, day: u64) -> &mut Vec<Entry> {
        let index = day as usize & (self.days.len() - 1);
        &mut self.days[index]
    }
}

impl Queue for Calendar {
    #[inline]
    fn insert(&mut self, time: u64, item: u32) {
        self.age += 1;
        let entry = (time, self.age, item);
        let day = self.day(time >> self.day_log2);
        let mut place = day.len();
        while place > 0 && day[place - 1] < entry {
            place -= 1;
        }
        day.insert(place, entry);
    }

    #[inline]
    fn first(&mut self) -> (u64, u32) {
        loop {
            let (today, log2) = (self.today, self.day_log2);
            match self.day(today).last() {
                Some((time, _, item)) if time >> log2 == today => return (*time, *item),
                _ => self.today += 1,
            }
        }
    }

    #[inline]
    fn replace_first(&mut self, time: u64, item: u32) {
        let today = self.today;
        self.day(today).pop();
        self.insert(time, item);
    }
}

/// Slots per level of a wheel.
const SLOTS: usize = 64;
const LEVELS: usize = 7;

/// A hierarchical timing wheel of seven levels with 64 slots each and one bit per slot; the slots of the
/// lowest level are 64 ns wide. A slot is sorted when it becomes current.
struct Wheel {
    slots: Vec<Vec<Entry>>,
    used: [u64; LEVELS],
    /// Number of the current slot of the lowest level.
    now: u64,
    /// Events of the current slot in descending order.
    due: Vec<Entry>,
    age: u64,
}

impl Wheel {
    const TICK_LOG2: u32 = 6;

    fn new() -> Wheel {
        Wheel { slots: vec![Vec::new(); SLOTS * LEVELS], used: [0; LEVELS], now: 0, due: Vec::new(), age: 0 }
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        let tick = entry.0 >> Self::TICK_LOG2;
        let differing = tick ^ self.now;
        if differing == 0 {
            let mut place = self.due.len();
            while place > 0 && self.due[place - 1] < entry {
                place -= 1;
            }
            return self.due.insert(place, entry);
        }
        let level = differing.ilog2() / 6;
        let slot = (tick >> (6 * level)) as usize % SLOTS;
        self.used[level as usize] |= 1 << slot;
        self.slots[level as usize * SLOTS + slot].push(entry);
    }

    /// Advances to the next occupied slot.
    fn turn(&mut self) {
        while self.due.is_empty() {
            let Some(level) = self.used.iter().position(|used| *used != 0) else { return };
            let slot = self.used[level].trailing_zeros();
            self.used[level] &= !(1 << slot);
            let shift = 6 * level as u32;
            self.now = (self.now >> (shift + 6) << 6 | u64::from(slot)) << shift;
            let mut entries = std::mem::take(&mut self.slots[level * SLOTS + slot as usize]);
            if level == 0 {
                entries.sort_unstable_by(|a, b| b.cmp(a));
                self.due.append(&mut entries);
            } else {
                entries.drain(..).for_each(|entry| self.place(entry));
            }
            self.slots[level * SLOTS + slot as usize] = entries;
        }
    }
}

impl Queue for Wheel {
    #[inline]
    fn insert(&mut self, time: u64, item: u32) {
        self.age += 1;
        self.place((time, self.age, item));
    }

    #[inline]
    fn first(&mut self) -> (u64, u32) {
        if self.due.is_empty() {
            self.turn();
        }
        self.due.last().map_or((u64::MAX, 0), |(time, _, item)| (*time, *item))
    }

    #[inline]
    fn replace_first(&mut self, time: u64, item: u32) {
        self.due.pop();
        self.insert(time, item);
    }
}

/// Returns the CPU time of this thread (ns).
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// Returns nanoseconds per step and a hash of the order of events.
fn run(mut queue: impl Queue, streams: u32, timers: u32) -> (f64, u64) {
    for stream in 0..streams {
        queue.insert(u64::from(stream) * 97, stream);
    }
    for timer in 0..timers {
        // Spread evenly over the timeout.
        queue.insert(TIMEOUT / u64::from(timers) * u64::from(timer), streams + timer);
    }
    let mut sum = 0u64;
    let before = cpu();
    for _ in 0..STEPS {
        let (time, item) = queue.first();
        sum = sum.wrapping_mul(31).wrapping_add(time ^ u64::from(item));
        let after = if item < streams { INCREMENTS[item as usize % 4] } else { TIMEOUT };
        queue.replace_first(time + after, item);
    }
    ((cpu() - before) / STEPS as f64, sum)
}

fn main() {
    println!("ns per operation");
    println!(
        "{:>7} {:>7} {:>12} {:>12} {:>12} {:>12}",
        "streams", "timers", "4-ary heap", "BinaryHeap", "calendar", "wheel"
    );
    for timers in [0, 1_000, 100_000] {
        for streams in [2, 6, 20, 50] {
            let mut times = [const { Vec::new() }; 4];
            for _ in 0..RUNS {
                let results = [
                    run(Schedule::default(), streams, timers),
                    run(Binary::default(), streams, timers),
                    run(Calendar::new(streams.into()), streams, timers),
                    run(Wheel::new(), streams, timers),
                ];
                assert!(results.iter().all(|result| result.1 == results[0].1), "an order differs");
                times.iter_mut().zip(results).for_each(|(times, result)| times.push(result.0));
            }
            print!("{streams:7} {timers:7}");
            for times in &mut times {
                times.sort_by(f64::total_cmp);
                print!(" {:12.1}", times[RUNS / 2]);
            }
            println!();
        }
    }
}
