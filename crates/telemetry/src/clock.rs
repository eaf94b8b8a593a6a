//! The clock of programs.

use std::fmt;
use std::time::Instant;

/// Readings that are timed, which take 25 ns each where that needs no system call.
const READINGS: u32 = 1_000;
/// A reading that takes longer, in ns, distorts the gaps of fast streams. Range 100 to 2000 ns.
const SLOW_READING: u128 = 500;

/// The kernel's clock source, and how long a reading of it takes.
#[derive(Clone, Debug)]
pub struct Clock {
    source: String,
    reading_ns: u128,
}

impl Clock {
    /// Reads the clock some times.
    pub fn read() -> Clock {
        let source =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let begun = Instant::now();
        let mut last = begun;
        for _ in 0..READINGS {
            last = Instant::now();
        }
        let source = source.map_or_else(|_| "unknown".to_owned(), |source| source.trim().to_owned());
        Clock { source, reading_ns: (last - begun).as_nanos() / u128::from(READINGS) }
    }

    /// Whether readings take so long that they are in every gap that is sent or stamped.
    pub const fn is_slow(&self) -> bool {
        self.reading_ns > SLOW_READING
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, a reading takes {} ns", self.source, self.reading_ns)
    }
}
