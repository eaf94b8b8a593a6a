//! What a figure of an experiment shows, and how it becomes SVG text.

use crate::boxes::{self, BoxMark};
use crate::curves::{self, Panel};
use crate::error::CannotDraw;
use crate::stacks::{self, StackPanel};

/// A figure in the style of the published one.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Panels of curves, one below the other.
    Curves {
        /// The panels.
        panels: Vec<Panel>,
    },
    /// Panels of stacked bars, in rows.
    Stacks {
        /// The panels, row by row.
        panels: Vec<StackPanel>,
        /// Panels in a row.
        columns: usize,
        /// What the parts of a bar are, from the bottom up; unused ones are empty.
        names: [&'static str; 4],
        /// What the bars are.
        axis: &'static str,
    },
    /// One box a variant: 5th to 95th percentile, quartiles, median.
    Boxes {
        /// What the axis shows.
        axis: String,
        /// The boxes.
        marks: Vec<BoxMark>,
    },
}

impl Default for Figure {
    fn default() -> Figure {
        Figure::Curves { panels: Vec::new() }
    }
}

impl Figure {
    /// Panels of curves, one below the other.
    pub fn curves(panels: impl IntoIterator<Item = Panel>) -> Figure {
        Figure::Curves { panels: panels.into_iter().collect() }
    }

    /// The figure as the text of an SVG file.
    ///
    /// # Errors
    /// [`CannotDraw`] when the drawing library refuses, for instance because no number is finite.
    pub fn svg(&self) -> Result<String, CannotDraw> {
        match self {
            Figure::Curves { panels } => curves::svg(panels),
            Figure::Stacks { panels, columns, names, axis } => stacks::svg(panels, *columns, names, axis),
            Figure::Boxes { axis, marks } => boxes::svg(axis, marks),
        }
    }
}
