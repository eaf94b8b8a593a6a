//! Which links a flow takes.

use std::collections::{HashMap, VecDeque};

use crate::model::Scenario;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The number of its `[[link]]` in the file.
    pub link: usize,
    /// Number of the node at the sending end.
    pub from: usize,
    /// Number of the node at the receiving end.
    pub to: usize,
    /// Name in results: `left->right`.
    pub name: String,
}

/// The nodes and directions of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    nodes: HashMap<String, usize>,
    directions: Vec<Direction>,
    /// Directions that leave a node, in the order of the file.
    leaving: Vec<Vec<usize>>,
}

impl Topology {
    /// The topology of a scenario: duplex links become two directions, the one the file names first.
    pub fn new(scenario: &Scenario) -> Topology {
        let mut topology = Topology::default();
        for node in &scenario.nodes {
            topology.add_node(node);
        }
        for (index, link) in scenario.link.iter().enumerate() {
            let (from, to) = (topology.add_node(&link.from), topology.add_node(&link.to));
            topology.add_direction(index, (from, &link.from), (to, &link.to));
            if link.duplex {
                topology.add_direction(index, (to, &link.to), (from, &link.from));
            }
        }
        topology
    }

    /// All directions, in the order in which networks number them.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.leaving.len()
    }

    /// Names of all nodes, by their numbers.
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![""; self.node_count()];
        for (name, number) in &self.nodes {
            names[*number] = name;
        }
        names
    }

    /// The number of the node of this name.
    pub fn number(&self, node: &str) -> Option<usize> {
        self.nodes.get(node).copied()
    }

    /// Whether there is a node of this name.
    pub fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Directions from `from` to `to` past the nodes `via` in this order; the fewest links between any two of them, and
    /// the first in the file among equals.
    ///
    /// # Errors
    /// Says why there is no such path.
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

    /// Breadth first, so the first path found is of the fewest links and first in the file.
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
                return Err(format!("the path comes to `{}` twice", name.unwrap_or_default()));
            }
        }
        match path.last() {
            Some(&last) if seen[self.directions[last].to] => {
                Err("the path ends where it has been".to_owned())
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

    fn add_direction(&mut self, link: usize, from: (usize, &str), to: (usize, &str)) {
        let mut name = format!("{}->{}", from.1, to.1);
        let parallel = self.directions.iter().filter(|d| (d.from, d.to) == (from.0, to.0)).count();
        if parallel > 0 {
            name += &format!(" ({})", parallel + 1);
        }
        self.leaving[from.0].push(self.directions.len());
        self.directions.push(Direction { link, from: from.0, to: to.0, name });
    }
}
