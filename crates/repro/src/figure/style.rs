//! Colours, letters, axes and legends that all figures share, those of other reports too.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::CannotDraw;

/// Text and axes.
pub const INK: RGBColor = RGBColor(51, 51, 51);
/// The colours of series, distinct for colour-blind readers too.
pub(super) const SERIES: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(213, 94, 0),
    RGBColor(0, 128, 96),
    RGBColor(145, 80, 150),
    RGBColor(120, 120, 120),
    RGBColor(184, 134, 11),
];
/// What serves as a contrast: the null estimator.
pub(super) const CONTRAST: RGBColor = RGBColor(213, 94, 0);

/// Letters.
pub const FONT: &str = "sans-serif";

/// A chart over two axes of numbers.
pub type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Numbers on an axis: as many digits as tell neighbours apart.
pub(super) fn number(span: f64) -> impl Fn(&f64) -> String {
    // Steps of an axis are about a tenth of its span.
    let digits = (0..9).find(|digits| span * 10f64.powi(*digits) >= 20.0).unwrap_or(9) as usize;
    move |value| {
        let text = format!("{value:.digits$}");
        let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if short == "-0" { "0".to_owned() } else { short.to_owned() }
    }
}

/// A positive number of any size with two digits.
pub(super) fn significant(value: f64) -> f64 {
    let scale = 10f64.powf(value.log10().floor() - 1.0);
    ((value / scale).round() * scale * 1e9).round() / 1e9
}

/// Draws axes with a faint grid.
///
/// # Errors
/// When the drawing library fails.
pub fn axes(
    chart: &mut Chart<'_, '_>,
    names: (&str, &str),
    x_label: &dyn Fn(&f64) -> String,
    y_label: &dyn Fn(&f64) -> String,
) -> Result<(), CannotDraw> {
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .axis_style(INK)
        .label_style((FONT, 14).into_font().color(&INK))
        .x_desc(names.0)
        .y_desc(names.1)
        .x_label_formatter(x_label)
        .y_label_formatter(y_label)
        .draw()
        .map_err(CannotDraw::new)
}

/// Draws the names of the series.
///
/// # Errors
/// When the drawing library fails.
pub fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> Result<(), CannotDraw> {
    legend_at(chart, SeriesLabelPosition::UpperRight)
}

/// Draws the names of the series at a place of the caller's choice.
///
/// # Errors
/// When the drawing library fails.
pub fn legend_at<'a, 'b: 'a>(
    chart: &mut Chart<'a, 'b>,
    position: SeriesLabelPosition,
) -> Result<(), CannotDraw> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(INK.mix(0.3))
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()
        .map_err(CannotDraw::new)
}
