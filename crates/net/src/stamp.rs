//! Actual departure times: the kernel's transmit timestamps.

use crate::batch::{Batch, Queue};
use crate::protocol::StampSource;
use crate::socket::ProbeSocket;
use headway_units::Instant;
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Deadline};

/// Time to wait after the last packet for transmit timestamps that are still missing.
///
/// The kernel takes a timestamp when the driver gets the packet, some microseconds after `send` unless a
/// queue discipline holds it.
const STAMP_WAIT: Duration = Duration::from_millis(20);

/// Pause between reads of the error queue.
const STAMP_PAUSE: Duration = Duration::from_micros(500);

/// Returns the kernel's departure times of the `count` packets sent since [`ProbeSocket::stamp_from_zero`].
///
/// Returns `None` if any is missing: times taken in this program are some microseconds earlier, so mixing the
/// two would distort the gaps.
pub(crate) fn transmit_times(socket: &ProbeSocket, count: usize) -> Option<Vec<Instant>> {
    let mut times: Vec<Option<Instant>> = vec![None; count];
    let mut missing = count;
    let mut batch = Batch::new();
    let deadline = Deadline::now() + STAMP_WAIT;
    while missing > 0 {
        if batch.receive(socket.as_fd(), Queue::Errors).is_err() {
            if Deadline::now() >= deadline {
                return None;
            }
            std::thread::sleep(STAMP_PAUSE);
            continue;
        }
        for message in batch.datagrams() {
            let (Some(id), Some(time)) = (message.stamps.transmit, message.stamps.kernel) else {
                continue;
            };
            if let Some(slot @ None) = times.get_mut(id as usize) {
                *slot = Some(time);
                missing -= 1;
            }
        }
    }
    times.into_iter().collect()
}

/// All timestamps of one arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrivalStamps {
    /// From the NIC.
    pub hardware: Option<Instant>,
    /// From the kernel.
    pub kernel: Option<Instant>,
    /// From this program when it read the packet, much later than the others.
    pub program: Instant,
}

/// Chooses the best source that has a timestamp for every packet that arrived; different clocks must not mix
/// in one stream.
pub(crate) fn arrival_times(arrivals: &[Option<ArrivalStamps>]) -> (Vec<Option<Instant>>, StampSource) {
    let all = |has: fn(&ArrivalStamps) -> bool| {
        let mut some = false;
        arrivals.iter().flatten().all(|stamps| {
            some = true;
            has(stamps)
        }) && some
    };
    let (source, pick): (StampSource, fn(&ArrivalStamps) -> Option<Instant>) =
        if all(|stamps| stamps.hardware.is_some()) {
            (StampSource::Hardware, |stamps| stamps.hardware)
        } else if all(|stamps| stamps.kernel.is_some()) {
            (StampSource::Kernel, |stamps| stamps.kernel)
        } else {
            (StampSource::Program, |stamps| Some(stamps.program))
        };
    (arrivals.iter().map(|stamps| stamps.as_ref().and_then(pick)).collect(), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(hardware: Option<u64>, kernel: Option<u64>, program: u64) -> Option<ArrivalStamps> {
        let at = Instant::from_ns;
        Some(ArrivalStamps { hardware: hardware.map(at), kernel: kernel.map(at), program: at(program) })
    }

    #[test]
    fn sources_never_mix() {
        let all_hardware = [stamps(Some(1), Some(11), 21), None, stamps(Some(2), Some(12), 22)];
        let (times, source) = arrival_times(&all_hardware);
        assert_eq!(source, StampSource::Hardware);
        assert_eq!(times, [Some(Instant::from_ns(1)), None, Some(Instant::from_ns(2))]);

        let mixed = [stamps(Some(1), Some(11), 21), stamps(None, Some(12), 22)];
        let (times, source) = arrival_times(&mixed);
        assert_eq!(source, StampSource::Kernel);
        assert_eq!(times, [Some(Instant::from_ns(11)), Some(Instant::from_ns(12))]);

        assert_eq!(arrival_times(&[stamps(None, None, 5)]).1, StampSource::Program);
    }
}
