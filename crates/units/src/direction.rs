//! The two directions of a path or link.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A direction of a link or path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the link's first node to its second; from the client to the server.
    #[default]
    Forward,
    /// Back.
    Reverse,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        })
    }
}

impl FromStr for Direction {
    type Err = String;
    fn from_str(text: &str) -> Result<Direction, String> {
        match text {
            "forward" => Ok(Direction::Forward),
            "reverse" => Ok(Direction::Reverse),
            other => Err(format!("`{other}` is not `forward` or `reverse`")),
        }
    }
}
