//! Ensembles of decision trees, all nodes in one array.

use crate::error::{FileError, wrong};
use crate::file::{Combine, Link, Tree};

/// The most trees of an ensemble.
const MOST_TREES: usize = 10_000;
/// Trees that are walked at once: the processor waits for memory in each, but for all at the same time.
const TOGETHER: usize = 4;

/// A node, or a leaf: one whose children are itself.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// What the feature is compared with; the value of a leaf.
    threshold: f64,
    feature: u32,
    /// Places in the array, of inner nodes after the place of the node itself: left and right.
    children: [u32; 2],
}

/// A tree in the array of nodes.
#[derive(Clone, Copy, Debug)]
struct Root {
    at: u32,
    /// The number of nodes on the longest way to a leaf.
    depth: u32,
    weight: f64,
}

/// An ensemble of trees.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    combine: Combine,
    base: f64,
    link: Link,
    nodes: Vec<Node>,
    roots: Vec<Root>,
    /// The sum of the weights.
    weight: f64,
}

impl Trees {
    /// Checks an ensemble for inputs of `features` values.
    pub(crate) fn new(
        place: &str,
        (combine, base, link): (Combine, f64, Link),
        trees: &[Tree],
        features: usize,
    ) -> Result<Trees, FileError> {
        if !(1..=MOST_TREES).contains(&trees.len()) {
            let problem = format!("has {} trees; 1 to {MOST_TREES} are possible", trees.len());
            return Err(wrong(format!("{place}.trees"), problem));
        }
        crate::check::finite(&format!("{place}.base"), &[base])?;
        let mut all = Trees { combine, base, link, nodes: Vec::new(), roots: Vec::new(), weight: 0.0 };
        for (number, tree) in trees.iter().enumerate() {
            all.add(&format!("{place}.trees[{number}]"), tree, features)?;
        }
        let averages = combine != Combine::Sum;
        if averages && !(all.weight > 0.0 && all.weight.is_finite()) {
            return Err(wrong(format!("{place}.trees"), "have weights whose sum is not positive"));
        }
        Ok(all)
    }

    fn add(&mut self, place: &str, tree: &Tree, features: usize) -> Result<(), FileError> {
        let count = tree.feature.len();
        if count == 0 {
            return Err(wrong(format!("{place}.feature"), "is empty; a tree has at least one leaf"));
        }
        let lengths = [
            ("threshold", tree.threshold.len()),
            ("left", tree.left.len()),
            ("right", tree.right.len()),
            ("value", tree.value.len()),
        ];
        if let Some((name, length)) = lengths.into_iter().find(|(_, length)| *length != count) {
            let problem = format!("has {length} entries, and `feature` has {count}");
            return Err(wrong(format!("{place}.{name}"), problem));
        }
        crate::check::finite(&format!("{place}.threshold"), &tree.threshold)?;
        crate::check::finite(&format!("{place}.value"), &tree.value)?;
        crate::check::finite(&format!("{place}.weight"), &[tree.weight])?;
        if self.combine != Combine::Sum && tree.weight < 0.0 {
            return Err(wrong(format!("{place}.weight"), "is negative"));
        }
        let root = self.nodes.len() as u32;
        let mut depths = vec![0_u32; count];
        for index in 0..count {
            let node = node(place, tree, index, features)?;
            // Children come after their parents, so the depth of this node is known.
            for child in node.children.map(|child| child as usize).into_iter().filter(|child| *child > index)
            {
                depths[child] = depths[child].max(depths[index] + 1);
            }
            self.nodes.push(Node { children: node.children.map(|child| child + root), ..node });
        }
        let depth = depths.into_iter().max().unwrap_or(0);
        self.roots.push(Root { at: root, depth, weight: tree.weight });
        self.weight += tree.weight;
        Ok(())
    }

    /// Calls `take` with the value of the leaf that the features lead to and with the weight, for each tree.
    ///
    /// It ends: as many steps are made as the longest way has, and leaves lead to themselves.
    fn leaves(&self, features: &[f64], mut take: impl FnMut(f64, f64)) {
        for group in self.roots.chunks(TOGETHER) {
            let mut at = [0_usize; TOGETHER];
            at.iter_mut().zip(group).for_each(|(at, root)| *at = root.at as usize);
            let depth = group.iter().map(|root| root.depth).max().unwrap_or(0);
            for _ in 0..depth {
                for at in &mut at[..] {
                    let node = &self.nodes[*at];
                    let right = usize::from(!goes_left(features[node.feature as usize], node.threshold));
                    *at = node.children[right] as usize;
                }
            }
            at.iter().zip(group).for_each(|(at, root)| take(self.nodes[*at].threshold, root.weight));
        }
    }

    /// Returns the answer of the ensemble to features of single precision.
    pub(crate) fn predict(&self, features: &[f64], values: &mut Vec<(f64, f64)>) -> f64 {
        let mut sum = 0.0;
        let found = match self.combine {
            Combine::Sum => {
                self.leaves(features, |value, weight| sum += weight * value);
                self.base + sum
            }
            Combine::Mean => {
                self.leaves(features, |value, weight| sum += weight * value);
                sum / self.weight
            }
            Combine::WeightedVote => {
                self.leaves(features, |value, weight| sum += if value > 0.5 { weight } else { 0.0 });
                sum / self.weight
            }
            Combine::WeightedMedian => {
                values.clear();
                self.leaves(features, |value, weight| values.push((value, weight)));
                weighted_median(values)
            }
        };
        match self.link {
            Link::Identity => found,
            Link::Logistic => logistic(found),
        }
    }
}

/// Whether a feature is at most the threshold; what is not a number goes right.
fn goes_left(feature: f64, threshold: f64) -> bool {
    feature <= threshold
}

/// Reads one node and checks its numbers.
fn node(place: &str, tree: &Tree, index: usize, features: usize) -> Result<Node, FileError> {
    if tree.feature[index] == -1 {
        return Ok(Node { threshold: tree.value[index], feature: 0, children: [index as u32; 2] });
    }
    let count = tree.feature.len();
    let feature = u32::try_from(tree.feature[index]).ok().filter(|one| (*one as usize) < features);
    let Some(feature) = feature else {
        let problem = format!("is {}; there are {features} features, and -1 for leaves", tree.feature[index]);
        return Err(wrong(format!("{place}.feature[{index}]"), problem));
    };
    let child = |name: &str, value: i32| {
        let found =
            u32::try_from(value).ok().filter(|one| (*one as usize) > index && (*one as usize) < count);
        found.ok_or_else(|| {
            let problem = format!("is {value}; children come after their parent and before {count}");
            wrong(format!("{place}.{name}[{index}]"), problem)
        })
    };
    let children = [child("left", tree.left[index])?, child("right", tree.right[index])?];
    Ok(Node { threshold: tree.threshold[index], feature, children })
}

/// Returns the first value, in ascending order, at which the weights reach half of all, as
/// scikit-learn's AdaBoostRegressor.
fn weighted_median(values: &mut [(f64, f64)]) -> f64 {
    values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &*values {
        below += weight;
        if below >= 0.5 * all {
            return *value;
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

/// Returns 1 / (1 + e^-x).
pub(crate) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
