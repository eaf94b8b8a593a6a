//! Classes of connections, their shares, and how shares become windows.

use std::path::Path;

use headway_arithmetic::flow::{MOST_RULES, Rule, Rules};
use headway_input::toml_keys::Document;
use headway_units::config_error::check;
use headway_units::{ConfigError, PerSide, Prefix, Rate, share};
use serde::{Deserialize, Serialize};

use crate::classify::Thresholds;
use crate::{CodePoint, FASTEST, Ports};

/// Most classes.
pub const MOST_CLASSES: usize = 32;
/// What most packets with data have, and their headers of IP and TCP with timestamps.
const PACKET: u32 = 1500;
/// See [`PACKET`].
pub(crate) const HEADERS: u32 = 52;
/// More is no link that carries IP.
const MOST_OVERHEAD: u32 = 256;
/// How far the sum of shares may be above one, because shares such as 0.1 are no binary fractions.
const ROUNDING: f64 = 1e-9;

/// What connections share a link, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Policy {
    /// What windows are multiplied with; the thesis has 0.9, 1 and 1.1 (wan 2.2). Above 0, at most 2.
    pub delta: f64,
    /// Whether classes with connections share what classes without any do not use.
    pub borrow_idle: bool,
    /// Whether a sequence number that an end allowed stays allowed (wan 2.3).
    pub no_shrink: bool,
    /// Whether the RTT of connections is measured again and again, by their timestamps, and not only in their
    /// handshake (wan 2.1).
    pub follow_rtt: bool,
    /// Whether packets of flows whose window is out of reach are marked, where their ends
    /// react to marks (wan F75).
    pub mark: bool,
    /// Whether a token bucket smooths what leaves for the link while bulk comes down, and holds bulk that
    /// neither windows nor marks hold, in either direction, with all else that crosses the link (wan F75).
    pub shape: bool,
    /// Whether windows follow what is free on paths, where a world tells it and that is less than
    /// the link has (wan 2.2).
    pub follow_available: bool,
    /// Bytes that the link adds to a packet of IP: 38 of Ethernet with preamble and gap, 46 where PPPoE is
    /// over it. Rates of the link count them, and windows do not. At most 256.
    pub overhead: u32,
    /// How connections of a class divide what it has.
    pub share_by: ShareBy,
    /// Whether windows are computed as Algorithm 1 prints it: when connections begin, not when they end, and
    /// never to more than before (wan 2.2). For comparison only.
    pub literal: bool,
    /// Where the classifier draws its lines.
    #[serde(skip_serializing_if = "is_default")]
    pub classifier: Thresholds,
    /// The classes; a connection is of the first one whose conditions it meets, and of none passes unchanged.
    pub class: Vec<Class>,
}

/// How connections of a class divide what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareBy {
    /// By hosts first, on the side of the hosts, and by what their connections use of it: a silent one takes
    /// nothing from others.
    #[default]
    Host,
    /// By what connections use of it.
    Use,
    /// By their number, as the thesis has it (wan 2.2). For comparison only.
    Number,
}

/// A class of connections. A connection meets its conditions if it meets one of each kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Class {
    /// The name.
    pub name: String,
    /// Its share of the link: above 0, at most 1.
    #[serde(deserialize_with = "share::deserialize")]
    pub share: f64,
    /// Whether its connections are never limited; its share is what others leave free for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: bool,
    /// What its connections have together at most, also of what others do not use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Rate>,
    /// Which of its connections are split at this router, if any are (wan F73).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Ports of the end that was connected to; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Ports>,
    /// Addresses of either end; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<Prefix>,
    /// Differentiated services code points of the first packet; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dscp: Vec<CodePoint>,
}

/// Which connections of a class a router splits, of those that hosts begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// All.
    Always,
    /// Those of hosts whose receive windows have held an earlier one below its share.
    SmallReceivers,
}

impl Default for Policy {
    /// Returns one class of all connections.
    fn default() -> Policy {
        let all = Class {
            name: "all".to_owned(),
            share: 1.0,
            priority: false,
            ceiling: None,
            split: None,
            ports: Vec::new(),
            prefixes: Vec::new(),
            dscp: Vec::new(),
        };
        Policy {
            delta: 1.0,
            borrow_idle: false,
            no_shrink: false,
            follow_rtt: true,
            mark: true,
            shape: false,
            follow_available: false,
            overhead: 38,
            share_by: ShareBy::default(),
            literal: false,
            classifier: Thresholds::default(),
            class: vec![all],
        }
    }
}

impl Class {
    /// Whether every connection meets its conditions.
    fn takes_all(&self) -> bool {
        self.ports.is_empty() && self.prefixes.is_empty() && self.dscp.is_empty()
    }

    /// Returns its rules: one for each pair of ports and prefix.
    fn rules(&self, class: u32) -> impl Iterator<Item = Rule> {
        let codepoints = self.dscp.iter().fold(0, |bits, point| bits | 1_u64 << point.get());
        let any = Rule::any(class);
        let any = if self.dscp.is_empty() { any } else { any.with_codepoints(codepoints) };
        let ports = or_none(&self.ports);
        ports.into_iter().flat_map(move |ports| {
            let rule = ports.map_or(any, |ports| any.with_ports(ports.range()));
            or_none(&self.prefixes).into_iter().map(move |prefix| {
                prefix.map_or(rule, |prefix| rule.with_prefix(prefix.address(), prefix.bits()))
            })
        })
    }

