//! Location of the tight link with streams whose load expires on the way.
//!
//! A stream above the available bandwidth makes its own delay grow. If most of its packets expire at hop t,
//! the few that survive are delayed more and more only if a link among the first t is overloaded. The first
//! hop at which delays grow as they do when the whole stream arrives is the tight link, as long as the
//! stream's rate is below what is available on all other links.

use headway_units::statistics::upper_median;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::ppdd::draw;
use crate::stream::{Arrival, StreamRecord};

/// Minimum number of survivors in a stream.
const LEAST_SURVIVORS: usize = 4;
/// Minimum growth of delay per time with the load on all links: less may be chance.
const LEAST_GROWTH: f64 = 0.02;
/// Share of that growth from which a hop counts as overloaded.
const SHARE: f64 = 0.5;
/// Number of resampled sets of streams.
const RESAMPLED: usize = 200;

/// Streams whose load expired at one hop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The number of links that the load crossed.
    pub ttl: u32,
    /// Growth of the survivors' delay per time, for every stream.
    pub growths: Vec<f64>,
}

/// The tight link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TightLink {
    /// Its position, counted from 1 at the sender.
    pub hop: u32,
    /// The share of resampled sets of streams that say the same.
    pub confidence: f64,
}

/// The reason why the tight link could not be located.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotLocated {
    /// There are no streams, or none of which the load crossed all links.
    #[error("no stream with its load on all links was usable")]
    NoReference,
    /// Even with the load on all links delays did not grow.
    #[error("the streams did not overload the path")]
    NotOverloaded,
}

/// Returns how much the delay of surviving packets grows per time sent: the median of the second half less
/// that of the first half, over the time between these halves. `None` if too few survived.
///
/// Packets that never arrived do not count, so the record may contain those that expired.
pub fn growth(record: &StreamRecord) -> Option<f64> {
    let arrived: Vec<&Arrival> =
        record.arrivals.iter().filter(|arrival| arrival.received.is_some()).collect();
    if arrived.len() < LEAST_SURVIVORS {
        return None;
    }
    let (first, second) = arrived.split_at(arrived.len() / 2);
    let median = |half: &[&Arrival]| upper_median(half.iter().filter_map(|a| a.one_way_delay()).collect());
    let middle = |half: &[&Arrival]| half[half.len() / 2].sent;
    let time = (middle(second) - middle(first)).ns();
    (time > 0).then_some((median(second)? - median(first)?).ns() as f64 / time as f64)
}

/// Locates the tight link from streams of the same rate whose load expired at different hops; the largest hop
/// is where the load crossed all links.
///
/// # Errors
/// Without growth at the last hop there is nothing to compare with.
pub fn locate(groups: &[Loaded]) -> Result<TightLink, NotLocated> {
    let mut groups: Vec<&Loaded> = groups.iter().filter(|group| !group.growths.is_empty()).collect();
    groups.sort_by_key(|group| group.ttl);
    let hop = first_overloaded(&groups, |growths| midmean(growths.to_vec()))?;
    let mut random = Pcg64Mcg::seed_from_u64(u64::from(hop));
    let resampled = (0..RESAMPLED).filter(|_| {
        let drawn = |growths: &[f64]| {
            midmean((0..growths.len()).map(|_| growths[draw(&mut random, growths.len())]).collect())
        };
        first_overloaded(&groups, drawn) == Ok(hop)
    });
    Ok(TightLink { hop, confidence: resampled.count() as f64 / RESAMPLED as f64 })
}

/// Returns the first hop of which the growth, according to `of`, is a sufficient share of
/// that at the last hop.
fn first_overloaded(groups: &[&Loaded], mut of: impl FnMut(&[f64]) -> f64) -> Result<u32, NotLocated> {
    let last = groups.last().ok_or(NotLocated::NoReference)?;
    let reference = of(&last.growths);
    if reference < LEAST_GROWTH {
        return Err(NotLocated::NotOverloaded);
    }
    let overloaded = |group: &&&Loaded| of(&group.growths) >= SHARE * reference;
    Ok(groups[..groups.len() - 1].iter().find(overloaded).map_or(last.ttl, |group| group.ttl))
}

/// Returns the mean of values without the lowest and the highest quarter of them; 0 without values.
///
/// Growths vary like sums of many packets, for which this mean needs about a quarter fewer of them than a
/// median, and a few streams that something disturbed do not count either.
pub(crate) fn midmean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let outside = values.len() / 4;
    let inner = &values[outside..values.len() - outside];
    inner.iter().sum::<f64>() / inner.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::{Bytes, Instant, Rate};

    /// Ten packets 1 ms apart, of which the delay grows by `growth` per time; those not in
    /// `survivors` expired.
    fn stream(growth: f64, survivors: &[u32]) -> StreamRecord {
        let arrival = |index: u32| {
            let sent = u64::from(index) * 1_000_000;
            let received = 70_000_000 + (sent as f64 * (1.0 + growth)) as u64;
            Arrival {
                index,
                size: Bytes::new(1_500),
                sent: Instant::from_ns(sent),
                received: survivors.contains(&index).then(|| Instant::from_ns(received)),
            }
        };
        let arrivals = (0..10).map(arrival).collect();
        StreamRecord { id: 0, packet: Bytes::new(1_500), average: Rate::ZERO, intended: Vec::new(), arrivals }
    }

    #[test]
    fn growth_is_that_of_the_survivors() {
        let found = growth(&stream(0.1, &[0, 3, 6, 9])).expect("enough");
        assert!((found - 0.1).abs() < 1e-6, "{found}");
        assert_eq!(growth(&stream(0.0, &[0, 3, 6, 9])), Some(0.0));
        assert_eq!(growth(&stream(0.1, &[0, 3, 6])), None);
    }

    #[test]
    fn the_first_hop_with_the_whole_growth_is_the_tight_link() {
        let group = |(ttl, growth): (u32, f64)| Loaded { ttl, growths: vec![growth; 5] };
        let groups: Vec<Loaded> = [(5, 0.1), (1, 0.001), (2, 0.01), (3, 0.09), (4, 0.11)].map(group).to_vec();
        assert_eq!(locate(&groups), Ok(TightLink { hop: 3, confidence: 1.0 }));
        assert_eq!(locate(&groups[..1]), Ok(TightLink { hop: 5, confidence: 1.0 }));
    }

    #[test]
    fn a_stream_in_four_may_be_far_off() {
        assert_eq!(midmean(vec![0.1, 0.3, 50.0, 0.2, -9.0, 0.25, 0.15, 0.2]), 0.2);
        assert_eq!(midmean(vec![0.5, 0.25]), 0.375);
        assert_eq!(midmean(Vec::new()), 0.0);
    }

    #[test]
    fn streams_that_do_not_overload_the_path_locate_nothing() {
        assert_eq!(locate(&[]), Err(NotLocated::NoReference));
        let groups = [Loaded { ttl: 1, growths: vec![0.0] }, Loaded { ttl: 2, growths: vec![0.01] }];
        assert_eq!(locate(&groups), Err(NotLocated::NotOverloaded));
    }
}
