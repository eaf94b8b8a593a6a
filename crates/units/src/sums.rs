//! Sums of quantities.

/// Implements addition for a quantity, a newtype of an integer; what is too large becomes the
/// largest quantity.
macro_rules! sums {
    ($type:ident) => {
        impl ::std::ops::Add for $type {
            type Output = $type;
            fn add(self, other: $type) -> $type {
                $type(self.0.saturating_add(other.0))
            }
        }

        impl ::std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: $type) {
                *self = *self + other;
            }
        }

        impl ::std::iter::Sum for $type {
            fn sum<I: Iterator<Item = $type>>(quantities: I) -> $type {
                quantities.fold($type::ZERO, ::std::ops::Add::add)
            }
        }
    };
}

pub(super) use sums;
