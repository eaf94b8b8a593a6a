//! Ensembles of decision trees, all nodes in one array.

use crate::error::{FileError, wrong};
use crate::file::{Combine, Link, Tree};

/// The most trees of an ensemble.
const MOST_TREES: usize = 10_000;
/// The feature of a leaf.
const LEAF: u32 = u32::MAX;

/// A node, or a leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// What the feature is compared with; the value of a leaf.
    threshold: f64,
    /// [`LEAF`] for a leaf.
    feature: u32,
    /// Places in the array, both after the place of the node itself.
    left: u32,
    right: u32,
}

/// An ensemble of trees.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    combine: Combine,
    base: f64,
    link: Link,
    nodes: Vec<Node>,
    /// Where each tree begins, and its weight.
    roots: Vec<(u32, f64)>,
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
        for index in 0..count {
            let node = node(place, tree, index, features)?;
            let shifted = Node { left: node.left + root, right: node.right + root, ..node };
            self.nodes.push(shifted);
        }
        self.roots.push((root, tree.weight));
        self.weight += tree.weight;
        Ok(())
    }

    /// Returns the value of the leaf that the features lead to. Children come after their parents, so it ends.
    fn leaf(&self, root: u32, feature: impl Fn(usize) -> f64) -> f64 {
        let mut at = root;
        loop {
            let node = &self.nodes[at as usize];
            if node.feature == LEAF {
                return node.threshold;
            }
            at = if feature(node.feature as usize) <= node.threshold { node.left } else { node.right };
        }
    }

    /// Returns the answer of the ensemble.
    pub(crate) fn predict(&self, features: &[f32], values: &mut Vec<(f64, f64)>) -> f64 {
        self.combined(|index| f64::from(features[index]), values)
    }

    /// Returns the answer to features that went through a scaler; scikit-learn rounds them again.
    pub(crate) fn predict_scaled(&self, features: &[f64], values: &mut Vec<(f64, f64)>) -> f64 {
        self.combined(|index| f64::from(features[index] as f32), values)
    }

    fn combined(&self, feature: impl Fn(usize) -> f64, values: &mut Vec<(f64, f64)>) -> f64 {
        let each = self.roots.iter().map(|(root, weight)| (self.leaf(*root, &feature), *weight));
        let found = match self.combine {
            Combine::Sum => self.base + each.map(|(value, weight)| weight * value).sum::<f64>(),
            Combine::Mean => each.map(|(value, weight)| weight * value).sum::<f64>() / self.weight,
            Combine::WeightedVote => {
                let yes = each.filter(|(value, _)| *value > 0.5);
                yes.map(|(_, weight)| weight).sum::<f64>() / self.weight
            }
            Combine::WeightedMedian => {
                values.clear();
                values.extend(each);
                weighted_median(values)
            }
        };
        match self.link {
            Link::Identity => found,
            Link::Logistic => logistic(found),
        }
    }
}

/// Reads one node and checks its numbers.
fn node(place: &str, tree: &Tree, index: usize, features: usize) -> Result<Node, FileError> {
    if tree.feature[index] == -1 {
        return Ok(Node { threshold: tree.value[index], feature: LEAF, left: 0, right: 0 });
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
    let (left, right) = (child("left", tree.left[index])?, child("right", tree.right[index])?);
    Ok(Node { threshold: tree.threshold[index], feature, left, right })
}

/// Returns the first value, in ascending order, at which the weights reach half of all, as scikit-learn's AdaBoostRegressor.
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
