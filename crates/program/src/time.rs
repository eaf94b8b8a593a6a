//! The time of day, as numbers and as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headway_units::Instant;

/// Reads `CLOCK_REALTIME`, for comparison with the emulator's log and the logs of other hosts.
pub fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Formats a time since 1970 as in RFC 3339, in UTC and with all nanoseconds: many readers of JSON keep only
/// 53 bits of the number beside it.
pub fn rfc3339(time: Instant) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(time.ns())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_as_text_keeps_every_nanosecond() {
        assert_eq!(rfc3339(Instant::from_ns(0)), "1970-01-01T00:00:00.000000000Z");
        // `date -u -d @1795642523` says 2026-11-25 21:35:23; the number exceeds 2^53.
        assert_eq!(rfc3339(Instant::from_ns(1_795_642_523_123_456_789)), "2026-11-25T21:35:23.123456789Z");
    }
}