    fn check(&self, index: usize, before: &[Class]) -> Result<(), ConfigError> {
        let key = |key: &str| format!("class[{index}].{key}");
        check(&key("name"), !self.name.trim().is_empty(), "must not be empty")?;
        let unique = before.iter().all(|class| class.name != self.name);
        check(&key("name"), unique, &format!("`{}` is the name of another class, too", self.name))?;
        check(&key("share"), self.share > 0.0 && self.share <= 1.0, "must be above 0 and at most 1")?;
        check(&key("ceiling"), self.ceiling != Some(Rate::ZERO), "must be above 0")?;
        let rule = "a class with `priority` is never limited; leave out one of both";
        check(&key("ceiling"), !self.priority || self.ceiling.is_none(), rule)?;
        match before.iter().find(|class| class.takes_all()) {
            Some(all) => Err(ConfigError::new(
                &format!("class[{index}]"),
                &format!(
                    "no connection is left for it: `{}` before it has no conditions and takes all; put that last",
                    all.name
                ),
            )),
            None => Ok(()),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the items of a list, or that there is none.
fn or_none<T>(list: &[T]) -> Vec<Option<&T>> {
    if list.is_empty() { vec![None] } else { list.iter().map(Some).collect() }
}

impl Policy {
    /// Reads a policy from TOML; `path` is named in errors.
    ///
    /// # Errors
    /// Names line and key of what is unknown, missing or wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Policy, ConfigError> {
        let document = Document::parse(text, path)?;
        let policy: Policy = document.read()?;
        policy.check().map_err(|mistake| document.locate(mistake))?;
        Ok(policy)
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        check("delta", self.delta > 0.0 && self.delta <= 2.0, "must be above 0 and at most 2")?;
        let rule = "is no part of the algorithm as it is printed; leave out this or `literal`";
        check("borrow-idle", !(self.literal && self.borrow_idle), rule)?;
        check("overhead", self.overhead <= MOST_OVERHEAD, &format!("must be at most {MOST_OVERHEAD} bytes"))?;
        self.classifier.check().map_err(|mistake| {
            let key = format!("classifier.{}", mistake.key().unwrap_or_default());
            ConfigError::new(&key, mistake.message())
        })?;
        let classes = self.class.len();
        check("class", classes > 0, "there must be one at least")?;
        check("class", classes <= MOST_CLASSES, &format!("there are {classes}, and at most {MOST_CLASSES}"))?;
        for (index, class) in self.class.iter().enumerate() {
            class.check(index, &self.class[..index])?;
        }
        let is_plain = |class: &Class| !class.priority && class.ceiling.is_none();
        let rule =
            "is no part of the algorithm as it is printed, nor is `ceiling`; leave out these or `literal`";
        check("priority", !self.literal || self.class.iter().all(is_plain), rule)?;
        let mut sum = 0.0;
        for (index, class) in self.class.iter().enumerate() {
            sum += class.share;
            let rule = format!("the shares up to this one are {sum:.3} in sum, and 1 is the whole link");
            check(&format!("class[{index}].share"), sum <= 1.0 + ROUNDING, &rule)?;
        }
        let mut rules = 0;
        for (index, class) in self.class.iter().enumerate() {
            rules += class.ports.len().max(1) * class.prefixes.len().max(1);
            let rule = format!(
                "with its ports times its prefixes there are {rules} conditions, and at most {MOST_RULES}; join ranges"
            );
            check(&format!("class[{index}]"), rules <= MOST_RULES, &rule)?;
        }
        Ok(())
    }

    /// Whether RTTs are measured again and again. Where connections count by their number, they are those of
    /// the handshakes, as it is printed.
    pub fn follows_rtt(&self) -> bool {
        self.follow_rtt && !self.literal && self.share_by != ShareBy::Number
    }

    /// Returns the part of what passes the link that is data. The algorithm as it is
    /// printed takes all for data.
    pub fn payload(&self) -> f64 {
        match self.follows_rtt() {
            true => f64::from(PACKET - HEADERS) / f64::from(PACKET + self.overhead),
            false => 1.0,
        }
    }

    /// Returns what a link with these rates, in bytes on its wire, has for data towards each side;
    /// [`FASTEST`] where they are not known.
    pub fn capacity(&self, rates: Option<impl Into<PerSide<Rate>>>) -> PerSide<Rate> {
        rates.map_or(PerSide::both(FASTEST), |rates| rates.into().map(|rate| rate.scale(self.payload())))
    }

    /// Whether connections of a class are to be split.
    pub fn splits(&self) -> bool {
        self.class.iter().any(|class| class.split.is_some())
    }

    /// Returns the rules that give a connection the index of its class. Those of a policy that was not
    /// checked may be cut off.
    pub fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        for (class, number) in self.class.iter().zip(0..) {
            for rule in class.rules(number) {
                rules.push(rule);
            }
        }
        rules
    }
}
