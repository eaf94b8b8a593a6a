//! Constants of judgement, whose values no formula gives: each is declared with its unit and range.
//!
//! [`constants!`] makes a `const` of a group of them. With the feature `sensitivity`, and in the tests of
//! this crate, it is a `static` instead whose values can be scaled while a program runs:
//! `headway-bench accuracy sensitivity` shows what depends on them.
//!
//! `Half` and `Double` in their comments say what it showed, with the paths and seeds of
//! `papers/accuracy/sensitivity.md`: the change of the error in points, of the intervals that held the truth
//! or of the hops that were right, and of bytes and time, as far as all seeds agree and it is more than 0.5
//! points of error, 2 points of what was right, 5 % of bytes or time. Where one of them is missing, nothing
//! was that clear. What changed no run at all is a plain constant beside its use.

/// Declares a group of constants, which are read like the fields of a `const`.
macro_rules! constants {
    (
        $(#[$about:meta])*
        $group:ident: $Type:ident {
            $($(#[$why:meta])* $name:ident: $kind:ty = $value:expr, $unit:literal;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Type {
            $($(#[$why])* pub(crate) $name: $kind,)*
        }

        impl $Type {
            const USUAL: $Type = $Type { $($name: $value,)* };
        }

        #[cfg(not(any(test, feature = "sensitivity")))]
        pub(crate) const $group: $Type = $Type::USUAL;

        #[cfg(any(test, feature = "sensitivity"))]
        pub(crate) static $group: $crate::sensitivity::Scaled<$Type> =
            $crate::sensitivity::Scaled::new($Type::USUAL);

        #[cfg(any(test, feature = "sensitivity"))]
        impl $crate::sensitivity::Values for $Type {
            const GROUP: &'static str = stringify!($group);
            const NAMES: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $unit),)*];

            fn shown(&self) -> Vec<String> {
                vec![$($crate::sensitivity::Scale::shown(&self.$name),)*]
            }

            fn scaled(mut self, number: usize, factor: f64) -> Self {
                let mut fields = 0..;
                $(if fields.next() == Some(number) {
                    self.$name = $crate::sensitivity::Scale::scaled(self.$name, factor);
                })*
                self
            }
        }
    };
}

pub(crate) use constants;
