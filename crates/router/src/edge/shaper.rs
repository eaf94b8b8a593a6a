//! Token buckets at the interfaces, and the rule of routing for connections that are split, which a child
//! process sets and removes.
//!
//! Only that process keeps CAP_NET_ADMIN, and it knows two kinds of message: a side with a rate, or to set
//! the rule. It removes what it has set when this process ends, also by `kill -9`, and where the kernel has no
//! TCX, the programs of the edge, too. What is left after both were killed, the next edge removes.
//!
//! What comes down is held by the interface by which it came, in a class of `htb` at the interface towards
//! the hosts: the router's own traffic and that of other networks passes at once. A bucket's rate is on the
//! wire, as everywhere; windows and marks are of data.

use std::io;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_edge::Judged;
use headway_kernel::{EdgeInterface, Owner, has_tcx, remove_filters};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::qdisc::{Queues, TokenBucket};
use headway_units::{Bytes, Duration as Span, PerSide, Rate, Side};

use super::splitter::DELIVERY;

/// The handle by which a token bucket is known as one of ours (`tc` writes `7ed9:`); the kernel gives
/// out those from 8000 on.
pub(super) const HANDLE: u32 = 0x7ed9_0000;
/// What may pass at once: timers of the kernel may be late by some tenths of a ms. Range 0.2 to 5 ms.
const BURST: Span = Span::from_ms(1);
/// But two full packets at least.
const LEAST_BURST: Bytes = Bytes::new(2 * 1_538);
/// What may wait: the least that keeps a link full with senders that fill queues, over short
/// paths. Range 10 to 50 ms.
const WAIT: Span = Span::from_ms(20);
/// But ten full packets at least.
const LEAST_WAIT: Bytes = Bytes::new(10 * 1_538);
/// For how long packets of a flow may wait again and again (RFC 8289 4.3), but one and a half full packets at
/// least (RFC 8290 5.2.1).
const TARGET: Span = Span::from_ms(5);
/// Bytes of a request: side, overhead and rate.
const REQUEST: usize = 11;
/// Bytes of the header of Ethernet, which the kernel counts.
const COUNTED: u32 = 14;
/// In place of a side: to have packets of split connections delivered.
const DELIVER: u8 = 2;

/// Holds what leaves for each side in a token bucket, or not.
#[derive(Debug)]
pub(super) struct Shaper {
    /// None where the policy wants none.
    deputy: Option<Deputy>,
    held: PerSide<Option<Rate>>,
    told: Option<String>,
}

impl Shaper {
    /// Starts the process that sets token buckets and the rule of routing where they are `wanted`, or that
    /// removes programs where they outlive this process. It has what this process has open, and this must have
    /// one thread.
    pub(super) fn start(sides: [&EdgeInterface; 2], wanted: bool) -> Result<Shaper> {
        let indexes = PerSide(sides.map(|side| side.index));
        let deputy = (wanted || !has_tcx()).then(|| {
            let queues = Queues::open()?;
            Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, queues, indexes))
        });
        let deputy =
            deputy.transpose().context("cannot start the process that changes queues and routing")?;
        Ok(Shaper { deputy, held: PerSide::default(), told: None })
    }

    /// Removes what an earlier edge has left, if it and its process were killed.
    pub(super) fn remove_left(sides: [&EdgeInterface; 2]) -> Result<()> {
        let mut queues = Queues::open().context("cannot see the queues of interfaces")?;
        for side in sides {
            let failed = || format!("cannot free {}", side.name);
            if queues.remove(side.index, HANDLE).with_context(failed)? {
                tracing::warn!("{} had a token bucket of an edge that was killed; it is removed", side.name);
            }
            if remove_filters(Owner::Edge, side.index).with_context(failed)? {
                tracing::warn!("{} had programs of an edge that was killed; they are removed", side.name);
            }
        }
        Ok(())
    }

    /// Has both sides held to a rate, whatever is decided.
    #[cfg(test)]
    pub(super) fn set_both(&self, rate: Rate) {
        let deputy = self.deputy.as_ref().unwrap();
        for side in [0, 1] {
            ask(deputy, side, Some(rate), 0).unwrap().unwrap();
        }
    }

    /// Has packets of split connections delivered to this router from now on.
    pub(super) fn deliver(&self) -> Result<()> {
        let Some(deputy) = &self.deputy else { return Ok(()) };
        let done = ask(deputy, DELIVER, None, 0);
        done.context("the process that changes queues and routing has ended")?.map_err(anyhow::Error::msg)
    }

    /// Has what was decided done, on a link that adds so many bytes to a packet of IP, and says it once where
    /// it cannot be. To be called every second.
    pub(super) fn hold(&mut self, judged: &[Judged], overhead: u32) {
        if self.try_hold(judged, overhead).is_err() {
            // One that was only stopped cleans up now.
            self.deputy = None;
            tracing::warn!(
                "the process that changes queues and routing has ended or does not answer; what it has set may stay until the edge \
                 starts again, which removes it, and all else goes on"
            );
        }
    }

    /// Does that; fails if the other process does not live.
    fn try_hold(&mut self, judged: &[Judged], overhead: u32) -> io::Result<()> {
        let Some(deputy) = &self.deputy else { return Ok(()) };
        if deputy.has_ended() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for side in Side::BOTH {
            let of_side = judged.iter().filter(|judged| judged.main_side == side);
            let rate = of_side.filter_map(|judged| judged.decision.bucket()).min();
            // One that is there is set again, in case that something else was put in its place.
            if rate.is_none() && self.held[side].is_none() {
                continue;
            }
            self.held[side] = rate;
            if let Err(reason) = ask(deputy, side.number(), rate, overhead)? {
                let reason = format!("nothing is held in a token bucket: {reason}");
                if self.told.as_ref() != Some(&reason) {
                    tracing::warn!("{reason}");
                    self.told = Some(reason);
                }
            }
        }
        Ok(())
    }
}

