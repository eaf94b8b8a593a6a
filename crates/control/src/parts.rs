//! Parameters of controllers that are written as parts, with commas between: `tau=10ms,kd=1/3`.

/// Parameters that are set one part after another.
pub(super) trait Parts: Default {
    /// The keys, with a phrase about the values that each takes.
    const KEYS: &'static [(&'static str, &'static str)];

    /// Takes one part of the text; `None` if it is wrong.
    fn set(&mut self, part: &str) -> Option<()>;

    /// Lists all parts that may be written.
    fn known() -> String;
}

/// Reads the defaults with the parts of `text` on top.
pub(super) fn read<P: Parts>(text: &str) -> Result<P, ()> {
    let mut parameters = P::default();
    text.split(',').map(str::trim).try_for_each(|part| parameters.set(part)).ok_or(())?;
    Ok(parameters)
}

/// Returns what is wrong with the first wrong part of `text`; `None` if there is none.
pub(super) fn mistake<P: Parts>(text: &str) -> Option<String> {
    let part = text.split(',').map(str::trim).find(|part| P::default().set(part).is_none())?;
    let key = part.split('=').next().unwrap_or(part);
    let of_key = P::KEYS.iter().find(|(name, _)| *name == key);
    Some(match of_key {
        Some((_, values)) => format!("`{key}` takes {values}"),
        None => format!("`{part}` is none of its parameters: {}", P::known()),
    })
}

/// Implements [`Parameters`](super::Parameters) and [`FromStr`](std::str::FromStr) for [`Parts`],
/// all of which may be left out; with an example of them, and whatever else of `Parameters` is not
/// as usual.
macro_rules! optional_parts {
    ($type:ty, $example:literal $(, $more:item)*) => {
        impl $crate::Parameters for $type {
            const ARGUMENT: $crate::Argument = $crate::Argument::Optional($example);

            fn by_default() -> Option<$type> {
                Some(<$type>::default())
            }

            fn mistake(text: &str) -> Option<String> {
                $crate::parts::mistake::<$type>(text)
            }

            $($more)*
        }

        impl std::str::FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> Result<$type, ()> {
                $crate::parts::read(text)
            }
        }
    };
}
pub(super) use optional_parts;
