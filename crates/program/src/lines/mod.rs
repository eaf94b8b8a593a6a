//! Lines of JSON that `headway` prints and `headway-bench` reads.

mod measure;
mod path;

pub use measure::{Direction, MeasureLine};
pub use path::{GroupLine, HopLine, MemberLine, PathLine};
