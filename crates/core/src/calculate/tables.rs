//! The tables of fair windows printed in the thesis (ls-aimd 4.6, F58).

use super::shared_link::SharedLink;
use crate::units::{Bytes, Duration, Rate};

/// Rounding of the second decimal in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds down: 1.647 is 1.64.
    Down,
    /// Rounds to the nearest: 0.257 is 0.26.
    Nearest,
}

/// A table of the thesis: windows for combinations of number of flows, rate and RTT.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its name in the specification.
    pub name: &'static str,
    /// Its subject.
    pub title: &'static str,
    /// Bytes of a full segment on the link.
    pub frame: u64,
    /// Numbers of flows.
    pub flows: &'static [u32],
    /// Link rates, in Mb/s.
    pub mbps: &'static [u64],
    /// Round-trip times, in us.
    pub rtts: &'static [i64],
    /// Rounding of its numbers.
    pub rounding: Rounding,
}

/// All tables.
pub const TABLES: [Published; 4] = [
    Published {
        name: "Q0",
        title: "rate and window",
        frame: 1518,
        flows: &[1, 5, 10],
        mbps: &[5, 10, 20],
        rtts: &[1000, 2000, 5000, 10_000],
        rounding: Rounding::Down,
    },
    Published {
        name: "Q1",
        title: "data centre, 4 senders",
        frame: 9018,
        flows: &[4],
        mbps: &[1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000],
        rtts: &[10, 20, 50, 100, 200, 300, 400],
        rounding: Rounding::Nearest,
    },
    Published {
        name: "Q2",
        title: "broadband, 128 senders",
        frame: 1518,
        flows: &[128],
        mbps: &[10, 20, 50, 100, 200, 300, 400],
        rtts: &[1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000],
        rounding: Rounding::Nearest,
    },
    Published {
        name: "Q3",
        title: "between processes on one host, 2 senders, segments of 64 KiB",
        frame: 65_536,
        flows: &[2],
        mbps: &[10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 400_000],
        rtts: &[1, 2, 5, 10, 20, 30, 40],
        rounding: Rounding::Nearest,
    },
];

impl Published {
    /// Returns the flows, link and RTT of a cell.
    pub fn shared_link(&self, flows: u32, mbps: u64, rtt: i64) -> SharedLink {
        SharedLink {
            rate: Rate::from_bps(mbps * 1_000_000),
            rtt: Duration::from_us(rtt),
            flows,
            frame: Bytes::new(self.frame),
        }
    }

    /// Returns the window in segments as the table prints it, with two decimals.
    pub fn window(&self, share: &SharedLink) -> String {
        let hundredths = share.hundredths(self.rounding == Rounding::Nearest);
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, flows: u32, mbps: u64, rtt: i64) -> String {
        let table = TABLES.iter().find(|table| table.name == name).expect("a table");
        assert!(table.flows.contains(&flows) && table.mbps.contains(&mbps) && table.rtts.contains(&rtt));
        table.window(&table.shared_link(flows, mbps, rtt))
    }

    #[test]
    fn windows_are_those_of_the_thesis() {
        assert_eq!(cell("Q0", 1, 5, 1000), "0.41");
        assert_eq!(cell("Q0", 10, 20, 10_000), "1.64");
        assert_eq!(cell("Q1", 4, 40_000, 10), "1.39");
        assert_eq!(cell("Q1", 4, 1000, 10), "0.03");
        assert_eq!(cell("Q1", 4, 40_000, 400), "55.44");
        assert_eq!(cell("Q2", 128, 400, 1000), "0.26");
        assert_eq!(cell("Q2", 128, 400, 40_000), "10.29");
        assert_eq!(cell("Q3", 2, 400_000, 1), "0.38");
        assert_eq!(cell("Q3", 2, 400_000, 40), "15.26");
    }

    #[test]
    fn the_first_table_has_bits_a_round_trip_as_well() {
        let bits = |flows, mbps, rtt| {
            let share = TABLES[0].shared_link(flows, mbps, rtt);
            share.bits() / f64::from(flows)
        };
        assert_eq!((bits(1, 5, 1000), bits(10, 20, 10_000)), (5000.0, 20_000.0));
    }
}
