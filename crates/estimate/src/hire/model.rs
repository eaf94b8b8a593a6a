//! The dispersion of trains on an idle path.

use headway_units::{Bytes, Duration, Rate};

/// Returns the time between the first and the last packet of a train at the receiver, without cross traffic
/// (wan 2.17).
///
/// The train has `hidden` packets of `packet` bytes in between, which expire after link `ttl`; its first and
/// last packet left `sent` apart. `capacities` are those of all links.
pub fn dispersion(capacities: &[Rate], packet: Bytes, hidden: u32, sent: Duration, ttl: u32) -> Duration {
    let slowest = |links: &[Rate]| links.iter().min().map(|least| least.time_for(packet));
    let crossed = &capacities[..capacities.len().min(ttl as usize)];
    let serialised = slowest(crossed).map(|time| time * i64::from(hidden + 1));
    [serialised, slowest(capacities)].into_iter().flatten().fold(sent, Duration::max)
}

/// Returns the number of hidden packets that trains need to show the capacity `prefix` of links before a
/// narrow link of capacity `narrow`: the survivors must leave the prefix farther apart than the narrow link
/// spreads them; at least 1.
pub fn hidden_for(prefix: Rate, narrow: Rate) -> u32 {
    let ratio = prefix.bps().div_ceil(narrow.bps().max(1));
    u32::try_from(ratio.saturating_sub(1).max(1)).unwrap_or(u32::MAX)
}
