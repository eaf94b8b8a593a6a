//! Colours, letters, axes and legends that all figures share.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::error::CannotDraw;

/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(51, 51, 51);
/// The colours of series, which stay apart for most eyes (Okabe and Ito).
pub(crate) const SERIES: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(51, 51, 51),
    RGBColor(150, 150, 150),
];
/// What was really free.
pub(crate) const TRUTH: RGBColor = RGBColor(120, 120, 120);
/// Estimates.
pub(crate) const ESTIMATE: RGBColor = RGBColor(0, 90, 181);
/// What serves as a contrast: raw data, the null estimator.
pub(crate) const CONTRAST: RGBColor = RGBColor(213, 94, 0);

/// Letters.
pub(crate) const FONT: &str = "sans-serif";

/// A chart over two axes of numbers.
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Numbers on an axis: as many digits as tell neighbours apart.
pub(crate) fn number(span: f64) -> impl Fn(&f64) -> String {
    // Steps of an axis are about a tenth of its span.
    let digits = (0..9).find(|digits| span * 10f64.powi(*digits) >= 20.0).unwrap_or(9) as usize;
    move |value| {
        let text = format!("{value:.digits$}");
        let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if short == "-0" { "0".to_owned() } else { short.to_owned() }
    }
}

/// A positive number of any size with two digits.
pub(crate) fn significant(value: f64) -> f64 {
    let scale = 10f64.powf(value.log10().floor() - 1.0);
    ((value / scale).round() * scale * 1e9).round() / 1e9
}

/// Draws axes with a faint grid.
pub(crate) fn axes(
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
        .draw()?;
    Ok(())
}

/// Draws a horizontal axis only, for rows of names on the left.
pub(crate) fn horizontal_axis(
    chart: &mut Chart<'_, '_>,
    name: &str,
    label: &dyn Fn(&f64) -> String,
) -> Result<(), CannotDraw> {
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .axis_style(INK)
        .label_style((FONT, 14).into_font().color(&INK))
        .x_desc(name)
        .x_label_formatter(label)
        .draw()?;
    Ok(())
}

/// The sign of a line in a legend.
pub(crate) fn line_sign(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> + Copy + 'static {
    move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
}

/// Draws the names of the series.
pub(crate) fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> Result<(), CannotDraw> {
    legend_at(chart, SeriesLabelPosition::UpperRight)
}

/// Draws the names of the series at a place of the caller's choice.
pub(crate) fn legend_at<'a, 'b: 'a>(
    chart: &mut Chart<'a, 'b>,
    position: SeriesLabelPosition,
) -> Result<(), CannotDraw> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(INK.mix(0.3))
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()?;
    Ok(())
}
