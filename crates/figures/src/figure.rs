//! The figures of experiments, and their conversion to SVG text.

use crate::boxes::{self, BoxMark};
use crate::curves::{self, Panel};
use crate::error::CannotDraw;
use crate::stacks::{self, StackPanel};

/// A figure in the style of a published one.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Panels of curves, one below the other.
    Curves {
        /// The panels.
        panels: Vec<Panel>,
    },
    /// Panels of stacked bars, in rows.
    Stacks {
        /// Panels, row by row.
        panels: Vec<StackPanel>,
        /// Panels per row.
        columns: usize,
        /// Names of the parts of a bar, from the bottom up; empty when unused.
        names: [&'static str; 4],
        /// Label of the horizontal axis.
        axis: &'static str,
    },
    /// One box per variant: 5th to 95th percentile, quartiles, median.
    Boxes {
        /// Label of the value axis.
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
    /// A figure of panels of curves, one below the other.
    pub fn curves(panels: impl IntoIterator<Item = Panel>) -> Figure {
        Figure::Curves { panels: panels.into_iter().collect() }
    }

    /// Draws the figure as the text of an SVG file.
    ///
    /// # Errors
    /// [`CannotDraw`] when the drawing library fails, for example because no number is finite.
    pub fn svg(&self) -> Result<String, CannotDraw> {
        match self {
            Figure::Curves { panels } => curves::svg(panels),
            Figure::Stacks { panels, columns, names, axis } => stacks::svg(panels, *columns, names, axis),
            Figure::Boxes { axis, marks } => boxes::svg(axis, marks),
        }
    }
}
