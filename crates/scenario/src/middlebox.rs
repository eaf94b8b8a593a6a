//! Middleboxes on the paths of flows.

use headway_edge::{Class, Policy, Ports};
use headway_units::config_error::check;
use headway_units::{ConfigError, Rate, share};
use serde::{Deserialize, Serialize};

use crate::check::{RATE_RULE, in_range};
use crate::model::Scenario;
use crate::route::Topology;

/// The port that flows of the first group are connected to, for the conditions of classes; each further group has the next one.
const FIRST_PORT: u16 = 5001;

/// A middlebox at a node, between the link to one of its neighbours and all else.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MiddleboxSpec {
    /// The node.
    pub at: String,
    /// What it does.
    pub kind: MiddleboxKind,
    /// The neighbour at the other end of the link that flows share.
    pub wan: String,
    /// The rate from there that flows share. Windows count payload, so it is that of payload, too.
    pub rate: Rate,
    /// The rate towards there; default `rate`.
    pub up: Option<Rate>,
    /// What windows are multiplied with; default 1 (wan 2.2).
    #[serde(default = "one")]
    pub delta: f64,
    /// Whether classes with connections share what classes without any do not use; default no.
    #[serde(default)]
    pub borrow_idle: bool,
    /// Whether a sequence number that an end allowed stays allowed; default no (wan 2.3).
    #[serde(default)]
    pub no_shrink: bool,
    /// Whether the RTT of connections is measured again and again, and not only in their handshake; default yes.
    #[serde(default = "yes")]
    pub follow_rtt: bool,
    /// Whether windows follow what is free on the path, where that is less than `rate`; default no (wan 2.2).
    #[serde(default)]
    pub follow_available: bool,
    /// Whether the rate of the link is found by the queue that flows make in it; `rate` and `up` are then the most that it could have.
    /// Default no.
    #[serde(default)]
    pub find_rate: bool,
    /// Whether connections count by what they use of their shares; default no: by their number (wan 2.2). `find_rate` includes it.
    #[serde(default)]
    pub by_use: bool,
    /// Whether it is noted what would be done with each flow, and why; default no (wan 2.20). It changes no window.
    #[serde(default)]
    pub decide: bool,
    /// Whether windows are computed as Algorithm 1 prints it; default no (wan 2.2).
    #[serde(default)]
    pub literal: bool,
    /// The classes; a connection is of the first one that has it, and of none passes unchanged. Default: one of all.
    #[serde(default)]
    pub class: Vec<MiddleboxClass>,
}

/// What a middlebox does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MiddleboxKind {
    /// It lowers windows in ACKs, so that connections share a link without a queue (wan 2.1 to 2.3).
    ReceiveWindow,
}

/// How a middlebox divides a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// By the number of connections (wan 2.2).
    #[default]
    ByNumber,
    /// By what connections use of their shares.
    ByUse,
    /// The same, of a rate that it finds.
    FoundRate,
}

/// A class of connections at a middlebox.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MiddleboxClass {
    /// The name.
    pub name: String,
    /// Its share of the link: above 0, at most 1.
    #[serde(deserialize_with = "share::deserialize")]
    pub share: f64,
    /// Names of groups of flows; default all.
    #[serde(default)]
    pub flows: Vec<String>,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl MiddleboxSpec {
    /// Returns how it knows what connections are to share.
    pub const fn sharing(&self) -> Sharing {
        match (self.find_rate, self.by_use) {
            (true, _) => Sharing::FoundRate,
            (false, true) => Sharing::ByUse,
            (false, false) => Sharing::ByNumber,
        }
    }

    /// Returns the port that flows of a group, counted from 0, are connected to, as the policy has it.
    pub fn port(group: usize) -> u16 {
        FIRST_PORT.saturating_add(u16::try_from(group).unwrap_or(u16::MAX))
    }

    /// Returns the policy, whose classes know groups of flows by their ports.
    pub fn policy(&self, scenario: &Scenario) -> Policy {
        let default = Policy::default();
        let policy = Policy {
            delta: self.delta,
            borrow_idle: self.borrow_idle,
            no_shrink: self.no_shrink,
            follow_rtt: self.follow_rtt,
            literal: self.literal,
            ..default
        };
        if self.class.is_empty() {
            return policy;
        }
        let class = self.class.iter().map(|class| Class {
            name: class.name.clone(),
            share: class.share,
            priority: false,
            ceiling: None,
            split: None,
            ports: class.ports(scenario),
            prefixes: Vec::new(),
            dscp: Vec::new(),
        });
        Policy { class: class.collect(), ..policy }
    }

    /// Returns the rates of the link towards the two sides, that of the neighbour last.
    pub fn capacity(&self) -> [Rate; 2] {
        [self.rate, self.up.unwrap_or(self.rate)]
    }
}

impl MiddleboxClass {
    fn ports(&self, scenario: &Scenario) -> Vec<Ports> {
        let groups =
            scenario.flow.iter().enumerate().filter(|(_, flow)| self.flows.contains(&flow.group_name()));
        groups.map(|(group, _)| Ports::from(MiddleboxSpec::port(group))).collect()
    }
}

/// Checks all middleboxes.
pub(crate) fn check_middleboxes(topology: &Topology, scenario: &Scenario) -> Result<(), ConfigError> {
    for (index, middlebox) in scenario.middlebox.iter().enumerate() {
        let key = |key: &str| format!("middlebox[{index}].{key}");
        let (at, wan) = (&middlebox.at, &middlebox.wan);
        check(&key("at"), topology.has(at), &format!("`{at}` is not one of the nodes"))?;
        let twice = scenario.middlebox[..index].iter().any(|other| other.at == *at);
        check(&key("at"), !twice, &format!("there is one at `{at}` already"))?;
        let rule =
            format!("`{wan}` is no neighbour of `{at}`: name the node at the other end of the shared link");
        check(&key("wan"), topology.are_neighbours(at, wan), &rule)?;
        check(&key("rate"), in_range(middlebox.rate), RATE_RULE)?;
        check(&key("up"), middlebox.up.is_none_or(in_range), RATE_RULE)?;
        for (number, class) in middlebox.class.iter().enumerate() {
            for name in &class.flows {
                let known = scenario.flow.iter().any(|flow| flow.group_name() == *name);
                check(&key(&format!("class[{number}].flows")), known, &format!("there is no flow `{name}`"))?;
            }
        }
        let checked = middlebox.policy(scenario).check();
        checked
            .map_err(|mistake| ConfigError::new(&key(mistake.key().unwrap_or("class")), mistake.message()))?;
        let has_rtts = !middlebox.follow_available || middlebox.policy(scenario).follows_rtt();
        let rule = "needs RTTs that are followed; leave out `literal` and `follow-rtt = false`";
        check(&key("follow-available"), has_rtts, rule)?;
        for (name, used) in [("find-rate", middlebox.find_rate), ("by-use", middlebox.by_use)] {
            let has_rtts = !used || middlebox.policy(scenario).follows_rtt();
            check(&key(name), has_rtts, rule)?;
            let is_one = !(used && middlebox.follow_available);
            let both = "sets what is shared, as `follow-available` does; leave out one of both";
            check(&key(name), is_one, both)?;
        }
    }
    Ok(())
}
