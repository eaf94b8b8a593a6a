//! The wide matrix: networks that differ from those of the calibration matrix, drawn from ranges.
//!
//! A class defines what is special about its networks; all classes have the same number of cells, with
//! parameters drawn for each. They depend on a seed, so a change of the simulator can be judged on networks
//! that it was not tuned for.

use crate::error::Error;
mod class;
mod network;
#[cfg(test)]
mod tests;

use headway_scenario::Change;

use self::class::CLASSES;
use super::cell::Cell;
use crate::draw::Draw;

/// Cells per class; each range is divided into this many parts, and each cell draws from a different part.
const CELLS: usize = 5;
/// Seed of the published results.
pub(super) const SEED: u64 = 1;

/// Returns all cells for `seed`, or with `quick` one of each class; `set` may change anything but the cell's
/// parameters.
pub(super) fn cells(seed: u64, quick: bool, set: &[Change]) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    for (number, class) in CLASSES.iter().enumerate() {
        // With `quick`, neighbouring classes take different places, so that controllers differ.
        let places = if quick { number % CELLS..number % CELLS + 1 } else { 0..CELLS };
        for place in places {
            let network = (class.network)(&mut Draw::new(seed, number, place, CELLS));
            cells.push(network.cell(class.name, set)?);
        }
    }
    Ok(cells)
}
