//! The text of a scenario file: its short forms, and where each of its keys is.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use headway_input::toml_keys::{self, find, name, place};
use headway_units::{Bytes, ConfigError, WIRE_OVERHEAD};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::model::Scenario;

/// The nodes of the only link of a file with `forward`.
const PAIR: [&str; 2] = ["client", "server"];
/// What the way back has in common with `forward` if a file does not describe it.
const SHARED: [&str; 6] = ["rate", "rates", "trace", "burst", "peak-rate", "delay"];

/// Keys that middleboxes had before they had policies.
const POLICY_KEYS: [&str; 9] = [
    "delta",
    "borrow-idle",
    "no-shrink",
    "follow-rtt",
    "literal",
    "follow-available",
    "decide",
    "find-rate",
    "by-use",
];

/// Hosts, and the interrupt coalescing that short forms give their NICs.
type Nics<'a> = Vec<(String, Spanned<DeValue<'a>>)>;

/// A file that is TOML.
pub(crate) struct File<'a> {
    pub(crate) text: &'a str,
    pub(crate) path: &'a Path,
    /// As written.
    written: DeTable<'a>,
    /// Without short forms.
    full: Spanned<DeTable<'a>>,
    /// Lines that will not be understood in a later version, and what to write instead.
    pub(crate) warnings: Vec<String>,
}

