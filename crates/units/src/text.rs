//! Quantities as text: a number and a unit.

/// The error returned when text is not a quantity with a unit; says which units there are if
/// only the unit is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}{hint}")]
pub struct ParseQuantityError {
    text: String,
    expected: &'static str,
    hint: String,
}

/// A unit: the ways to write it, the usual one first, and the factor of its numbers.
pub(super) type Unit = (&'static [&'static str], f64);

/// Splits `58.8 Mb/s` into a non-negative number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// Converts a number with one of `units`; `expected` is for the error.
pub(super) fn parse(text: &str, expected: &'static str, units: &[Unit]) -> Result<f64, ParseQuantityError> {
    let wrong = |hint| ParseQuantityError { text: text.to_owned(), expected, hint };
    let (number, unit) = split(text).ok_or_else(|| wrong(String::new()))?;
    match units.iter().find(|(names, _)| names.contains(&unit)) {
        Some((_, factor)) => Ok(number * factor),
        None => Err(wrong(hint(unit, units))),
    }
}

/// Names the units in place of one that does not exist or was left out.
fn hint(unit: &str, units: &[Unit]) -> String {
    let names: Vec<&str> =
        units.iter().filter_map(|(names, _)| names.iter().copied().find(|n| !n.is_empty())).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    let list = format!("{} and {last}", others.join(", "));
    match unit {
        "" => format!(": the unit is missing; units are {list}"),
        _ => format!(": units are {list}"),
    }
}

/// Serializes a quantity as text, such as `"100 Mb/s"`, in files and messages.
macro_rules! serde_as_text {
    ($type:ty, $expected:literal, $exact:expr) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let exact: fn(&$type) -> String = $exact;
                serializer.serialize_str(&exact(self))
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct Text;
                impl ::serde::de::Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str(concat!($expected, ", in quotes"))
                    }

                    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

pub(super) use serde_as_text;

#[cfg(test)]
mod tests {
    use crate::{Bytes, Duration, Rate};

    #[test]
    fn what_has_one_meaning_is_accepted() {
        for (text, ns) in [
            ("5m", 300e9),
            ("5 min", 300e9),
            ("2 minutes", 120e9),
            ("1h", 3600e9),
            ("3 sec", 3e9),
            ("7 \u{b5}s", 7e3),
            ("7 \u{3bc}s", 7e3),
            ("1 day", 86_400e9),
        ] {
            assert_eq!(text.parse(), Ok(Duration::from_ns(ns as i64)), "{text}");
        }
        for text in ["100 Mb/s", "100Mbit", "100 mbit/s", "100 mbps", "100000 Kbps", "0.1 gb/s"] {
            assert_eq!(text.parse(), Ok(Rate::from_mbps(100.0)), "{text}");
        }
        for text in ["2 GB", "2000 MB"] {
            assert_eq!(text.parse(), Ok(Bytes::new(2_000_000_000)), "{text}");
        }
        assert_eq!("1 GiB".parse(), Ok(Bytes::new(1 << 30)));
    }

    #[test]
    fn a_wrong_or_missing_unit_is_answered_with_the_units() {
        let time = |text: &str| text.parse::<Duration>().unwrap_err().to_string();
        assert_eq!(
            time("5"),
            "`5` is not a time such as `20 ms`: the unit is missing; units are ns, us, ms, s, min, h and days"
        );
        assert_eq!(
            time("5 M"),
            "`5 M` is not a time such as `20 ms`: units are ns, us, ms, s, min, h and days"
        );
        assert_eq!(time("soon"), "`soon` is not a time such as `20 ms`");
        let rate = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            rate("100"),
            "`100` is not a rate such as `100 Mb/s`: the unit is missing; units are b/s, kb/s, Mb/s, Gb/s and Tb/s"
        );
        // Bytes or bits, a million or 2^20: what may mean two things is not guessed.
        assert!(rate("100M").ends_with("units are b/s, kb/s, Mb/s, Gb/s and Tb/s"));
        assert!(rate("100 MB/s").ends_with("units are b/s, kb/s, Mb/s, Gb/s and Tb/s"));
        let size = "2M".parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(
            size,
            "`2M` is not a size such as `250 kB`: units are B, kB, KiB, MB, MiB, GB, GiB and TB"
        );
    }

    #[test]
    fn a_bare_number_in_a_file_is_told_to_be_a_quantity_in_quotes() {
        let error = serde_json::from_str::<Rate>("100").unwrap_err().to_string();
        assert!(error.contains("expected a rate such as `100 Mb/s`, in quotes"), "{error}");
    }
}
