//! The two sides of a router, and what there is for each.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A side of a router at an access link: packets come from it or go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// That of the hosts.
    Lan,
    /// That of the link.
    Wan,
}

impl Side {
    /// Both sides, in the order of [`PerSide`].
    pub const BOTH: [Side; 2] = [Side::Lan, Side::Wan];

    /// Returns the side with a number as the kernel's programs have it: 0 is the hosts', and
    /// all others the link's.
    pub const fn of(number: u8) -> Side {
        if number == 0 { Side::Lan } else { Side::Wan }
    }

    /// Returns that number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::Lan => Side::Wan,
            Side::Wan => Side::Lan,
        }
    }
}

/// What there is for each side: that of the hosts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSide<T>(pub [T; 2]);

impl<T> PerSide<T> {
    /// Returns what a function gives for each side.
    pub fn of(each: impl FnMut(Side) -> T) -> PerSide<T> {
        PerSide(Side::BOTH.map(each))
    }

    /// Returns the same for both sides.
    pub fn both(value: T) -> PerSide<T>
    where
        T: Clone,
    {
        PerSide([value.clone(), value])
    }

    /// Changes what there is for each side.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> PerSide<U> {
        PerSide(self.0.map(change))
    }

    /// Returns references to what there is for each side.
    pub fn each_ref(&self) -> PerSide<&T> {
        PerSide(self.0.each_ref())
    }

    /// Returns each side with what there is for it.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &T)> {
        Side::BOTH.into_iter().zip(&self.0)
    }

    /// The same, to change it.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Side, &mut T)> {
        Side::BOTH.into_iter().zip(&mut self.0)
    }
}

impl<T> From<[T; 2]> for PerSide<T> {
    fn from(both: [T; 2]) -> PerSide<T> {
        PerSide(both)
    }
}

impl<T> Index<Side> for PerSide<T> {
    type Output = T;
    fn index(&self, side: Side) -> &T {
        &self.0[side as usize]
    }
}

impl<T> IndexMut<Side> for PerSide<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        &mut self.0[side as usize]
    }
}

impl<T: PartialEq> PartialEq<[T; 2]> for PerSide<T> {
    fn eq(&self, both: &[T; 2]) -> bool {
        self.0 == *both
    }
}
