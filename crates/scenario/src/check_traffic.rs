//! Validates the traffic models of a scenario before a run.

use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate, WIRE_OVERHEAD};

use headway_traffic::Traffic;

/// No link is faster than this, and serialisation times would drop below a nanosecond.
pub(crate) const MAX_RATE: Rate = Rate::from_bps(10_000_000_000_000);
const RATE_RULE: &str = "must be at most 10 Tb/s";

/// Checks the parameters of the model in `table`, for packets of up to `mtu` IP bytes.
///
/// # Errors
/// Names the key that is wrong.
pub fn check_traffic(table: &str, traffic: &Traffic, mtu: u32) -> Result<(), ConfigError> {
    let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
    let sized = |key: &str, size: Bytes| {
        let most = Bytes::new(u64::from(mtu)) + WIRE_OVERHEAD;
        check(key, Bytes::new(64) <= size && size <= most, "must lie between 64 bytes and the MTU plus 38")
    };
    let packet = |size: Bytes| sized("size", size);
    let rate = |key: &str, rate: Rate| check(key, rate <= MAX_RATE, RATE_RULE);
    let time = |key: &str, time: Duration| check(key, time > Duration::ZERO, "must be more than 0");
    let count = |key: &str, count: u32| {
        check(key, (1..=1_000_000).contains(&count), "must lie between 1 and 1000000")
    };
    let scale =
        |scale: f64| check("scale", scale > 0.0 && scale <= 1e6, "must be more than 0 and at most 1000000");
    let check_shape =
        |shape: f64| check("shape", shape > 1.0 && shape <= 100.0, "must be more than 1 and at most 100");
    match *traffic {
        Traffic::Cbr { rate: mean, size } | Traffic::Poisson { rate: mean, size } => {
            rate("rate", mean)?;
            packet(size)
        }
        Traffic::Batches { rate: mean, size, batch } => {
            rate("rate", mean)?;
            packet(size)?;
            check("batch", (1.0..=1e6).contains(&batch), "must lie between 1 and 1000000 packets")
        }
        Traffic::ParetoOnOff { sources, peak, on, off, shape, size } => {
            count("sources", sources)?;
            rate("peak", peak)?;
            time("on", on)?;
            time("off", off)?;
            let steady = peak == Rate::ZERO || peak.time_for(size) <= on * 1_000_000;
            check("on", steady, "must be at least a millionth of the time that a packet takes at `peak`")?;
            check_shape(shape)?;
            packet(size)
        }
        Traffic::Pareto { sources, rate: mean, shape, size, least_size, silence, period } => {
            count("sources", sources)?;
            rate("rate", mean)?;
            check_shape(shape)?;
            packet(size)?;
            if let Some(least) = least_size {
                sized("least-size", least)?;
                check("least-size", least <= size, "must be at most `size`")?;
            }
            check("silence", silence >= Duration::ZERO, "must not be negative")?;
            let given = silence > Duration::ZERO || period != Duration::ZERO;
            check("period", !given || period > silence, "must be longer than `silence`")?;
            // A silent share close to 1 would raise the rate beyond all bounds in the rest.
            check("silence", !given || silence <= period.scale(0.99), "must be at most 99 % of `period`")
        }
        Traffic::Web { browsers, think, access, file, spread, size } => {
            count("browsers", browsers)?;
            time("think", think)?;
            rate("access", access)?;
            check("file", file > Bytes::ZERO, "must be more than 0")?;
            check("spread", (0.0..=10.0).contains(&spread), "must lie between 0 and 10")?;
            packet(size)
        }
        Traffic::Bct { scale: factor }
        | Traffic::Sct { scale: factor }
        | Traffic::CbrProfile { scale: factor }
        | Traffic::Unc1 { scale: factor }
        | Traffic::Unc2 { scale: factor }
        | Traffic::Unc3 { scale: factor } => scale(factor),
        Traffic::Pcap { ref file, .. } => {
            let largest = file.packets().iter().map(|packet| packet.size).max().unwrap_or_default();
            let rule = format!(
                "holds a packet of {largest} on the wire, more than the MTU plus 38: raise `mtu`, or capture without segmentation offload"
            );
            check("file", largest <= Bytes::new(u64::from(mtu)) + WIRE_OVERHEAD, &rule)
        }
    }
}
