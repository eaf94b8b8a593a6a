//! Code points of differentiated services by number or name.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Names of code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
const NAMES: [(&str, u8); 24] = [
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
    ("cs0", 0),
];

/// A differentiated services code point, 0 to 63, written as a number or a name such as `ef` or `af41`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePoint(u8);

impl CodePoint {
    /// Returns the number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u64> for CodePoint {
    type Error = String;

    fn try_from(number: u64) -> Result<CodePoint, String> {
        u8::try_from(number)
            .ok()
            .filter(|number| *number < 64)
            .map(CodePoint)
            .ok_or_else(|| format!("`{number}` is no code point: they are 0 to 63"))
    }
}

impl FromStr for CodePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<CodePoint, String> {
        let name = text.to_ascii_lowercase();
        if let Some((_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(CodePoint(*number));
        }
        match text.parse::<u64>() {
            Ok(number) => CodePoint::try_from(number),
            Err(_) => Err(format!(
                "`{text}` is no code point: a number from 0 to 63, or a name such as `ef` or `af41`"
            )),
        }
    }
}

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for CodePoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

impl<'de> Deserialize<'de> for CodePoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CodePoint, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = CodePoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a code point such as 46 or `ef`")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<CodePoint, E> {
                CodePoint::try_from(number).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<CodePoint, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::custom(format!("`{number}` is no code point: they are 0 to 63"))),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<CodePoint, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
