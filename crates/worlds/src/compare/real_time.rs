//! The matrix for this host's TCP in real time.

use crate::error::Error;
use headway_scenario::{Change, Scenario};
use headway_units::Rate;

use super::cell::{Cell, flows};

/// Rates that the emulator sustains on time even on a busy machine.
const RATES_MBPS: [f64; 2] = [10.0, 100.0];
/// Buffers in bandwidth-delay products.
const BUFFERS: [f64; 3] = [0.5, 1.0, 2.0];

/// Returns all cells: rates, buffers, `reno` and `cubic`, one flow and four, with the delay of the scenario.
pub(super) fn cells(scenario: &Scenario, set: &[Change]) -> Result<Vec<Cell>, Error> {
    let delay = scenario.link.first().map(|link| link.delay).unwrap_or_default();
    let rtt = delay * 2;
    let mut cells = Vec::new();
    for mbps in RATES_MBPS {
        let rate = Rate::from_mbps(mbps);
        for factor in BUFFERS {
            let buffer = rate.bytes_in(rtt.scale(factor)).get();
            for controller in ["reno", "cubic"] {
                for count in [1, 4] {
                    let labels = [
                        controller.to_owned(),
                        format!("{mbps} Mb/s"),
                        format!("{} ms", rtt.ms()),
                        format!("{factor} BDP"),
                        flows(count),
                    ];
                    let mut cell = Cell::new(
                        labels,
                        &[
                            format!("link.0.rate={mbps} Mb/s"),
                            format!("link.0.buffer={buffer} B"),
                            format!("flow.0.controller={controller}"),
                            format!("flow.0.count={count}"),
                        ],
                    )?;
                    cell.changes.splice(0..0, set.iter().cloned());
                    cells.push(cell);
                }
            }
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn there_are_24_cells_and_all_are_scenarios() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml");
        let set = ["warmup=5 s".parse::<Change>().unwrap()];
        let cells = cells(&Scenario::load(&path, &set).unwrap(), &set).unwrap();
        assert_eq!(cells.len(), 24);
        for cell in &cells {
            let scenario = Scenario::load(&path, &cell.changes).unwrap_or_else(|e| panic!("{cell}: {e}"));
            assert_eq!(scenario.warmup.ms(), 5_000.0);
        }
        assert_eq!(cells[23].to_string(), "cubic, 100 Mb/s, 20 ms, 2 BDP, 4 flows");
    }
}
