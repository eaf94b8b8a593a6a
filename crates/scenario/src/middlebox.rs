//! Middleboxes on the paths of flows.

use std::fmt;
use std::path::{Path, PathBuf};

use headway_edge::{Class, Policy, Ports};
use headway_units::config_error::check;
use headway_units::{ConfigError, Rate, share};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::check::{RATE_RULE, in_range};
use crate::model::Scenario;
use crate::route::Topology;

/// The port that flows of the first group are connected to, for the conditions of classes; each further group
/// has the next one.
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
    /// The rate from there; default: found from the queue that flows make.
    pub rate: Option<Rate>,
    /// The rate towards there; default `rate`.
    pub up: Option<Rate>,
    /// The node of the middlebox at the other end of the link, with which it shares that by one allotment;
    /// that one names this one. Both know the rate. Default: none.
    pub peer: Option<String>,
    /// How flows share it: the keys of a policy, or a file with them; default that of `headway edge`.
    #[serde(default)]
    pub policy: PolicySource,
    /// Classes: a connection belongs to the first that matches, and passes unchanged if none does; default
    /// one of all.
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

/// Where a middlebox has its policy from.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySource {
    /// From a file, which is not read yet.
    File(PathBuf),
    /// From the scenario, or from a file that was read.
    Known(Policy),
}

impl Default for PolicySource {
    fn default() -> PolicySource {
        PolicySource::Known(Policy::default())
    }
}

impl<'de> Deserialize<'de> for PolicySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PolicySource, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PolicySource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the keys of a policy, or the name of a file with them")
            }

            fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<PolicySource, E> {
                Ok(PolicySource::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PolicySource, A::Error> {
                Policy::deserialize(MapAccessDeserializer::new(map)).map(PolicySource::Known)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl PolicySource {
    /// Returns the file that is not read yet, if there is one.
    pub(crate) fn unread(&self) -> Option<&Path> {
        match self {
            PolicySource::File(path) => Some(path),
            PolicySource::Known(_) => None,
        }
    }

    /// Reads the file, if there is one, from a folder; `key` is named in errors.
    pub(crate) fn load(&mut self, folder: &Path, key: &str) -> Result<(), ConfigError> {
        let PolicySource::File(path) = self else { return Ok(()) };
        let path = folder.join(path);
        let text = headway_input::text(&path, headway_input::SCENARIO);
        let text =
            text.map_err(|error| ConfigError::new(key, &format!("cannot read {}: {error}", path.display())))?;
        *self = PolicySource::Known(Policy::parse(&text, &path)?);
        Ok(())
    }
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

impl MiddleboxSpec {
    /// Returns the port that flows of a group, counted from 0, are connected to, as the policy has it.
    pub fn port(group: usize) -> u16 {
        FIRST_PORT.saturating_add(u16::try_from(group).unwrap_or(u16::MAX))
    }

    /// Returns the policy, whose classes know groups of flows by their ports.
    pub fn policy(&self, scenario: &Scenario) -> Policy {
        let policy = match &self.policy {
            PolicySource::Known(policy) => policy.clone(),
            PolicySource::File(_) => Policy::default(),
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

    /// Returns the rates of the link towards the two sides, that of the neighbour last; none where they are
    /// to be found.
    pub fn rates(&self) -> Option<[Rate; 2]> {
        self.rate.map(|rate| [rate, self.up.unwrap_or(rate)])
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
        check(&key("rate"), middlebox.rate.is_none_or(in_range), RATE_RULE)?;
        check(
            &key("up"),
            middlebox.up.is_none() || middlebox.rate.is_some(),
            "needs `rate`; leave out both, and they are found",
        )?;
        check(&key("up"), middlebox.up.is_none_or(in_range), RATE_RULE)?;
        for (number, class) in middlebox.class.iter().enumerate() {
            for name in &class.flows {
                let known = scenario.flow.iter().any(|flow| flow.group_name() == *name);
                check(&key(&format!("class[{number}].flows")), known, &format!("there is no flow `{name}`"))?;
            }
        }
        let policy = middlebox.policy(scenario);
        policy.check().map_err(|mistake| {
            let at = mistake.key().unwrap_or("class");
            let at = if at.starts_with("class[") { at.to_owned() } else { format!("policy.{at}") };
            ConfigError::new(&key(&at), mistake.message())
        })?;
        if let Some(peer) = &middlebox.peer {
            let mut others = scenario.middlebox.iter();
            let names = others.any(|other| other.at == *peer && other.peer.as_ref() == Some(at));
            let rule = format!("there must be a middlebox at `{peer}` that has `peer = \"{at}\"`");
            check(&key("peer"), names && peer != at, &rule)?;
            let is_known = middlebox.rate.is_some() && policy.follows_rtt();
            check(
                &key("peer"),
                is_known,
                "needs `rate`, and a policy that follows RTTs and does not share by number",
            )?;
        }
        let rule = "is needed where flows share by number, or RTTs are not followed";
        check(&key("rate"), middlebox.rate.is_some() || policy.follows_rtt(), rule)?;
    }
    Ok(())
}
