//! Lines of JSON that `headway` prints and `headway-bench` reads.

mod measure;
mod path;

pub use measure::{Direction, MeasureLine, direction_words};
pub use path::{GroupLine, HopLine, MemberLine, PathLine};
