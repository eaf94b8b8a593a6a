//! Detection of the packet at which a train exhausts the token bucket of a shaper.
//!
//! A token bucket passes packets unhindered while it holds tokens; after that it serves a queue at its
//! sustained rate. A train faster than that rate first arrives as it was sent, with constant delay. From some
//! packet on it arrives spread out, with every packet delayed more than the previous one. A queue without
//! tokens behaves differently: it delays a train that exceeds its rate from the second packet on.

use headway_units::Duration;
use headway_units::statistics::upper_median;

use super::response::Delayed;

/// The shape of the delays of a train sent at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// The train arrived as it was sent, except possibly for a packet or two at the end.
    Flat,
    /// This many packets arrived as they were sent, and the delay of all later ones kept growing.
    Knee(usize),
    /// Something else, for instance a queue that grew from the start.
    Other,
}

/// Minimum number of packets in a conclusive train.
const MIN_PACKETS: usize = 8;
/// A train whose delay grows by at most this fraction of its duration is not delayed.
const SPREAD: f64 = 0.1;
/// Minimum number of packets that pass unhindered before a knee: the first passes any idle
/// link, and the second may.
const MIN_FLAT: usize = 3;
/// Minimum number of packets after a knee.
const MIN_RISING: usize = 4;
/// Minimum share of packets before a knee that are not delayed, and of those after it that are delayed more
/// than the previous one.
const MIN_SHARE: f64 = 0.8;
/// Minimum ratio of the median receive gap after a knee to that before it.
const BEND: f64 = 1.25;

/// Classifies a train by its `packets`, in order; delays are relative to those of an empty path.
pub(crate) fn profile(packets: &[Delayed]) -> Profile {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return Profile::Other };
    if packets.len() < MIN_PACKETS {
        return Profile::Other;
    }
    let (grown, sent_for) = (last.queueing - first.queueing, last.sent - first.sent);
    let gaps = (packets.len() - 1) as i64;
    // A packet counts as delayed from half of what each gap after the knee adds; the mean over all gaps is
    // a first guess.
    let guess = flat(packets, grown / (2 * gaps));
    let steps = packets[guess.saturating_sub(1)..].windows(2).map(|pair| pair[1].queueing - pair[0].queueing);
    let least = upper_median(steps.collect()).unwrap_or_default() / 2;
    let count = flat(packets, least);
    if is_knee(packets, count, least) {
        return Profile::Knee(count);
    }
    let one_late = count >= MIN_FLAT && packets.len() - count < MIN_RISING;
    let even = grown <= sent_for.scale(SPREAD) && share_of(packets, sent_for / gaps) >= MIN_SHARE;
    if one_late || even { Profile::Flat } else { Profile::Other }
}

/// Returns the number of packets up to and including the last one that is delayed by no more than `least`.
fn flat(packets: &[Delayed], least: Duration) -> usize {
    packets.iter().rposition(|packet| packet.queueing <= least).map_or(0, |last| last + 1)
}

/// Returns the share of packets that are delayed by no more than `least`.
fn share_of(packets: &[Delayed], least: Duration) -> f64 {
    packets.iter().filter(|packet| packet.queueing <= least).count() as f64 / packets.len() as f64
}

fn is_knee(packets: &[Delayed], count: usize, least: Duration) -> bool {
    if count < MIN_FLAT || packets.len() - count < MIN_RISING {
        return false;
    }
    let (before, behind) = (&packets[..count], &packets[count..]);
    let rising = behind.windows(2).filter(|pair| pair[1].queueing > pair[0].queueing).count();
    let gaps = |packets: &[Delayed]| upper_median(receive_gaps(packets).collect()).unwrap_or_default();
    share_of(before, least) >= MIN_SHARE
        && rising as f64 >= MIN_SHARE * (behind.len() - 1) as f64
        && gaps(behind) > gaps(before).scale(BEND)
}

/// Yields the receive gaps between consecutive packets.
pub(crate) fn receive_gaps(packets: &[Delayed]) -> impl Iterator<Item = Duration> + '_ {
    let pairs = packets.windows(2).filter(|pair| pair[1].index == pair[0].index + 1);
    pairs.map(|pair| pair[1].sent - pair[0].sent + pair[1].queueing - pair[0].queueing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    /// Returns packets sent every 10 us with the given delays in microseconds.
    fn train(delays: &[u64]) -> Vec<Delayed> {
        (0..)
            .zip(delays)
            .map(|(index, delay)| Delayed {
                index,
                sent: Instant::from_ns(u64::from(index) * 10_000),
                queueing: Duration::from_us(*delay as i64),
            })
            .collect()
    }

    #[test]
    fn a_bucket_shows_as_packets_without_delay_and_then_a_steady_growth() {
        // A bucket of five packets in front of a tenth of the rate.
        assert_eq!(profile(&train(&[0, 0, 0, 0, 0, 50, 140, 230, 320, 410])), Profile::Knee(5));
        // The same with a cross packet in two gaps and timestamps that are off by a microsecond.
        assert_eq!(profile(&train(&[1, 0, 1, 0, 0, 50, 240, 331, 420, 610])), Profile::Knee(5));
        // At the end of a long train, whose duration it hardly changes.
        let long = [[0; 76].as_slice(), &[6, 15, 24, 33]].concat();
        assert_eq!(profile(&train(&long)), Profile::Knee(76));
        // Only half of the rate.
        assert_eq!(profile(&train(&[0, 0, 0, 0, 7, 17, 27, 37, 47])), Profile::Knee(4));
    }

    #[test]
    fn a_queue_that_grows_from_the_begin_has_no_knee() {
        assert_eq!(profile(&train(&[0, 10, 20, 30, 40, 50, 60, 70, 80])), Profile::Other);
        // Bursts of cross traffic after an even start: every packet is delayed all the same.
        assert_eq!(profile(&train(&[0, 10, 20, 30, 40, 250, 260, 270, 480, 490])), Profile::Other);
        // An earlier queue has not drained.
        assert_eq!(profile(&train(&[300, 300, 300, 300, 390, 480, 570, 660, 750])), Profile::Other);
    }

    #[test]
    fn a_train_that_fits_into_the_bucket_is_flat_and_a_single_step_is_no_knee() {
        assert_eq!(profile(&train(&[0; 20])), Profile::Flat);
        // Two late packets at the end may or may not be a knee.
        assert_eq!(profile(&train(&[0, 0, 0, 0, 0, 0, 0, 0, 60, 150])), Profile::Flat);
        // A burst of cross traffic: the delay jumps once, and the gaps do not change.
        assert_eq!(profile(&train(&[0, 0, 0, 0, 0, 500, 500, 500, 500, 500])), Profile::Other);
    }

    #[test]
    fn interrupts_that_hand_up_several_packets_make_no_knee() {
        assert_eq!(profile(&train(&[60, 50, 40, 30, 20, 10, 0, 190, 180, 170, 160, 150])), Profile::Other);
        assert_eq!(profile(&train(&[90, 80, 70, 60, 50, 40, 30, 20, 10, 0])), Profile::Other);
    }

    #[test]
    fn a_handful_of_packets_tells_nothing() {
        assert_eq!(profile(&train(&[0, 0, 0, 90])), Profile::Other);
        assert_eq!(profile(&[]), Profile::Other);
    }
}
