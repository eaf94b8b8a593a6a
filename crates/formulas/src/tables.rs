//! The tables of fair windows in the LS-AIMD thesis (ls-aimd 4.6, F58).

use headway_units::{Bytes, Duration, Rate};

use crate::SharedLink;

/// A table of the thesis: fair windows for combinations of number of flows, rate and RTT.
#[derive(Clone, Copy, Debug)]
pub struct WindowTable {
    /// Its name in the specification.
    pub name: &'static str,
    /// Its subject.
    pub title: &'static str,
    /// Size of a full segment on the link, in bytes.
    pub frame: u64,
    /// Numbers of flows.
    pub flows: &'static [u32],
    /// Link rates, in Mb/s.
    pub mbps: &'static [u64],
    /// RTTs, in us.
    pub rtts: &'static [i64],
    /// Whether the second decimal is rounded down (1.647 is 1.64) and not to the nearest (0.257 is 0.26).
    pub truncated: bool,
}

/// All tables.
pub const WINDOW_TABLES: [WindowTable; 4] = [
    WindowTable {
        name: "Q0",
        title: "rate and window",
        frame: 1518,
        flows: &[1, 5, 10],
        mbps: &[5, 10, 20],
        rtts: &[1000, 2000, 5000, 10_000],
        truncated: true,
    },
    WindowTable {
        name: "Q1",
        title: "data centre",
        frame: 9018,
        flows: &[4],
        mbps: &[1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000],
        rtts: &[10, 20, 50, 100, 200, 300, 400],
        truncated: false,
    },
    WindowTable {
        name: "Q2",
        title: "broadband",
        frame: 1518,
        flows: &[128],
        mbps: &[10, 20, 50, 100, 200, 300, 400],
        rtts: &[1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000],
        truncated: false,
    },
    WindowTable {
        name: "Q3",
        title: "processes on one host",
        frame: 65_536,
        flows: &[2],
        mbps: &[10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 400_000],
        rtts: &[1, 2, 5, 10, 20, 30, 40],
        truncated: false,
    },
];

impl WindowTable {
    /// Iterates over the rows: links with a number of flows and a rate, one for each RTT.
    pub fn rows(&self) -> impl Iterator<Item = Vec<SharedLink>> {
        let rates = |flows: u32| self.mbps.iter().map(move |mbps| (flows, *mbps));
        self.flows.iter().copied().flat_map(rates).map(|(flows, mbps)| {
            let link = |rtt: &i64| SharedLink {
                rate: Rate::from_bps(mbps * 1_000_000),
                rtt: Duration::from_us(*rtt),
                flows,
                frame: Bytes::new(self.frame),
            };
            self.rtts.iter().map(link).collect()
        })
    }

    /// Returns the fair window in segments as the thesis prints it, with two decimals.
    pub fn window(&self, link: &SharedLink) -> String {
        let hundredths = link.window() * 100.0;
        let rounded = if self.truncated { hundredths.floor() } else { hundredths.round() };
        format!("{:.2}", rounded / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a cell by its number of flows, rate in Mb/s and RTT in us.
    fn cell(name: &str, flows: u32, mbps: u64, rtt: i64) -> (SharedLink, String) {
        let table = WINDOW_TABLES.iter().find(|table| table.name == name).expect("a table");
        let is_cell = |link: &SharedLink| {
            (link.flows, link.rate, link.rtt)
                == (flows, Rate::from_bps(mbps * 1_000_000), Duration::from_us(rtt))
        };
        let link = table.rows().flatten().find(is_cell).expect("a cell");
        (link, table.window(&link))
    }

    /// The check values of ls-aimd 4.6.
    #[test]
    fn windows_are_printed_as_in_the_thesis() {
        let window = |name, flows, mbps, rtt| cell(name, flows, mbps, rtt).1;
        assert_eq!(window("Q0", 1, 5, 1000), "0.41");
        assert_eq!(window("Q0", 10, 20, 10_000), "1.64");
        assert_eq!(window("Q1", 4, 40_000, 10), "1.39");
        assert_eq!(window("Q1", 4, 1000, 10), "0.03");
        assert_eq!(window("Q1", 4, 40_000, 400), "55.44");
        assert_eq!(window("Q2", 128, 400, 1000), "0.26");
        assert_eq!(window("Q2", 128, 400, 40_000), "10.29");
        assert_eq!(window("Q3", 2, 400_000, 1), "0.38");
        assert_eq!(window("Q3", 2, 400_000, 40), "15.26");
    }

    #[test]
    fn the_first_table_is_also_of_bits_per_round_trip() {
        let bits = |flows, mbps, rtt| cell("Q0", flows, mbps, rtt).0.fair_bits();
        assert_eq!((bits(1, 5, 1000), bits(10, 20, 10_000)), (5000.0, 20_000.0));
    }
}
