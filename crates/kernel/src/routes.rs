//! Routes whose timestamps a receiver for TCP Rapid makes microseconds, until it ends.

use headway_telemetry::route::Route;
use serde::{Deserialize, Serialize};

use crate::default::Namespace;
use crate::error::Error;

/// The routes of a network namespace that an instance has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedRoutes {
    /// Where they are.
    pub namespace: Namespace,
    /// Their destinations.
    pub routes: Vec<String>,
    /// The name of the instance.
    pub by: String,
}

impl ChangedRoutes {
    /// Finds the routes of this thread's network namespace whose timestamps are no microseconds yet.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn here(by: &str) -> Result<ChangedRoutes, Error> {
        let mut routes = Route::all().map_err(Error::Routes)?;
        routes.retain(|route| !route.has_microseconds());
        Ok(ChangedRoutes {
            namespace: Namespace::here()?,
            routes: routes.iter().map(Route::to_string).collect(),
            by: by.to_owned(),
        })
    }

    /// Makes the timestamps of new connections over the routes microseconds; they are in this
    /// thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses; the routes are then as before.
    pub fn change(&self) -> Result<(), Error> {
        self.set(true).inspect_err(|_| {
            // Report the first error.
            let _ = self.restore();
        })
    }

    /// Gives new connections over those routes that are still there the ordinary timestamps.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&self) -> Result<(), Error> {
        self.set(false)
    }

    fn set(&self, on: bool) -> Result<(), Error> {
        let mut routes = Route::all().map_err(Error::Routes)?;
        routes.retain(|route| route.has_microseconds() != on && self.routes.contains(&route.to_string()));
        routes.iter().try_for_each(|route| route.set_microseconds(on)).map_err(Error::Routes)
    }
}
