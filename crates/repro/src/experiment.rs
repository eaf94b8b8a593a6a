//! The data model of an experiment file.

mod amount;
mod claim;
mod path;
mod stream;

use serde::{Deserialize, Serialize};

pub use amount::{Count, Sweep};
pub use claim::{Claim, Note};
pub use path::Path;
pub(crate) use path::{Cross, GapMechanism, gbps};
pub(crate) use stream::StreamShape;

use crate::study::{self, Study};

/// One experiment of a paper: the streams, the path, and the published results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Paper and number, for example `rapid/B7`; the folder of its file.
    #[serde(skip)]
    pub id: String,
    /// Title of the experiment.
    pub title: String,
    /// Reference to the publication.
    pub source: String,
    /// The published result, in a sentence.
    pub published: String,
    /// What an agreement proves.
    #[serde(default)]
    pub evidence: Evidence,
    /// Differences between simulation and publication that matter for reading the numbers.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The path; omitted in experiments about the sender alone.
    #[serde(default)]
    pub path: Path,
    /// The study to carry out.
    #[serde(deserialize_with = "study::read")]
    pub(crate) study: Box<dyn Study>,
    /// Measured numbers that explain others but were not published.
    #[serde(rename = "note", default)]
    pub notes: Vec<Note>,
    /// The published numbers, each with the band within which a measured number agrees.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// The significance of an agreement between measured and published numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The algorithms ran on a path that was not fitted to the result.
    #[default]
    Simulation,
    /// The models of gap creation were calibrated on these or closely related published numbers.
    Mechanism,
    /// The Linux stack ran instead of the simulator; experiment files cannot declare this.
    #[serde(skip_deserializing)]
    Kernel,
    /// Real packets went over an emulated path; experiment files cannot declare this.
    #[serde(skip_deserializing)]
    Emulation,
}

impl Evidence {
    /// Returns the label that accompanies every output.
    pub const fn label(self) -> &'static str {
        match self {
            Evidence::Simulation => "simulation",
            Evidence::Mechanism => "simulation of a mechanism",
            Evidence::Kernel => "the stack of Linux",
            Evidence::Emulation => "real packets",
        }
    }

    /// Returns the meaning of the label, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Evidence::Simulation => "the path is a model, and no part of it was fitted to this result",
            Evidence::Mechanism => {
                "the gap errors are models calibrated on the published numbers, so agreement checks the models and proves nothing new"
            }
            Evidence::Kernel => {
                "senders, receivers and queues are those of Linux in virtual time, and nothing was fitted to this result"
            }
            Evidence::Emulation => {
                "senders and receivers are this host's TCP in real time over an emulated path, and nothing was fitted to this result"
            }
        }
    }
}
