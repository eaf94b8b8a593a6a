//! Number formatting for reports.

/// Formats a number with about three significant digits; NaN as `none`.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        "none".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else if value.abs() >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// Formats a number with the unit of its claim.
pub fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.01234, -7.5].map(number),
            ["123", "12.3", "1.23", "0.012", "-7.50"]
        );
        assert_eq!(with_unit(97.53, "%"), "97.5 %");
    }
}
