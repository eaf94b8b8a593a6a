//! The compact encoding of how many hops each packet of a stream may travel.

use serde::{Deserialize, Serialize};

/// The largest TTL or hop limit of a hidden packet. Paths on the Internet have at most about 30 hops.
pub const MAX_HOPS: u8 = 64;

/// Run-length encoded hops of the packets of a stream, by index. 0 is an ordinary packet, which travels as
/// far as the system's TTL allows; any other number is the TTL or hop limit of a hidden packet, which dies at
/// the node that many links away. No runs at all mean that no packet is hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRuns(Vec<(u8, u32)>);

impl HopRuns {
    /// Encodes the hops of each packet.
    pub fn encode(hops: &[u8]) -> HopRuns {
        let mut runs: Vec<(u8, u32)> = Vec::new();
        for hops in hops {
            match runs.last_mut() {
                Some((run, count)) if run == hops => *count += 1,
                _ => runs.push((*hops, 1)),
            }
        }
        HopRuns(runs)
    }

    /// Decodes the hops of a stream of `packets` packets; the list is empty if no packet is hidden. `None` if
    /// the runs have another length, one is empty, or a number is above [`MAX_HOPS`].
    pub fn decode(&self, packets: usize) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return Some(Vec::new());
        }
        let mut hops = Vec::new();
        for (run, count) in &self.0 {
            let count = *count as usize;
            if *run > MAX_HOPS || count == 0 || count > packets - hops.len() {
                return None;
            }
            hops.extend(std::iter::repeat_n(*run, count));
        }
        (hops.len() == packets).then_some(hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_survive_run_lengths() {
        let hops = [0, 3, 3, 3, 0, 0, 3, 3, 3, 0];
        let runs = HopRuns::encode(&hops);
        assert_eq!(runs.0.len(), 5);
        assert_eq!(runs.decode(10), Some(hops.to_vec()));
        assert_eq!(runs.decode(9), None, "too many");
        assert_eq!(runs.decode(11), None, "too few");
        assert_eq!(HopRuns::default().decode(11), Some(Vec::new()));
    }

    #[test]
    fn runs_of_any_length_claim_no_memory() {
        assert_eq!(HopRuns(vec![(1, u32::MAX), (1, u32::MAX)]).decode(10), None);
        assert_eq!(HopRuns(vec![(1, 0); 100]).decode(0), None, "empty runs could be repeated without end");
        assert_eq!(HopRuns(vec![(MAX_HOPS + 1, 2)]).decode(2), None);
    }
}
