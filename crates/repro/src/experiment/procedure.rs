//! Four flows that share a narrow link with explicit congestion control: what runs, and what is drawn.

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_queue::QueueSpec;
use headway_traffic::channel::{Outages, Redrawn};
use headway_units::Rate;
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`Study::Procedure`](super::Study::Procedure).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Procedure {
    /// What runs, by the name with which its measures begin.
    pub variants: BTreeMap<String, Router>,
    /// Runs of each variant, with different seeds; the median is reported.
    pub runs: Count,
    /// Runs in real time, in the lab; absent where the experiment runs in the simulator only.
    pub lab_runs: Option<Count>,
    /// Comparisons of variants run by run, in the syntax of a claim; the seed gives both the same capacities. Their
    /// measures begin with `paired`.
    #[serde(default)]
    pub paired: BTreeMap<String, String>,
    /// The time that the figure shows, in seconds.
    pub window: (f64, f64),
    /// What the figure shows, from top to bottom.
    pub draw: Vec<Drawn>,
}

/// A router with its senders and its link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// The queue of the narrow link.
    pub queue: QueueSpec,
    /// The controller of all senders.
    pub controller: Kind,
    /// The rate of the interface that the router knows, if not that of the link.
    pub line: Option<Rate>,
    /// The rate at which the application of the first flow writes, if not at once.
    pub application: Option<Rate>,
    /// How the capacity changes; absent where it does not.
    pub redrawn: Option<Redrawn>,
    /// When the narrow link transmits nothing; absent where it always does.
    pub outages: Option<Outages>,
    /// Share of the packets that the narrow link loses.
    #[serde(default)]
    pub loss: f64,
}

/// What a figure can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Window over RTT of every flow, a panel for each variant.
    Rates,
    /// Queue, its average and its target, a panel for each variant.
    Queue,
    /// The queue, all variants together.
    Queues,
    /// The rate that RCP's router announces, all variants together.
    Announced,
    /// The error of the capacity that ErrorS found, all variants together.
    Error,
    /// Jain's index, all variants together.
    Fairness,
    /// What the third flow has delivered, all variants together.
    Delivered,
}
