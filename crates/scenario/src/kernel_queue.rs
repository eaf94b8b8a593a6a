//! A queue discipline that exists only in a kernel.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A queue discipline with options in the syntax of `tc`, such as `fq_codel limit 1000 target 5ms`.
///
/// Contains only words of letters, digits and `_.%/-`, separated by single spaces, so it cannot inject a
/// second line into a `tc` batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelQueue(String);

impl fmt::Display for KernelQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for KernelQueue {
    type Err = String;

    fn from_str(text: &str) -> Result<KernelQueue, String> {
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%/-".contains(&byte);
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(usual);
        if text.split(' ').all(is_word) {
            Ok(KernelQueue(text.to_owned()))
        } else {
            Err(format!(
                "`{text}` is not a discipline such as `fq_codel limit 1000`: \
                 words of letters, digits, _ . % / and - with single spaces between them"
            ))
        }
    }
}

impl<'de> Deserialize<'de> for KernelQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KernelQueue, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
