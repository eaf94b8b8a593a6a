//! Rates, sizes and times as types, so that no bare number crosses a public boundary; what users read about
//! mistakes in files and names; [`Prefix`]es of addresses; [`Budget`]s of bytes; and [`statistics`]
//! of samples.

mod budget;
mod bytes;
pub mod config_error;
mod direction;
mod nearest;
mod prefix;
mod rate;
mod rate_steps;
pub mod share;
mod side;
pub mod statistics;
mod sums;
mod text;
mod time;

pub use budget::Budget;
pub use bytes::{Bytes, WIRE_OVERHEAD};
pub use config_error::ConfigError;
pub use direction::Direction;
pub use nearest::nearest;
pub use prefix::Prefix;
pub use rate::Rate;
pub use rate_steps::{RateSteps, RateStepsError, WORK_PER_BYTE};
pub use side::{PerSide, Side};
pub use text::ParseQuantityError;
pub use time::{Duration, Instant};

/// Defines a function without arguments for each value, as serde wants them of keys with a default.
#[macro_export]
macro_rules! defaults {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$doc])* fn $name() -> $type { $value })+
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_at_10_gbps_takes_7230_ns() {
        // rapid 1.5: P = 9038 B on the wire.
        assert_eq!(Rate::from_bps(10_000_000_000).time_for(Bytes::new(9038)), Duration::from_ns(7230));
        assert_eq!(Rate::of(Bytes::new(1250), Duration::from_us(1)), Some(Rate::from_bps(10_000_000_000)));
        assert_eq!(Rate::of(Bytes::new(1250), Duration::ZERO), None);
    }

    #[test]
    fn quantities_read_and_print_with_units() {
        assert_eq!("58.8 Mb/s".parse(), Ok(Rate::from_bps(58_800_000)));
        assert_eq!("250 kB".parse(), Ok(Bytes::new(250_000)));
        assert_eq!("120us".parse(), Ok(Duration::from_us(120)));
        assert_eq!(Rate::from_bps(58_800_000).to_string(), "58.8 Mb/s");
        assert_eq!(Rate::from_bps(9_996_000).to_string(), "10.0 Mb/s");
        assert_eq!(Duration::from_ms(20).to_string(), "20.0 ms");
        assert!("100".parse::<Rate>().is_err());
        assert!("-5 ms".parse::<Duration>().is_err());
        assert!("1e400 s".parse::<Duration>().is_err());
    }

    #[test]
    fn instants_subtract_to_signed_spans() {
        let (a, b) = (Instant::from_ns(5), Instant::from_ns(9));
        assert_eq!(b - a, Duration::from_ns(4));
        assert_eq!(a - b, Duration::from_ns(-4));
        assert_eq!(a + Duration::from_ns(4), b);
        assert_eq!(b - Duration::from_ns(4), a);
    }
}
