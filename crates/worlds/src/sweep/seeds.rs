//! Lists of seeds.

/// Largest number of seeds: more is rather a slip of the pen, such as `1-10000000`.
const MOST: u64 = 100_000;

/// Reads numbers and ranges: `1-5, 9`.
///
/// # Errors
/// Says what is wrong.
pub(super) fn parse(text: &str) -> Result<Vec<u64>, String> {
    let wrong = |part: &str| format!("`{part}` is neither a seed nor a range such as `1-5`");
    let mut seeds = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong(part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}` counts backwards"));
        }
        if last - first >= MOST {
            return Err(format!("`{part}` has more than {MOST} seeds"));
        }
        seeds.extend(first..=last);
    }
    check(seeds)
}

/// Returns the seeds if there are any, and each once.
///
/// # Errors
/// Says what is wrong.
pub(super) fn check(seeds: Vec<u64>) -> Result<Vec<u64>, String> {
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("has {} twice", pair[0]));
    }
    if seeds.is_empty() { Err("has no seeds".to_owned()) } else { Ok(seeds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_ranges() {
        assert_eq!(parse("1-3, 9").unwrap(), [1, 2, 3, 9]);
        assert_eq!(parse("7").unwrap(), [7]);
        for (text, words) in [
            ("", "neither"),
            ("5-1", "backwards"),
            ("1,2,1", "1 twice"),
            ("a", "neither"),
            ("-1", "neither"),
            ("0-18446744073709551615", "more than"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
