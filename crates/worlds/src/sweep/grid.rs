//! The cells of a sweep.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use headway_scenario::{Change, Scenario, World};

use super::file::{self, Axis, Override, Point};
use super::job::Job;
use crate::error::{Error, bail};
use crate::kept::Key;

/// Largest number of cells, all of which are kept in memory with their results: about 1 GB.
const MOST_CELLS: usize = 100_000;

/// A sweep, as its file describes it.
#[derive(Debug)]
pub struct Sweep {
    /// The file.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
    /// The world in which the cells run.
    pub world: World,
    /// The scenario file.
    pub scenario: PathBuf,
    /// The text of the scenario file.
    pub scenario_text: String,
    /// Which columns of the results to show, each a name or the beginning of one, with `*` for
    /// any part; all if empty.
    pub columns: Vec<String>,
    axes: Vec<Axis>,
    cells: Vec<Cell>,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The values of the dimensions, in their order.
    pub values: Vec<String>,
    /// All overrides of the scenario, as in `--set`.
    pub set: Vec<String>,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Sweep {
    /// Reads a file and its scenario, and checks every value of every dimension, each together with the first
    /// values of the others.
    ///
    /// # Errors
    /// Names the file, the line and the key that is wrong.
    pub fn load(path: &Path) -> Result<Sweep, Error> {
        let text = headway_input::text(path, headway_input::SCENARIO)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Sweep::parse(&text, path)
    }

    /// Reads the text of a file; the scenario is looked for in the folder of `path`.
    ///
    /// # Errors
    /// As for [`Sweep::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Sweep, Error> {
        let file = file::read(text, path).map_err(headway_scenario::Error::from)?;
        let scenario = path.parent().unwrap_or(Path::new("")).join(&file.scenario);
        let scenario_text = headway_input::text(&scenario, headway_input::SCENARIO)
            .with_context(|| format!("{}: `scenario`: cannot read {}", path.display(), scenario.display()))?;
        let mut sweep = Sweep {
            path: path.to_owned(),
            text: text.to_owned(),
            world: file.world,
            scenario,
            scenario_text,
            columns: file.columns,
            axes: file.axes,
            cells: Vec::new(),
        };
        let first = sweep.check()?;
        sweep.cells = sweep.grid(&file.seeds.unwrap_or_else(|| vec![first.seed]))?;
        Ok(sweep)
    }

    /// Returns the cells in the order of the results: the last dimension changes fastest,
    /// the seeds faster still.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the names of the dimensions.
    pub fn dimensions(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().filter(|axis| axis.varies).map(|axis| axis.name.as_str())
    }

    /// Returns all that determines the result of a cell.
    pub fn job(&self, cell: &Cell) -> Job {
        let key = Key {
            world: self.world.name().to_owned(),
            scenario: self.scenario_text.clone(),
            set: cell.set.clone(),
            seed: cell.seed,
        };
        Job { key, path: self.scenario.clone() }
    }

    /// Describes a cell: its values, and its seed.
    pub fn describe(&self, cell: &Cell) -> impl fmt::Display {
        let values = self.dimensions().zip(&cell.values);
        let text: String = values.map(|(name, value)| format!("{name} = {value}, ")).collect();
        format!("{text}seed {}", cell.seed)
    }

    /// Checks every value beside the first ones of the other dimensions; returns the scenario
    /// with all first values.
    fn check(&self) -> Result<Scenario, Error> {
        let first: Vec<&Point> = self.axes.iter().map(|axis| &axis.points[0]).collect();
        let scenario = self.scenario(&first)?;
        for (number, axis) in self.axes.iter().enumerate() {
            for point in &axis.points[1..] {
                let mut points = first.clone();
                points[number] = point;
                self.scenario(&points)?;
            }
        }
        Ok(scenario)
    }

    /// Reads the scenario with the overrides of some points. A mistake that an override makes is located in
    /// the file of the sweep; one that comes from several together, in the scenario.
    fn scenario(&self, points: &[&Point]) -> Result<Scenario, Error> {
        let overrides: Vec<&Override> = points.iter().flat_map(|point| &point.overrides).collect();
        let changes: Vec<_> = overrides.iter().map(|one| one.change.clone()).collect();
        let by = |is_it: &dyn Fn(&Change) -> bool| overrides.iter().rev().find(|one| is_it(&one.change));
        let scenario = match Scenario::parse(&self.scenario_text, &self.scenario, &changes) {
            Err(headway_scenario::Error::Change { change, reason }) => {
                let found = by(&|one| one.to_string() == change);
                return Err(found
                    .map_or_else(|| Error::other(&reason), |one| config(one.refused(&self.path, &reason))));
            }
            read => read?,
        };
        scenario.check_world(self.world).map_err(|mistake| {
            match by(&|one| mistake.key() == Some(one.key().as_str())) {
                Some(one) => config(one.refused(&self.path, mistake.message())),
                None => config(scenario.locate(mistake)),
            }
        })?;
        Ok(scenario)
    }

    fn grid(&self, seeds: &[u64]) -> Result<Vec<Cell>, Error> {
        let counts = self.axes.iter().map(|axis| axis.points.len()).chain([seeds.len()]);
        let count = counts.into_iter().try_fold(1_usize, usize::checked_mul);
        let Some(count) = count.filter(|count| *count <= MOST_CELLS) else {
            bail!("{}: the sweep has more than {MOST_CELLS} cells", self.path.display());
        };
        Ok((0..count).map(|number| self.cell(number, seeds)).collect())
    }

    /// Returns the cell with a number.
    fn cell(&self, number: usize, seeds: &[u64]) -> Cell {
        let seed = seeds[number % seeds.len()];
        let mut rest = number / seeds.len();
        let mut points = Vec::new();
        for axis in self.axes.iter().rev() {
            points.push((axis, &axis.points[rest % axis.points.len()]));
            rest /= axis.points.len();
        }
        points.reverse();
        let overrides = points.iter().flat_map(|(_, point)| &point.overrides);
        Cell {
            set: overrides.map(|one| one.change.to_string()).collect(),
            values: points
                .iter()
                .filter(|(axis, _)| axis.varies)
                .map(|(_, point)| point.label.clone())
                .collect(),
            seed,
        }
    }
}

fn config(error: headway_units::ConfigError) -> Error {
    Error::Scenario(error.into())
}
