//! Constants that are scaled while a program runs, to see what depends on them.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use headway_units::Duration;

use crate::belief::BELIEF;
use crate::locate::{LOCATE, SURVEY, TIGHT};
use crate::measure::{EVIDENCE, PACE, RESPONSE};

/// The factors that a constant can be scaled by.
pub const FACTORS: [f64; 3] = [0.5, 1.0, 2.0];

/// A constant as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The group, such as `PACE`, which the file of its module declares.
    pub group: &'static str,
    /// Its name in the group.
    pub name: &'static str,
    /// The value that the product has.
    pub value: &'static str,
    /// The unit and the range in which it makes sense.
    pub unit: &'static str,
    place: (usize, usize),
}

/// All groups, in the order of [`constants`].
static GROUPS: [&dyn Group; 7] = [&PACE, &EVIDENCE, &RESPONSE, &BELIEF, &LOCATE, &TIGHT, &SURVEY];

/// Returns all constants, group by group.
pub fn constants() -> &'static [Constant] {
    static ALL: LazyLock<Vec<Constant>> = LazyLock::new(|| {
        let groups = GROUPS.iter().enumerate();
        groups.flat_map(|(number, group)| group.constants(number)).collect()
    });
    &ALL
}

impl Constant {
    /// Scales this constant, and only this one, by one of [`FACTORS`], given by its place
    /// there, for all threads.
    pub fn scale(&self, factor: usize) {
        restore();
        GROUPS[self.place.0].choose(self.place.1 * FACTORS.len() + factor);
    }
}

/// Gives all constants their usual values again.
pub fn restore() {
    GROUPS.iter().for_each(|group| group.choose(USUAL));
}

/// The number of the variant in which nothing is scaled.
const USUAL: usize = usize::MAX;

/// A group of constants of which one is scaled.
pub(crate) struct Scaled<T> {
    usual: T,
    /// Every constant with every factor; made when they are first needed.
    variants: OnceLock<Vec<T>>,
    chosen: AtomicUsize,
}

/// The constants of a group.
pub(crate) trait Values: Copy {
    /// The name of the group.
    const GROUP: &'static str;
    /// Name and unit of each constant.
    const NAMES: &'static [(&'static str, &'static str)];

    /// Returns the values as text.
    fn shown(&self) -> Vec<String>;

    /// Scales one of them.
    fn scaled(self, number: usize, factor: f64) -> Self;
}

impl<T> Scaled<T> {
    pub(crate) const fn new(usual: T) -> Scaled<T> {
        Scaled { usual, variants: OnceLock::new(), chosen: AtomicUsize::new(USUAL) }
    }
}

impl<T: Values> Deref for Scaled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let variant =
            self.variants.get().and_then(|variants| variants.get(self.chosen.load(Ordering::Relaxed)));
        variant.unwrap_or(&self.usual)
    }
}

trait Group: Sync {
    fn constants(&self, number: usize) -> Vec<Constant>;
    fn choose(&self, variant: usize);
}

impl<T: Values + Send + Sync> Group for Scaled<T> {
    fn constants(&self, group: usize) -> Vec<Constant> {
        let values = self.usual.shown().into_iter().zip(T::NAMES).enumerate();
        let constant = |(number, (value, (name, unit))): (usize, (String, &(&'static str, &'static str)))| {
            // Once for each constant, for as long as the program runs.
            let value: &'static str = value.leak();
            Constant { group: T::GROUP, name, value, unit, place: (group, number) }
        };
        values.map(constant).collect()
    }

    fn choose(&self, variant: usize) {
        let variants = || {
            let numbers = 0..T::NAMES.len();
            numbers.flat_map(|number| FACTORS.map(|factor| self.usual.scaled(number, factor))).collect()
        };
        self.variants.get_or_init(variants);
        self.chosen.store(variant, Ordering::Relaxed);
    }
}

/// A value that can be scaled; numbers of things remain whole, and at least one.
pub(crate) trait Scale: Copy {
    fn scaled(self, factor: f64) -> Self;
    fn shown(&self) -> String;
}

impl Scale for f64 {
    fn scaled(self, factor: f64) -> f64 {
        self * factor
    }

    fn shown(&self) -> String {
        if *self != 0.0 && self.abs() < 1e-4 { format!("{self:e}") } else { self.to_string() }
    }
}

impl Scale for Duration {
    fn scaled(self, factor: f64) -> Duration {
        self.scale(factor)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

macro_rules! scale_numbers {
    ($($Type:ty),*) => {$(
        impl Scale for $Type {
            fn scaled(self, factor: f64) -> $Type {
                (self as f64 * factor).round().max(1.0) as $Type
            }

            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

scale_numbers!(u8, u32, i64, usize);

impl<T: Scale, const N: usize> Scale for [T; N] {
    fn scaled(self, factor: f64) -> [T; N] {
        self.map(|value| value.scaled(factor))
    }

    fn shown(&self) -> String {
        let values: Vec<String> = self.iter().map(Scale::shown).collect();
        values.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::constants as declare;

    declare! {
        /// A group that no other test reads.
        SAMPLE: SampleConstants {
            /// A share.
            share: f64 = 0.25, "share, 0 to 1";
            /// Some numbers.
            counts: [u32; 2] = [1, 16], "packets, from 1";
            /// A time.
            wait: Duration = Duration::from_ms(5), "time, from 0";
        }
    }

    #[test]
    fn only_the_constant_that_is_chosen_is_scaled_until_all_are_restored() {
        let read = || (SAMPLE.share, SAMPLE.counts, SAMPLE.wait);
        let usual = read();
        let chosen = |number: usize, factor: usize| {
            SAMPLE.choose(number * FACTORS.len() + factor);
            read()
        };
        assert_eq!(chosen(0, 0), (0.125, usual.1, usual.2));
        // Numbers of things stay whole and above zero.
        assert_eq!(chosen(1, 0), (usual.0, [1, 8], usual.2));
        assert_eq!(chosen(2, 2), (usual.0, usual.1, Duration::from_ms(10)));
        for number in 0..3 {
            assert_eq!(chosen(number, 1), usual);
        }
        SAMPLE.choose(USUAL);
        assert_eq!(read(), usual);
    }

    #[test]
    fn every_group_that_is_declared_is_listed_with_value_unit_and_range() {
        let listed: Vec<&str> = GROUPS.iter().map(|group| group.constants(0)[0].group).collect();
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut declared = Vec::new();
        let mut folders = vec![source];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if file.is_dir() {
                    folders.push(file);
                } else if let Ok(text) = std::fs::read_to_string(file) {
                    // At the margin: not that of these tests.
                    let groups = text.split("\nconstants! {").skip(1);
                    let name = |group: &str| {
                        group.lines().find_map(|line| Some(line.trim().split_once(": ")?.0.to_owned()))
                    };
                    declared.extend(groups.filter_map(name));
                }
            }
        }
        declared.sort();
        let mut sorted = listed.clone();
        sorted.sort();
        assert_eq!(declared, sorted);
        let unclear =
            constants().iter().filter(|constant| constant.value.is_empty() || !constant.unit.contains(", "));
        assert_eq!(unclear.map(|constant| constant.name).collect::<Vec<_>>(), [""; 0]);
    }
}
