//! Probabilities and other shares as numbers or percentages, for `#[serde(deserialize_with)]`.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a share: a number such as `0.01`, or `"1 %"`.
///
/// # Errors
/// When it is neither.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(Share)
}

struct Share;

impl Visitor<'_> for Share {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share such as 0.01 or `1 %`")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<f64, E> {
        Ok(share)
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<f64, E> {
        Ok(share as f64)
    }

    fn visit_u64<E: Error>(self, share: u64) -> Result<f64, E> {
        Ok(share as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        let text = text.trim();
        let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent.trim(), 0.01));
        let share = number.parse::<f64>().ok().filter(|share| share.is_finite());
        share
            .map(|share| share * factor)
            .ok_or_else(|| E::custom(format!("`{text}` is not a share such as 0.01 or `1 %`")))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Link {
        #[serde(deserialize_with = "super::deserialize")]
        loss: f64,
    }

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        for (text, loss) in
            [("0.01", 0.01), ("0", 0.0), ("\"1 %\"", 0.01), ("\"2.5%\"", 0.025), ("\"0.25\"", 0.25)]
        {
            let link: Link = serde_json::from_str(&format!("{{\"loss\": {text}}}")).unwrap();
            assert_eq!(link.loss, loss, "{text}");
        }
        for text in ["\"1 permille\"", "\"%\"", "\"inf %\"", "[]"] {
            let link = serde_json::from_str::<Link>(&format!("{{\"loss\": {text}}}"));
            let error = link.map(|link| link.loss).unwrap_err().to_string();
            assert!(error.contains("a share such as 0.01 or `1 %`"), "{error}");
        }
    }
}
