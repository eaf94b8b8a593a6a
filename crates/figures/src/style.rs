//! Colours, fonts, axes and legends common to all figures.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::error::CannotDraw;

/// Colour of text and axes.
pub(crate) const TEXT: RGBColor = RGBColor(51, 51, 51);
/// Colours of series, distinguishable with most forms of colour blindness (Okabe and Ito).
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
/// Colour of the true available bandwidth.
pub(crate) const TRUTH: RGBColor = RGBColor(120, 120, 120);
/// Colour of estimates.
pub(crate) const ESTIMATE: RGBColor = RGBColor(0, 90, 181);
/// Colour for contrast: raw data, the null estimator.
pub(crate) const CONTRAST: RGBColor = RGBColor(213, 94, 0);

/// Font family of all text.
pub(crate) const FONT: &str = "sans-serif";

/// A chart with two numeric axes.
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Returns a formatter of axis numbers, with just enough digits to distinguish neighbours.
pub(crate) fn number(span: f64) -> impl Fn(&f64) -> String {
    // The step of an axis is about a tenth of its span.
    let digits = (0..9).find(|digits| span * 10f64.powi(*digits) >= 20.0).unwrap_or(9) as usize;
    move |value| {
        let text = format!("{value:.digits$}");
        let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if short == "-0" { "0".to_owned() } else { short.to_owned() }
    }
}

/// Rounds a positive number to two significant digits.
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
        .bold_line_style(TEXT.mix(0.12))
        .axis_style(TEXT)
        .label_style((FONT, 14).into_font().color(&TEXT))
        .x_desc(names.0)
        .y_desc(names.1)
        .x_label_formatter(x_label)
        .y_label_formatter(y_label)
        .draw()?;
    Ok(())
}

/// Draws only the horizontal axis, for charts with rows of names on the left.
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
        .bold_line_style(TEXT.mix(0.12))
        .axis_style(TEXT)
        .label_style((FONT, 14).into_font().color(&TEXT))
        .x_desc(name)
        .x_label_formatter(label)
        .draw()?;
    Ok(())
}

/// Returns the sample of a line in a legend.
pub(crate) fn line_sample(
    colour: RGBColor,
) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> + Copy + 'static {
    move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
}

/// Draws the legend at the upper right.
pub(crate) fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> Result<(), CannotDraw> {
    legend_at(chart, SeriesLabelPosition::UpperRight)
}

/// Draws the legend at `position`.
pub(crate) fn legend_at<'a, 'b: 'a>(
    chart: &mut Chart<'a, 'b>,
    position: SeriesLabelPosition,
) -> Result<(), CannotDraw> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(TEXT.mix(0.3))
        .label_font((FONT, 14).into_font().color(&TEXT))
        .draw()?;
    Ok(())
}
