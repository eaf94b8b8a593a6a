//! Quantities as text: a number and a unit.

/// The error returned when text is not a quantity with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseQuantityError {
    text: String,
    expected: &'static str,
}

/// Splits `58.8 Mb/s` into a non-negative number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// Converts a number with one of `units`, each with the factor of its numbers; `expected` is for the error.
pub(super) fn parse(
    text: &str,
    expected: &'static str,
    units: &[(&str, f64)],
) -> Result<f64, ParseQuantityError> {
    split(text)
        .and_then(|(number, unit)| {
            let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
            Some(number * factor)
        })
        .ok_or_else(|| ParseQuantityError { text: text.to_owned(), expected })
}

/// Serializes a quantity as text, such as `"100 Mb/s"`, in files and messages.
macro_rules! serde_as_text {
    ($type:ty, $exact:expr) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let exact: fn(&$type) -> String = $exact;
                serializer.serialize_str(&exact(self))
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(<D::Error as ::serde::de::Error>::custom)
            }
        }
    };
}

pub(super) use serde_as_text;
