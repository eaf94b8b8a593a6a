//! What replaces the programs in a build without them.

use std::convert::Infallible;
use std::time::Duration;

use headway_arithmetic::flow::{Key, Rules};

use super::{
    Connection, EdgeCounters, EdgeOptions, Event, Exchange, Marking, Shares, Side, SmallReceiver, Splitting,
    Treatment,
};
use crate::error::Error;

/// Programs at an interface; there are none.
#[derive(Debug)]
pub struct Edge(Infallible);

/// The events of programs; there are none.
#[derive(Debug)]
pub struct Events(Infallible);

impl Events {
    /// Waits for events.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn wait(&self, _timeout: Duration) -> Result<Vec<Event>, Error> {
        match self.0 {}
    }
}

impl Edge {
    /// Says that there are no programs.
    ///
    /// # Errors
    /// Always.
    pub fn start(_sides: [&Side; 2], _options: &EdgeOptions, _rules: &Rules) -> Result<Edge, Error> {
        Err(Error::NotBuilt)
    }

    /// Replaces the rules.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn set_rules(&self, _rules: &Rules) -> Result<(), Error> {
        match self.0 {}
    }

    /// Says that the process lives.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn say(&self, _shares: &Shares, _period: u32, _rules: u32) -> Result<(), Error> {
        match self.0 {}
    }

    /// Opens the events.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn events(&self) -> Result<Events, Error> {
        match self.0 {}
    }

    /// Returns the connections.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn connections(&self) -> Result<Vec<(Key, Connection)>, Error> {
        match self.0 {}
    }

    /// Returns the flows of UDP.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn exchanges(&self) -> Result<Vec<(Key, Exchange)>, Error> {
        match self.0 {}
    }

    /// Removes a flow of UDP.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn remove_exchange(&self, _key: &Key) -> Result<bool, Error> {
        match self.0 {}
    }

    /// Says which packets to mark.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn mark(&self, _marking: &Marking) -> Result<(), Error> {
        match self.0 {}
    }

    /// Says what is done with a flow.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn treat(&self, _number: u64, _treatment: Treatment) -> Result<(), Error> {
        match self.0 {}
    }

    /// Says which connections to split.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn split(&self, _splitting: &Splitting) -> Result<(), Error> {
        match self.0 {}
    }

    /// Says that the next connections of a host are to be split.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn add_small_receiver(&self, _receiver: &SmallReceiver) -> Result<(), Error> {
        match self.0 {}
    }

    /// Takes that back.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn remove_small_receiver(&self, _receiver: &SmallReceiver) -> Result<(), Error> {
        match self.0 {}
    }

    /// Removes a connection.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn remove(&self, _key: &Key) -> Result<bool, Error> {
        match self.0 {}
    }

    /// Returns what has passed.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn counters(&self) -> Result<EdgeCounters, Error> {
        match self.0 {}
    }

    /// Returns the numbers of the programs.
    ///
    /// # Errors
    /// Never, as there are no programs.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        match self.0 {}
    }
}