impl<'a> File<'a> {
    /// Parses a text; `path` is named in errors.
    pub(crate) fn parse(text: &'a str, path: &'a Path) -> Result<File<'a>, ConfigError> {
        let full = DeTable::parse(text);
        let full = full.map_err(|error| ConfigError::at(text, path, error.span(), error.message()))?;
        let written = full.get_ref().clone();
        let mut file = File { text, path, written, full, warnings: Vec::new() };
        file.expand().map_err(|mistake| file.locate(mistake))?;
        Ok(file)
    }

    /// Whether the file has this key, outside of tables.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.written.contains_key(key)
    }

    /// Reads the scenario.
    pub(crate) fn read(&self) -> Result<Scenario, ConfigError> {
        let read = Scenario::deserialize(Deserializer::from(self.full.clone()));
        read.map_err(|error| toml_keys::located(&error, &self.written, self.text, self.path))
    }

    /// Returns a mistake, which names a key of the full form, with the key and the place in the file.
    pub(crate) fn locate(&self, mistake: ConfigError) -> ConfigError {
        let Some(key) = mistake.key().map(str::to_owned) else { return mistake.in_file(self.path, None) };
        let (found, rest) = find(self.full.get_ref(), &key);
        let Some(at) = found else { return mistake.in_file(self.path, None) };
        let mut named = name(&self.written, at.start).unwrap_or_default();
        if !rest.is_empty() {
            named += if named.is_empty() { rest } else { "." };
            named += if named.ends_with('.') { rest } else { "" };
        }
        ConfigError::new(&named, mistake.message()).in_file(self.path, Some(place(self.text, at.start)))
    }

    /// Replaces the short forms.
    fn expand(&mut self) -> Result<(), ConfigError> {
        let top = self.full.get_mut();
        if let Some(forward) = top.remove("forward") {
            if top.contains_key("link") {
                return Err(ConfigError::new("link[0]", "cannot be combined with `forward`"));
            }
            let span = forward.span();
            let mut link = DeTable::new();
            set(&mut link, "from", PAIR[0], &span);
            set(&mut link, "to", PAIR[1], &span);
            link.insert(Spanned::new(span.clone(), "forward".into()), forward);
            if let Some((key, reverse)) = top.remove_entry("reverse") {
                link.insert(key, reverse);
            }
            let links =
                DeValue::Array([Spanned::new(span.clone(), DeValue::Table(link))].into_iter().collect());
            top.insert(Spanned::new(span.clone(), "link".into()), Spanned::new(span, links));
        } else if top.contains_key("reverse") {
            return Err(ConfigError::new("reverse", "needs `forward`"));
        }
        let (links, nics) = self.expand_links()?;
        for (host, nic) in nics {
            self.add_nic(&host, nic);
        }
        self.expand_cross(&links)?;
        self.expand_policies()
    }

    /// Moves what older files say of a middlebox's policy into that.
    fn expand_policies(&mut self) -> Result<(), ConfigError> {
        let mut warnings = Vec::new();
        let Some(DeValue::Array(middleboxes)) =
            self.full.get_mut().get_mut("middlebox").map(Spanned::get_mut)
        else {
            return Ok(());
        };
        for (index, middlebox) in middleboxes.iter_mut().enumerate() {
            let DeValue::Table(table) = middlebox.get_mut() else { continue };
            for name in POLICY_KEYS {
                let Some((old, value)) = table.remove_entry(name) else { continue };
                let is_on = value.get_ref().as_bool() == Some(true);
                let (key, value, instead) = match name {
                    "decide" => {
                        warnings.push((old.span().start, "nothing: decisions are always noted".to_owned()));
                        continue;
                    }
                    "find-rate" => {
                        if is_on {
                            for key in ["rate", "up"] {
                                table.remove(key);
                            }
                            warnings.push((old.span().start, "neither `rate` nor `up`".to_owned()));
                        }
                        continue;
                    }
                    "by-use" if is_on => {
                        warnings.push((old.span().start, "nothing: a policy has it by itself".to_owned()));
                        continue;
                    }
                    "by-use" => {
                        let number = DeValue::String(Cow::Borrowed("number"));
                        ("share-by", Spanned::new(value.span(), number), "share-by = \"number\"".to_owned())
                    }
                    _ => (name, value, format!("`{name}`")),
                };
                warnings.push((old.span().start, format!("`policy = {{ ... }}` with {instead} in it")));
                let span = old.span();
                let empty = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
                let policy = table.entry(self::key("policy", &span)).or_insert_with(empty);
                let DeValue::Table(policy) = policy.get_mut() else {
                    let rule = "is a key of the file that `policy` names; write it there";
                    return Err(ConfigError::new(&format!("middlebox[{index}].{name}"), rule));
                };
                policy.insert(self::key(key, &span), value);
            }
        }
        warnings.into_iter().for_each(|(at, instead)| self.warn(at, &instead));
        Ok(())
    }

    /// Replaces links with two directions, and returns the ends of all links, and the NICs at their ends.
    fn expand_links(&mut self) -> Result<(Vec<Ends>, Nics<'a>), ConfigError> {
        let (mut ends, mut nics, mut expanded) = (Vec::new(), Vec::new(), Vec::new());
        let Some(DeValue::Array(links)) = self.full.get_mut().get_mut("link").map(Spanned::get_mut) else {
            return Ok((ends, nics));
        };
        for (index, mut link) in links.iter().cloned().enumerate() {
            let span = link.span();
            let DeValue::Table(table) = link.get_mut() else {
                return Err(not_a_table(&format!("link[{index}]")));
            };
            ends.push(Ends::of(table));
            let Some(forward) = table.remove("forward") else {
                expanded.push(link);
                continue;
            };
            let DeValue::Table(mut there) = forward.into_inner() else {
                return Err(not_a_table(&format!("link[{index}].forward")));
            };
            let mut back = match table.remove("reverse").map(Spanned::into_inner) {
                Some(DeValue::Table(back)) => back,
                Some(_) => return Err(not_a_table(&format!("link[{index}].reverse"))),
                None => {
                    let shared = there.iter().filter(|(key, _)| SHARED.contains(&&**key.get_ref()));
                    shared.map(|(key, value)| (key.clone(), value.clone())).collect()
                }
            };
            let Ends { from, to, .. } = &ends[index];
            for (side, from, to) in [(&mut there, from, to), (&mut back, to, from)] {
                nics.extend(side.remove("coalesce").map(|nic| (to.clone(), nic)));
                set(side, "from", from, &span);
                set(side, "to", to, &span);
                side.insert(key("duplex", &span), Spanned::new(span.clone(), DeValue::Boolean(false)));
            }
            // Whatever else the table has is of the link, or unknown.
            let others = std::mem::take(table)
                .into_iter()
                .filter(|(key, _)| !["from", "to"].contains(&&**key.get_ref()));
            there.extend(others);
            expanded.extend([there, back].map(|side| Spanned::new(span.clone(), DeValue::Table(side))));
        }
        *links = expanded.into_iter().collect();
        Ok((ends, nics))
    }

    /// Gives a host an NIC.
    fn add_nic(&mut self, host: &str, nic: Spanned<DeValue<'a>>) {
        self.warn(nic.span().start, &format!("`[host.{host}]` with `coalescing` and `ack-coalescing`"));
        let span = nic.span();
        let empty = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        let hosts = self.full.get_mut().entry(key("host", &span)).or_insert_with(empty);
        let DeValue::Table(hosts) = hosts.get_mut() else { return };
        let DeValue::Table(host) = hosts.entry(key(host, &span)).or_insert_with(empty).get_mut() else {
            return;
        };
        for name in ["coalescing", "ack-coalescing"] {
            host.insert(key(name, &span), nic.clone());
        }
    }

    /// Replaces cross traffic of links by traffic between their ends.
    fn expand_cross(&mut self, links: &[Ends]) -> Result<(), ConfigError> {
        let Some(DeValue::Array(cross)) = self.full.get_ref().get("cross").map(Spanned::get_ref) else {
            return Ok(());
        };
        let mut sources = Vec::new();
        for (index, source) in cross.clone().iter().cloned().enumerate() {
            let at = |key: &str| format!("cross[{index}].{key}");
            let span = source.span();
            let DeValue::Table(mut table) = source.into_inner() else { return Err(not_a_table(&at(""))) };
            let name = table.remove("link");
            let named = name.as_ref().and_then(|name| name.get_ref().as_str());
            let link = match (named, links) {
                (None, [only]) => only,
                (None, _) => {
                    return Err(ConfigError::new(
                        &at("link"),
                        &format!("the lab has several links; name one of {}", names(links)),
                    ));
                }
                (Some(name), _) => links.iter().find(|link| link.name == name).ok_or_else(|| {
                    ConfigError::new(
                        &at("link"),
                        &format!("`{name}` is not a link; there are {}", names(links)),
                    )
                })?,
            };
            let direction = table.remove("direction");
            let (from, to) = match direction.as_ref().and_then(|direction| direction.get_ref().as_str()) {
                Some("forward") => (&link.from, &link.to),
                Some("reverse") => (&link.to, &link.from),
                _ => return Err(ConfigError::new(&at("direction"), "must be `forward` or `reverse`")),
            };
            set(&mut table, "from", from, &span);
            set(&mut table, "to", to, &span);
            let sized = ["size", "least-size"].map(|key| count_overhead(&mut table, key)).contains(&true);
            let wire = if sized { ", and with sizes on the wire, which are 38 bytes more" } else { "" };
            self.warn(span.start, &format!("`[[traffic]]` with `from = \"{from}\"`, `to = \"{to}\"`{wire}"));
            sources.push(Spanned::new(span, DeValue::Table(table)));
        }
        let top = self.full.get_mut();
        let Some((_, cross)) = top.remove_entry("cross") else { return Ok(()) };
        let span = cross.span();
        let empty = || Spanned::new(span.clone(), DeValue::Array([].into_iter().collect()));
        let traffic = top.entry(key("traffic", &span)).or_insert_with(empty);
        if let DeValue::Array(traffic) = traffic.get_mut() {
            sources.into_iter().for_each(|source| traffic.push(source));
        }
        Ok(())
    }

    fn warn(&mut self, at: usize, instead: &str) {
        let (line, _) = place(self.text, at);
        let key = name(&self.written, at).unwrap_or_default();
        let path = self.path.display();
        self.warnings.push(format!("{path}, line {line}: `{key}` is an older form; write {instead}"));
    }
}

