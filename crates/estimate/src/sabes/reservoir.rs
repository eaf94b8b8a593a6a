//! A bounded number of values out of many.

/// Values of which a bounded number is kept, each with the same probability: those at fixed distances would
/// all be of one kind where kinds take turns. The same values always leave the same ones.
#[derive(Clone, Debug)]
pub struct Reservoir<T> {
    kept: Vec<T>,
    seen: u64,
}

impl<T> Default for Reservoir<T> {
    fn default() -> Reservoir<T> {
        Reservoir { kept: Vec::new(), seen: 0 }
    }
}

impl<T: Copy> Reservoir<T> {
    /// Takes a value; at most `most` are kept, at least one.
    pub fn push(&mut self, value: T, most: usize) {
        self.seen += 1;
        if self.kept.len() < most.max(1) {
            self.kept.push(value);
            return;
        }
        // The k-th value stays with probability most / k.
        let place = ((u128::from(scramble(self.seen)) * u128::from(self.seen)) >> 64) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = value;
        }
    }

    /// Returns the values that were kept, in no order.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Returns the number of values that were taken.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<T>()
    }
}

/// Returns a number that looks random (SplitMix64).
const fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_values_keeps_their_distribution() {
        for turns in [1, 2, 16, 1_001] {
            let mut values = Reservoir::default();
            (0..100_000).for_each(|value| values.push(value % turns, 256));
            assert_eq!((values.kept().len(), values.seen()), (256, 100_000));
            let mean = values.kept().iter().sum::<u64>() as f64 / 256.0;
            let expected = (turns - 1) as f64 / 2.0;
            assert!((mean - expected).abs() <= 0.1 * expected, "{turns} {mean}");
        }
    }
}
