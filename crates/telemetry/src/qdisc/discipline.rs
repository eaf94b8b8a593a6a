//! Where packets wait behind a token bucket.

use std::io;

use libc::{TCA_KIND, TCA_OPTIONS};

use super::TokenBucket;
use crate::netlink::attribute;

/// Attributes of `include/uapi/linux/pkt_sched.h`.
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_CAKE_TARGET: u16 = 8;
const TCA_CAKE_MEMORY: u16 = 10;
/// What CAKE may hold of packets, in bytes of memory: what it takes by itself where it sets the
/// rate. Range 1 to 32 MB.
const MEMORY: u32 = 4 << 20;

/// A queue discipline, the best one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    /// CAKE: a queue for each flow, which shares first by host.
    Cake,
    /// FQ-CoDel: a queue for each flow (RFC 8290).
    FqCodel,
    /// One row, which every kernel has.
    Row,
}

impl Discipline {
    const ALL: [Discipline; 3] = [Discipline::Cake, Discipline::FqCodel, Discipline::Row];

    /// Sets the one that was found before, or else the first that the kernel has, and returns it. A kernel
    /// asks for a module each time that it does not find one.
    ///
    /// # Errors
    /// What setting says, other than that the kernel has no such discipline.
    pub(super) fn best(
        before: Option<Discipline>,
        mut set: impl FnMut(Discipline) -> io::Result<()>,
    ) -> io::Result<Discipline> {
        let mut done = Err(io::ErrorKind::NotFound.into());
        for discipline in
            Discipline::ALL.into_iter().skip_while(|one| before.is_some_and(|before| before != *one))
        {
            done = set(discipline).map(|()| discipline);
            if !matches!(&done, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
        }
        done
    }

    /// Returns its kind and options.
    pub(super) fn options(self, bucket: &TokenBucket) -> Vec<u8> {
        let target = u32::try_from(bucket.target.ns() / 1_000).unwrap_or(u32::MAX).to_ne_bytes();
        let (kind, options): (&[u8], Vec<u8>) = match self {
            Discipline::Cake => {
                let memory = attribute(TCA_CAKE_MEMORY, &MEMORY.to_ne_bytes());
                (b"cake\0", [attribute(TCA_CAKE_TARGET, &target), memory].concat())
            }
            Discipline::FqCodel => (b"fq_codel\0", attribute(TCA_FQ_CODEL_TARGET, &target)),
            // `struct tc_fifo_qopt`.
            Discipline::Row => {
                let limit = u32::try_from(bucket.limit.get()).unwrap_or(u32::MAX);
                (b"bfifo\0", limit.to_ne_bytes().to_vec())
            }
        };
        [attribute(TCA_KIND, kind), attribute(TCA_OPTIONS, &options)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::Discipline::{Cake, FqCodel, Row};
    use super::*;

    #[test]
    fn the_best_discipline_that_the_kernel_has_is_taken_and_asked_for_again() {
        for (has, before, best, asks) in [
            (&[Cake, FqCodel, Row][..], None, Cake, &[Cake][..]),
            (&[FqCodel, Row], None, FqCodel, &[Cake, FqCodel]),
            (&[Row], None, Row, &[Cake, FqCodel, Row]),
            // A kernel that had it may have lost the module.
            (&[FqCodel, Row], Some(FqCodel), FqCodel, &[FqCodel]),
            (&[Row], Some(FqCodel), Row, &[FqCodel, Row]),
        ] {
            let mut asked = Vec::new();
            let found = Discipline::best(before, |discipline| {
                asked.push(discipline);
                if has.contains(&discipline) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
            });
            assert_eq!((found.unwrap(), &asked[..]), (best, asks));
        }
        // It reports what it has and refuses.
        let refused = Discipline::best(None, |_| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
