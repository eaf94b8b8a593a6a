//! A token bucket as the kernel's `tbf`, and as a class of its `htb`.

use headway_units::{Bytes, Duration, Rate};
use libc::{TCA_KIND, TCA_OPTIONS};

use crate::netlink::attribute;

/// Attributes of `include/uapi/linux/pkt_sched.h`.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// The version of `htb` that all kernels have, and a divisor that is not used where a class says its quantum.
const HTB_VERSION: u32 = 3;
const RATE_TO_QUANTUM: u32 = 10;
/// Rates are of packets on an Ethernet.
const LINK_LAYER: u8 = 1;
/// The unit of times of bursts in `htb`, in ns (`PSCHED_SHIFT` of `include/net/pkt_sched.h`).
const TICK: i64 = 64;
/// What a class sends before another one of the same parent may: there is only one. A full packet at least.
const QUANTUM: u32 = 1_538;

/// A token bucket, before which each flow waits in a queue of its own where the kernel has such queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate at which it lets packets pass, in bytes on the wire.
    pub rate: Rate,
    /// Bytes on the wire of a packet beyond those that the kernel counts, which are those from the
    /// header of Ethernet on.
    pub overhead: u16,
    /// What may pass at once.
    pub burst: Bytes,
    /// What may wait where the kernel has no fair queues.
    pub limit: Bytes,
    /// For how long packets of a flow may wait again and again before some are dropped or marked.
    pub target: Duration,
}

impl TokenBucket {
    fn bytes_per_second(&self) -> u64 {
        self.rate.bps() / 8
    }

    /// `struct tc_ratespec`.
    fn rate_spec(&self) -> Vec<u8> {
        let mut spec = vec![0, LINK_LAYER];
        spec.extend(self.overhead.to_ne_bytes());
        spec.extend([0; 4]);
        spec.extend(word(self.bytes_per_second()));
        spec
    }

    /// Returns attributes of a rate that has no room in [`TokenBucket::rate_spec`].
    fn large_rate(&self, kinds: &[u16]) -> Vec<u8> {
        let rate = self.bytes_per_second();
        let is_large = u32::try_from(rate).is_err();
        let kinds = kinds.iter().filter(|_| is_large);
        kinds.flat_map(|kind| attribute(*kind, &rate.to_ne_bytes())).collect()
    }

    /// Returns kind and options of the discipline `tbf`.
    pub(super) fn tbf(&self) -> Vec<u8> {
        // `struct tc_tbf_qopt`: two rates, the limit, and two times that TCA_TBF_BURST replaces.
        let parameters = [self.rate_spec(), vec![0; 12], word(self.limit.get()).to_vec(), vec![0; 8]];
        let options = [
            attribute(TCA_TBF_PARMS, &parameters.concat()),
            self.large_rate(&[TCA_TBF_RATE64]),
            attribute(TCA_TBF_BURST, &word(self.burst.get())),
        ];
        [attribute(TCA_KIND, b"tbf\0"), attribute(TCA_OPTIONS, &options.concat())].concat()
    }

    /// Returns kind and options of the discipline `htb`, in which what no filter gives a
    /// class passes at once.
    pub(super) fn htb() -> Vec<u8> {
        // `struct tc_htb_glob`: version, divisor, class of the rest, and two numbers for debugging.
        let global = [HTB_VERSION, RATE_TO_QUANTUM, 0, 0, 0].map(u32::to_ne_bytes).concat();
        let options = attribute(TCA_OPTIONS, &attribute(TCA_HTB_INIT, &global));
        [attribute(TCA_KIND, b"htb\0"), options].concat()
    }

    /// Returns kind and options of a class of `htb`.
    pub(super) fn htb_class(&self) -> Vec<u8> {
        let burst = word((self.rate.time_for(self.burst).ns() / TICK) as u64);
        // `struct tc_htb_opt`: its rate and the most that it may borrow, both bursts,
        // quantum, level and priority.
        let parameters = [
            self.rate_spec(),
            self.rate_spec(),
            [burst, burst, QUANTUM.to_ne_bytes(), [0; 4], [0; 4]].concat(),
        ];
        let options = [
            attribute(TCA_HTB_PARMS, &parameters.concat()),
            self.large_rate(&[TCA_HTB_RATE64, TCA_HTB_CEIL64]),
        ];
        [attribute(TCA_KIND, b"htb\0"), attribute(TCA_OPTIONS, &options.concat())].concat()
    }
}

fn word(value: u64) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes()
}
