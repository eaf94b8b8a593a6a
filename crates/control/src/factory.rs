//! Where the controllers of flows come from.

use std::fmt;
use std::sync::Arc;

use super::{AnyController, Controller, Kind, Start};

/// Builds the controllers of flows: one of the table, or a type of the caller's.
#[derive(Clone)]
pub enum Factory {
    /// One of the table.
    Kind(Kind),
    /// One that is not in the table; see [`Factory::new`].
    Other(Arc<Build>),
}

/// Builds a controller that is not in the table.
pub type Build = dyn Fn(&Start) -> Box<dyn Controller + Send> + Send + Sync;

impl Factory {
    /// A factory of controllers that are not in the table: `Factory::new(MyController::new)`.
    pub fn new<C: Controller + Send + 'static>(
        build: impl Fn(&Start) -> C + Send + Sync + 'static,
    ) -> Factory {
        Factory::Other(Arc::new(move |start| Box::new(build(start))))
    }

    /// Whether routers tell the controller its rate: whether it [needs a header](super::Needs::header).
    pub fn is_explicit(&self) -> bool {
        self.build(&Start::EXAMPLE).needs().header
    }

    /// Builds the controller of a flow.
    pub fn build(&self, start: &Start) -> AnyController {
        match self {
            Factory::Kind(kind) => kind.build(start),
            Factory::Other(build) => AnyController::Other(build(start)),
        }
    }
}

impl From<Kind> for Factory {
    fn from(kind: Kind) -> Factory {
        Factory::Kind(kind)
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factory::Kind(kind) => kind.fmt(f),
            Factory::Other(_) => f.write_str("a controller that is not in the table"),
        }
    }
}
