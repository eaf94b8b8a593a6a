//! What was sent to measure paths, and what they carried, for whoever keeps it longer than a selector lives.

use headway_units::{Bytes, Instant};

use crate::selector::Selector;

/// What was sent to measure a path: when parts of it ended, the oldest first, and their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// Within an hour.
    pub hour: Vec<(Instant, Bytes)>,
    /// Within 30 days, if that is limited.
    pub month: Vec<(Instant, Bytes)>,
    /// What its interface has carried within 30 days, if that is limited.
    pub carried: Vec<(Instant, Bytes)>,
}

impl Selector {
    /// Returns what was sent to measure a path, as far as it counts.
    pub fn spending(&self, path: usize) -> Spending {
        let Some(path) = self.paths.get(path) else { return Spending::default() };
        Spending {
            hour: path.purse.hour.parts().collect(),
            month: path.purse.month.iter().flat_map(|month| month.parts()).collect(),
            carried: path.wished.quota.iter().flat_map(|quota| quota.parts()).collect(),
        }
    }

    /// Takes what was sent by another selector. To be called before anything else; times
    /// are by the same clock.
    pub fn restore(&mut self, path: usize, spending: &Spending) {
        let Some(path) = self.paths.get_mut(path) else { return };
        spending.hour.iter().for_each(|(end, bytes)| path.purse.hour.spend(*end, *bytes));
        if let Some(month) = &mut path.purse.month {
            spending.month.iter().for_each(|(end, bytes)| month.spend(*end, *bytes));
        }
        if let Some(quota) = &mut path.wished.quota {
            spending.carried.iter().for_each(|(end, bytes)| quota.spend(*end, *bytes));
        }
    }
}
