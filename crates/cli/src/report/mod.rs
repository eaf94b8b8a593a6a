//! Pictures and pages.

pub(crate) mod chart;
pub(crate) mod page;
