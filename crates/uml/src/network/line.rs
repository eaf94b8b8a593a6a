//! Lines of senders that PAUSE frames fill: the module `headway_line` at the first device of each.

use headway_units::{ConfigError, Duration, Rate};

use super::Network;
use crate::plan::PlannedLine;

/// Packets leave this long after TCP has handed them over, as on a host (`headway_net::frames::LATENCY`): gaps
/// up to this are filled, and the RTT is longer by it.
const HELD: Duration = Duration::from_ms(5);
/// The fastest line of the module.
const FASTEST: Rate = Rate::from_bps(10_000_000_000);

impl Network<'_> {
    /// Fills the line of a group of flows, at the first hop of its path.
    pub(super) fn fill_line(
        &mut self,
        group: usize,
        line: Option<Rate>,
        path: &[usize],
    ) -> Result<(), ConfigError> {
        let refuse = |what: &str| Err(ConfigError::new(&format!("flow[{group}].gaps"), what));
        let Some((rate, first)) = line.filter(|rate| *rate <= FASTEST).zip(path.first()) else {
            return refuse("PAUSE frames need a `line` of the flow of at most 10 Gb/s");
        };
        let (hop, largest) = (&self.hops[*first], self.full());
        let lines = &mut self.plan.nodes[hop.node].lines;
        match lines.iter().find(|other| other.device == hop.device) {
            None => {
                let device = hop.device.clone();
                lines.push(PlannedLine { device, rate, held: HELD, largest });
                Ok(())
            }
            Some(other) if other.rate == rate => Ok(()),
            Some(_) => refuse("all flows over a line need the same `line`"),
        }
    }
}
