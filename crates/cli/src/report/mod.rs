//! Pictures and pages.

pub(crate) mod chart;
pub(crate) mod dots;
pub(crate) mod page;
pub(crate) mod reliability;
