//! The topology of a scenario, and the routes of its flows.

use std::collections::{HashMap, VecDeque};

use headway_units::config_error::check;
use headway_units::{self as units, ConfigError, Rate};

use crate::model::{FlowSpec, Scenario};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Index of its `[[link]]` in the file.
    pub link: usize,
    /// Whether it is the way back of a duplex link.
    pub back: bool,
    /// Index of the node at the sending end.
    pub from: usize,
    /// Index of the node at the receiving end.
    pub to: usize,
    /// Whether packets take turns over it and the others like it between the same nodes; paths
    /// then have the first.
    pub sprays: bool,
    /// Name in results: `left->right`.
    pub name: String,
}

/// The nodes and link directions of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    nodes: HashMap<String, usize>,
    directions: Vec<Direction>,
    /// Outgoing directions of each node, in file order.
    leaving: Vec<Vec<usize>>,
}

impl Topology {
    /// Builds the topology of a scenario. A duplex link becomes two directions, starting with the one in the
    /// file.
    pub fn new(scenario: &Scenario) -> Topology {
        let mut topology = Topology::default();
        for node in &scenario.nodes {
            topology.add_node(node);
        }
        for (index, link) in scenario.link.iter().enumerate() {
            let (from, to) = (topology.add_node(&link.from), topology.add_node(&link.to));
            topology.add_direction((index, false, link.spray), (from, &link.from), (to, &link.to));
            if link.duplex {
                topology.add_direction((index, true, link.spray), (to, &link.to), (from, &link.from));
            }
        }
        topology
    }

    /// Returns all directions, indexed as in the networks built from them.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Returns the directions from one node to another, in order.
    fn between(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let ends =
            move |index: &usize| (self.directions[*index].from, self.directions[*index].to) == (from, to);
        (0..self.directions.len()).filter(ends)
    }

    /// Returns the directions that packets take whose path has this one: itself, or all that take
    /// turns with it, in order.
    pub fn parallel(&self, index: usize) -> Vec<usize> {
        let Direction { from, to, sprays, .. } = self.directions[index];
        if sprays { self.between(from, to).collect() } else { vec![index] }
    }

    /// Returns the number of a link with two directions, and which of them it is, for every direction: two
    /// links of the scenario that lead in opposite ways only become one.
    ///
    /// # Errors
    /// Names a link that none leads back from.
    pub fn pairs(&self, scenario: &Scenario) -> Result<Vec<(usize, units::Direction)>, ConfigError> {
        let mut pairs: Vec<Option<(usize, units::Direction)>> = vec![None; self.directions.len()];
        let mut links = 0;
        for (index, there) in self.directions.iter().enumerate() {
            if pairs[index].is_some() {
                continue;
            }
            let duplex = scenario.link[there.link].duplex;
            let back = (index + 1..self.directions.len()).find(|&other| {
                let back = &self.directions[other];
                let is_free = pairs[other].is_none() && duplex == scenario.link[back.link].duplex;
                is_free
                    && (back.from, back.to) == (there.to, there.from)
                    && (!duplex || back.link == there.link)
            });
            let Some(back) = back else {
                let key = format!("link[{}].duplex", there.link);
                return Err(ConfigError::new(&key, "the lab needs a link that leads back"));
            };
            pairs[index] = Some((links, units::Direction::Forward));
            pairs[back] = Some((links, units::Direction::Reverse));
            links += 1;
        }
        Ok(pairs.into_iter().flatten().collect())
    }

    /// Checks that packets can take turns wherever they are to.
    pub(crate) fn check_spraying(&self) -> Result<(), ConfigError> {
        for direction in self.directions.iter().filter(|direction| direction.sprays) {
            let all: Vec<usize> = self.between(direction.from, direction.to).collect();
            let rule = "needs another link between the same nodes, and `spray` at all of them";
            let right = all.len() > 1 && all.iter().all(|index| self.directions[*index].sprays);
            check(&format!("link[{}].spray", direction.link), right, rule)?;
        }
        Ok(())
    }

