//! Shares of new connections for paths, which change only where it is worth it.

/// How new connections are spread.
#[derive(Debug)]
pub(super) struct Shares {
    /// The most that stays as it is, as a share of all connections.
    tolerance: f64,
    /// What each path gets of a hundred.
    parts: Vec<u8>,
}

impl Shares {
    pub(super) const fn new(tolerance: f64) -> Shares {
        Shares { tolerance, parts: Vec::new() }
    }

    /// Returns what each path gets of a hundred, rounded; 0 for none.
    pub(super) fn parts(&self) -> &[u8] {
        &self.parts
    }

    /// Takes weights that add up to one; returns whether the shares follow them. They do when another path
    /// gets connections or none any more, or when more of them would take another path than the tolerance.
    pub(super) fn follow(&mut self, weights: &[f64]) -> bool {
        // A path that gets connections has one part at least.
        let part =
            |weight: &f64| if *weight > 0.0 { (100.0 * weight).round().clamp(1.0, 100.0) as u8 } else { 0 };
        let parts: Vec<u8> = weights.iter().map(part).collect();
        let is_same = parts.len() == self.parts.len()
            && parts.iter().zip(&self.parts).all(|(new, old)| (*new > 0) == (*old > 0))
            && moved(&parts, &self.parts) <= self.tolerance;
        if !is_same {
            self.parts = parts;
        }
        !is_same
    }
}

/// Returns the share of connections that would take another path.
fn moved(new: &[u8], old: &[u8]) -> f64 {
    let sum = new.iter().zip(old).map(|(new, old)| f64::from(new.abs_diff(*old))).sum::<f64>();
    sum / 200.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_only_what_moves_more_than_the_tolerance_or_comes_and_goes() {
        let mut shares = Shares::new(0.1);
        assert!(shares.follow(&[0.2, 0.8, 0.0]));
        assert_eq!(shares.parts(), [20, 80, 0]);
        for _ in 0..100 {
            assert!(!shares.follow(&[0.3, 0.7, 0.0]) && !shares.follow(&[0.1, 0.9, 0.0]));
        }
        assert!(shares.follow(&[0.31, 0.69, 0.0]));
        // One that comes back is taken at once, however little it has; one that goes is left.
        assert!(shares.follow(&[0.31, 0.688, 0.002]));
        assert_eq!(shares.parts(), [31, 69, 1]);
        assert!(shares.follow(&[0.0, 0.998, 0.002]));
        assert_eq!(shares.parts(), [0, 100, 1]);
    }
}