/// The ends and the name of a link.
struct Ends {
    name: String,
    from: String,
    to: String,
}

impl Ends {
    fn of(table: &DeTable<'_>) -> Ends {
        let text = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str()).map(str::to_owned);
        let (from, to) = (text("from").unwrap_or_default(), text("to").unwrap_or_default());
        Ends { name: text("name").unwrap_or_else(|| format!("{from}-{to}")), from, to }
    }
}

fn names(links: &[Ends]) -> String {
    links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn not_a_table(key: &str) -> ConfigError {
    ConfigError::new(key.trim_end_matches('.'), "must be a table")
}

fn key<'a>(name: &str, span: &Range<usize>) -> Spanned<Cow<'a, str>> {
    Spanned::new(span.clone(), Cow::Owned(name.to_owned()))
}

fn set(table: &mut DeTable<'_>, name: &str, text: &str, span: &Range<usize>) {
    table.insert(key(name, span), Spanned::new(span.clone(), DeValue::String(Cow::Owned(text.to_owned()))));
}

/// Adds what the wire adds to a size in bytes of IP; returns whether there is one.
fn count_overhead(table: &mut DeTable<'_>, name: &str) -> bool {
    let Some(value) = table.get_mut(name).map(Spanned::get_mut) else { return false };
    let Some(size) = value.as_str().and_then(|text| text.parse::<Bytes>().ok()) else { return false };
    *value = DeValue::String(Cow::Owned(format!("{} B", (size + WIRE_OVERHEAD).get())));
    true
}