/// Asks the other process to hold a side to a rate, or no longer, or to [`DELIVER`]; returns the
/// sentence why that cannot be.
fn ask(deputy: &Deputy, side: u8, rate: Option<Rate>, overhead: u32) -> io::Result<Result<(), String>> {
    let overhead = u16::try_from(overhead.saturating_sub(COUNTED)).unwrap_or(u16::MAX);
    let mut request = vec![side];
    request.extend(overhead.to_ne_bytes());
    request.extend(rate.map_or(0, Rate::bps).to_ne_bytes());
    deputy.ask(&request)
}

/// Does what is asked until the other end of the socket is closed, and removes what is there then.
fn work(socket: UnixStream, mut queues: Queues, interfaces: PerSide<u32>) {
    let (mut has_set, mut delivers, mut warned) = (PerSide::both(false), false, false);
    serve(socket, |[side, low, high, rate @ ..]: [u8; REQUEST]| {
        if side == DELIVER {
            let set = DELIVERY.set();
            delivers |= set.is_ok();
            return set;
        }
        let side = Side::of(side);
        let done = match Rate::from_bps(u64::from_ne_bytes(rate)) {
            Rate::ZERO => queues.remove(interfaces[side], HANDLE).map(|_| ()),
            rate => {
                let bucket = bucket(rate, u16::from_ne_bytes([low, high]));
                set(&mut queues, interfaces, side, &bucket)
            }
        };
        has_set[side] |= done.is_ok();
        if queues.is_row() && !std::mem::replace(&mut warned, true) {
            tracing::warn!(
                "this kernel has neither CAKE nor FQ-CoDel: in a token bucket all flows wait in one row"
            );
        }
        done
    });
    if delivers {
        // What is left is reported when the next edge starts.
        let _ = DELIVERY.remove();
    }
    for (interface, has_set) in interfaces.0.into_iter().zip(has_set.0) {
        // One that has gone has nothing to remove.
        if has_set {
            let _ = queues.remove(interface, HANDLE);
        }
        let _ = remove_filters(Owner::Edge, interface);
    }
}

/// Sets a token bucket for what leaves for a side, unless somebody else has set up the queue that is there.
fn set(queues: &mut Queues, interfaces: PerSide<u32>, side: Side, bucket: &TokenBucket) -> io::Result<()> {
    let interface = interfaces[side];
    if let Some(root) = queues.root(interface)?.filter(|root| root.handle != 0 && root.handle != HANDLE) {
        let name = nix::net::if_::if_indextoname(interface)?;
        let name = name.to_string_lossy();
        return Err(io::Error::other(format!(
            "somebody has given {name} the queue `{}` ({:x}:), which stays; `tc qdisc del dev {name} root` removes it",
            root.kind,
            root.handle >> 16
        )));
    }
    // All that leaves for the link crosses it. Of what leaves for the hosts, only what
    // came from the link does.
    let only_from = (side == Side::Lan).then_some(interfaces[Side::Wan]);
    queues.set(interface, HANDLE, bucket, only_from)
}

/// Returns the token bucket for a rate on a wire that adds so many bytes to what the kernel counts.
fn bucket(rate: Rate, overhead: u16) -> TokenBucket {
    let target = TARGET.max(rate.time_for(Bytes::new(1_538)).scale(1.5));
    let burst = rate.bytes_in(BURST).max(LEAST_BURST);
    TokenBucket { rate, overhead, burst, limit: burst + rate.bytes_in(WAIT).max(LEAST_WAIT), target }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_two_packets_and_lets_twenty_ms_wait_or_ten_packets() {
        let slow = bucket(Rate::from_mbps(1.538), 24);
        assert_eq!((slow.burst, slow.limit), (Bytes::new(3_076), Bytes::new(3_076 + 15_380)));
        assert_eq!(slow.target, Span::from_ms(12));
        let fast = bucket(Rate::from_mbps(100.0), 24);
        assert_eq!((fast.burst, fast.limit), (Bytes::new(12_500), Bytes::new(12_500 + 250_000)));
        assert_eq!(fast.target, TARGET);
    }
}
