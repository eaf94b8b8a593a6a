//! The name that a user meant.

/// Similarity (Jaro-Winkler, 0 to 1) from which a name is offered: above that of short names of other things,
/// such as `copa` and `compound` (0.77), and below that of slips, such as `bbr2` and `bbr` (0.94).
const SIMILAR: f64 = 0.8;

/// Returns the one of `names` that is most like `text`, ignoring case; `None` if none is.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    let scored = names.into_iter().map(|name| (strsim::jaro_winkler(&text, &name.to_lowercase()), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity > SIMILAR).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_finds_its_name_and_a_foreign_word_none() {
        let names = ["reno", "cubic", "bbr", "pathload"];
        for (text, name) in [("bbr2", "bbr"), ("cubci", "cubic"), ("RENO", "reno"), ("pathlaod", "pathload")]
        {
            assert_eq!(nearest(text, names), Some(name));
        }
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("copa", ["compound"]), None);
        assert_eq!(nearest("bbr", []), None);
    }
}