    /// Whether a link leads from one node to another.
    pub(crate) fn are_neighbours(&self, from: &str, to: &str) -> bool {
        let ends = self.number(from).zip(self.number(to));
        ends.is_some_and(|(from, to)| self.between(from, to).next().is_some())
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.leaving.len()
    }

    /// Returns the names of all nodes, by index.
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![""; self.node_count()];
        for (name, number) in &self.nodes {
            names[*number] = name;
        }
        names
    }

    /// Returns the index of the node with this name.
    pub fn number(&self, node: &str) -> Option<usize> {
        self.nodes.get(node).copied()
    }

    /// Whether a node with this name exists.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Returns the rate of the link of a flow's sender: its `line`, or that of the first link on its
    /// path that has a rate.
    pub fn line_of(&self, scenario: &Scenario, flow: &FlowSpec) -> Option<Rate> {
        let path = self.route(&flow.from, &flow.to, &flow.via).unwrap_or_default();
        let rate_of = |hop: &usize| scenario.link[self.directions()[*hop].link].highest_rate();
        flow.line.or_else(|| path.iter().find_map(rate_of))
    }

    /// Returns the directions from `from` to `to` through the nodes `via`, in this order. Between two of them
    /// it takes the path with the fewest links; among equals, the first in the file.
    ///
    /// # Errors
    /// Says why no such path exists.
    pub fn route(&self, from: &str, to: &str, via: &[String]) -> Result<Vec<usize>, String> {
        let stops: Vec<&str> =
            std::iter::once(from).chain(via.iter().map(String::as_str)).chain([to]).collect();
        let mut path = Vec::new();
        for pair in stops.windows(2) {
            let number = |name: &str| {
                self.nodes.get(name).copied().ok_or_else(|| format!("there is no node `{name}`"))
            };
            let part = self.shortest(number(pair[0])?, number(pair[1])?);
            path.extend(part.ok_or_else(|| format!("no links lead from `{}` to `{}`", pair[0], pair[1]))?);
        }
        self.check_cycle(&path)?;
        Ok(path)
    }

    /// Searches breadth first, so the first path found has the fewest links and comes first in the file.
    fn shortest(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut reached: Vec<Option<usize>> = vec![None; self.leaving.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                break;
            }
            for &index in &self.leaving[node] {
                let next = self.directions[index].to;
                if next != from && reached[next].is_none() {
                    reached[next] = Some(index);
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let index = reached[node]?;
            path.push(index);
            node = self.directions[index].from;
        }
        path.reverse();
        Some(path)
    }

    fn check_cycle(&self, path: &[usize]) -> Result<(), String> {
        let mut seen = vec![false; self.leaving.len()];
        for &index in path {
            let node = self.directions[index].from;
            if std::mem::replace(&mut seen[node], true) {
                let name =
                    self.nodes.iter().find(|(_, number)| **number == node).map(|(name, _)| name.as_str());
                return Err(format!("the path visits `{}` twice", name.unwrap_or_default()));
            }
        }
        match path.last() {
            Some(&last) if seen[self.directions[last].to] => {
                Err("the path visits its destination twice".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn add_node(&mut self, name: &str) -> usize {
        let next = self.leaving.len();
        let number = *self.nodes.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.leaving.push(Vec::new());
        }
        number
    }

    fn add_direction(
        &mut self,
        (link, back, sprays): (usize, bool, bool),
        from: (usize, &str),
        to: (usize, &str),
    ) {
        let mut name = format!("{}->{}", from.1, to.1);
        let parallel = self.between(from.0, to.0).count();
        if parallel > 0 {
            name += &format!(" ({})", parallel + 1);
        }
        self.leaving[from.0].push(self.directions.len());
        self.directions.push(Direction { link, back, from: from.0, to: to.0, sprays, name });
    }
}
