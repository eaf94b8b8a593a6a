//! The wide matrix: networks unlike those of the calibration matrix, drawn from ranges.
//!
//! Classes say what is special about a network; every class has as many cells, each with values of its own. They follow from a
//! seed, so that a change of the simulator can be judged by networks that it was not made for.

use crate::error::Error;
mod class;
mod network;
#[cfg(test)]
mod tests;

use headway_scenario::Change;

use self::class::CLASSES;
use super::cell::Cell;
use crate::draw::Draw;

/// Cells of every class; any range is divided into as many parts, from each of which one cell has its value.
const CELLS: usize = 5;
/// The seed of the matrix that results are written down of.
pub(super) const SEED: u64 = 1;

/// All cells that `seed` gives, or with `quick` one of each class; `set` may change anything but the place in the matrix.
pub(super) fn cells(seed: u64, quick: bool, set: &[Change]) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    for (number, class) in CLASSES.iter().enumerate() {
        // Neighbouring classes have different controllers first.
        let places = if quick { number % CELLS..number % CELLS + 1 } else { 0..CELLS };
        for place in places {
            let network = (class.network)(&mut Draw::new(seed, number, place, CELLS));
            cells.push(network.cell(class.name, set)?);
        }
    }
    Ok(cells)
}
