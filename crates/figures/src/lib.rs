//! Figures as stand-alone SVG text, and HTML pages that hold them. The reports of all commands share its axes
//! and legends.

mod boxes;
mod chart;
mod curves;
pub mod dots;
mod error;
mod figure;
pub mod page;
mod reliability;
mod stacks;
mod style;

pub use boxes::BoxMark;
pub use chart::{GapSeries, MAX_CURVES, Mark, Points, Row, gaps, methods, steps, truth_and_estimates};
pub use curves::{Curve, Panel};
pub use error::CannotDraw;
pub use figure::Figure;
pub use reliability::{Line, diagram};
pub use stacks::{Stack, StackPanel};
