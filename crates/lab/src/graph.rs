//! The links of a lab.

use headway_units::ConfigError;
use headway_units::config_error::check;
use serde::{Deserialize, Serialize};

use crate::base::check_name;
use crate::spec::{Cross, Direction, LinkSpec, PathSpec, Spec, check_link};

/// The nodes of a lab with one link that its file does not name.
pub(crate) const PAIR: [&str; 2] = ["client", "server"];
/// The largest number of links: every link has a subnet of its own.
const MAX_LINKS: usize = 200;

/// A link between two nodes: one queue, one wire and one log per direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Name, unique in the lab.
    pub name: String,
    /// The node from which the forward direction leads.
    pub from: String,
    /// The node to which the forward direction leads.
    pub to: String,
    /// The two directions.
    pub path: PathSpec,
}

impl Edge {
    /// Creates a link named `FROM-TO`, with the rate and delay of `forward` in the reverse direction, too.
    pub fn new(from: &str, to: &str, forward: LinkSpec) -> Edge {
        let reverse = forward.reversed();
        Edge {
            name: format!("{from}-{to}"),
            from: from.to_owned(),
            to: to.to_owned(),
            path: PathSpec { forward, reverse },
        }
    }
}

impl Spec {
    /// Returns the number of the link with this name; `None` stands for the only link.
    ///
    /// # Errors
    /// If there is no such link, or if the name is missing and there are several.
    pub(crate) fn link_number(&self, name: Option<&str>) -> Result<usize, String> {
        let names = || self.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => {
                let found = self.links.iter().position(|link| link.name == name);
                found.ok_or_else(|| format!("`{name}` is not a link; the links are {}", names()))
            }
            None if self.links.len() == 1 => Ok(0),
            None => Err(format!("the lab has several links, so one must be named: {}", names())),
        }
    }

    /// Returns the name of a link's direction in the truth file: `forward` for the only link, else `h1-r1:forward`.
    pub fn lane_name(&self, link: usize, direction: Direction) -> String {
        match &self.links[..] {
            [_] => direction.to_string(),
            links => format!("{}:{direction}", links[link].name),
        }
    }

    /// Returns the names of all lanes: both directions of the first link, and so on.
    pub(crate) fn lane_names(&self) -> Vec<String> {
        let lanes = (0..self.links.len()).flat_map(|link| Direction::BOTH.map(|direction| (link, direction)));
        lanes.map(|(link, direction)| self.lane_name(link, direction)).collect()
    }

    /// Returns the number of the port at the end of `link` at `node`.
    pub(crate) fn port(&self, link: &str, node: &str) -> usize {
        let ends = self.links.iter().flat_map(|link| [(&link.name, &link.from), (&link.name, &link.to)]);
        ends.into_iter().position(|end| end == (&link.to_owned(), &node.to_owned())).unwrap_or_default()
    }

    /// Returns the cross traffic of a link.
    pub(crate) fn cross_on(&self, link: usize) -> Vec<Cross> {
        let is_here = |cross: &&Cross| self.link_number(cross.link.as_deref()) == Ok(link);
        self.cross.iter().filter(is_here).cloned().collect()
    }

    /// Checks nodes, names and directions of all links.
    pub(crate) fn check_links(&self) -> Result<(), ConfigError> {
        check("link", !self.links.is_empty(), "must not be empty")?;
        check("link", self.links.len() <= MAX_LINKS, "must have at most 200 entries")?;
        for (index, link) in self.links.iter().enumerate() {
            for (key, name) in [("from", &link.from), ("to", &link.to)] {
                let rule = "must be 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot";
                check(&format!("link[{index}].{key}"), check_name(name).is_ok(), rule)?;
            }
            check(&format!("link[{index}].to"), link.from != link.to, "must be another node than `from`")?;
            // A default name has two nodes in it, so it may be longer than other names.
            let right = link.name == format!("{}-{}", link.from, link.to) || check_name(&link.name).is_ok();
            let rule = "must be 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot";
            check(&format!("link[{index}].name"), right, rule)?;
            let unique = self.links[..index].iter().all(|other| other.name != link.name);
            let rule = format!("another link is called `{}`; give this one a `name`", link.name);
            check(&format!("link[{index}].name"), unique, &rule)?;
            let key = |direction| format!("link[{index}].{direction}");
            check_link(&key(Direction::Forward), &link.path.forward, self.mtu)?;
            check_link(&key(Direction::Reverse), &link.path.reverse, self.mtu)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headway_units::Duration;

    use super::*;

    const CHAIN: &str = r#"
[[link]]
from = "h1"
to = "r1"
forward = { rate = "50 Mb/s", delay = "2 ms" }
[[link]]
from = "r1"
to = "h2"
[link.forward]
rate = "30 Mb/s"
[link.reverse]
rate = "10 Mb/s"
[[cross]]
link = "r1-h2"
direction = "forward"
model = "poisson"
rate = "6 Mb/s"
"#;

    fn parse(text: &str) -> Result<Spec, String> {
        Spec::parse(text, Path::new("x.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_of_links_reads_with_its_defaults() {
        let spec = parse(CHAIN).unwrap();
        let names: Vec<&str> = spec.links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["h1-r1", "r1-h2"]);
        assert_eq!(spec.links[0].path.reverse.rate, spec.links[0].path.forward.rate);
        assert_eq!(spec.links[0].path.reverse.delay, Duration::from_ms(2));
        assert_eq!(spec.links[1].path.reverse.rate.mbps(), 10.0);
        assert_eq!((spec.cross_on(0).len(), spec.cross_on(1).len()), (0, 1));
        let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }

    #[test]
    fn mistakes_name_the_link_and_its_key() {
        let cases = [
            ("30 Mb/s", "0 Mb/s", "x.toml, line 10: `link[1].forward.rate`: must be more than 0"),
            (
                "\"50 Mb/s\"",
                "\"0 Mb/s\"",
                "x.toml, line 5, column 13: `link[0].forward.rate`: must be more than 0",
            ),
            ("\"r1-h2\"", "\"r1-h3\"", "x.toml, line 14: `cross[0].link`: `r1-h3` is not a link"),
            ("link = \"r1-h2\"", "", "x.toml, line 13: `cross[0].link`: the lab has several links"),
            (
                "from = \"r1\"
to = \"h2\"",
                "from = \"h1\"
to = \"r1\"
name = \"h1-r1\"",
                "x.toml, line 15: `cross[0].link`: `r1-h2` is not a link",
            ),
            (
                "[[link]]",
                "[forward]\nrate = \"1 Mb/s\"\n[[link]]",
                "x.toml, line 4: `link[0]`: cannot be combined",
            ),
        ];
        for (from, to, expected) in cases {
            let text = CHAIN.replacen(from, to, 1);
            assert_ne!(text, CHAIN, "{from}");
            let found = parse(&text).unwrap_err();
            assert!(found.starts_with(expected), "found {found}\nexpected {expected}");
        }
    }
}
