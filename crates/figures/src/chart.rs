//! Charts as stand-alone SVG text.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::CannotDraw;
use crate::style::{
    self, CONTRAST, Chart, ESTIMATE, FONT, SERIES, TEXT, TRUTH, legend, legend_at, line_sample,
};

type Drawn = Result<String, CannotDraw>;

/// Draws axes with a faint grid.
fn axes(chart: &mut Chart<'_, '_>, x: &str, y: &str) -> Result<(), CannotDraw> {
    style::axes(chart, (x, y), &|value| short(*value), &|value| short(*value))
}

/// Formats a number with at most two decimals and no trailing zeros.
fn short(value: f64) -> String {
    format!("{}", (value * 100.0).round() / 100.0)
}

/// Points of a curve, for example seconds and Mb/s.
pub type Points = Vec<(f64, f64)>;

/// An estimate with its interval, at a point in time; rates in Mb/s, time in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Time of the estimate, s.
    pub seconds: f64,
    /// The estimate, Mb/s.
    pub rate: f64,
    /// Lower end of its interval, Mb/s.
    pub low: f64,
    /// Upper end of its interval, Mb/s.
    pub high: f64,
}

/// Draws the true available bandwidth over time, as (seconds, Mb/s), with the estimates.
pub fn truth_and_estimates(truth: &[(f64, f64)], marks: &[Mark], capacity: f64) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 400)).into_drawing_area();
        area.fill(&WHITE)?;
        let end = truth.last().map_or(1.0, |(t, _)| *t).max(0.001);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, 0.0..capacity * 1.08)?;
        axes(&mut chart, "time, s", "available bandwidth, Mb/s")?;
        chart
            .draw_series(AreaSeries::new(held(truth), 0.0, TRUTH.mix(0.18)).border_style(TRUTH))?
            .label("truth")
            .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], TRUTH.mix(0.5).filled()));
        chart
            .draw_series(
                marks
                    .iter()
                    .map(|m| ErrorBar::new_vertical(m.seconds, m.low, m.rate, m.high, ESTIMATE.filled(), 8)),
            )?
            .label("estimate and 90 % interval")
            .legend(|(x, y)| Circle::new((x + 9, y), 4, ESTIMATE.filled()));
        legend(&mut chart)?;
        area.present()?;
    }
    Ok(svg)
}

/// Position of a legend when the curves occupy the top of the chart.
const LOW: SeriesLabelPosition = SeriesLabelPosition::LowerRight;

/// The largest number of curves that get distinct colours.
pub const MAX_CURVES: usize = SERIES.len();

/// Draws named curves over time in seconds, each holding its value until the next point; at most
/// [`MAX_CURVES`].
pub fn steps(curves: &[(String, Points)], y: &str) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 320)).into_drawing_area();
        area.fill(&WHITE)?;
        let points = || curves.iter().flat_map(|(_, curve)| curve);
        let end = points().map(|(t, _)| *t).fold(0.001, f64::max);
        let top = points().map(|(_, value)| *value).fold(0.001, f64::max);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..end, 0.0..top * 1.08)?;
        axes(&mut chart, "time, s", y)?;
        for ((name, curve), colour) in curves.iter().zip(SERIES) {
            chart
                .draw_series(LineSeries::new(held(curve), colour.stroke_width(2)))?
                .label(name)
                .legend(line_sample(colour));
        }
        // Put the legend below the curves if all of them end high.
        let is_high = points().filter(|(t, _)| *t > 0.8 * end).all(|(_, value)| *value > 0.45 * top);
        legend_at(&mut chart, if is_high { LOW } else { SeriesLabelPosition::UpperRight })?;
        area.present()?;
    }
    Ok(svg)
}

/// Returns a polyline that holds each value until the next point.
fn held(series: &[(f64, f64)]) -> Points {
    let mut out = Vec::with_capacity(series.len() * 2);
    for pair in series.windows(2) {
        out.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    out.extend(series.last());
    out
}

/// One row of a comparison of methods; rates in Mb/s.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the method.
    pub name: String,
    /// True available bandwidth.
    pub truth: f64,
    /// Estimate, and lower and upper end of its interval; `None` without an answer.
    pub estimate: Option<(f64, f64, f64)>,
}

/// Draws every method's estimate and interval beside the true available bandwidth.
pub fn methods(rows: &[Row], capacity: f64) -> Drawn {
    let mut svg = String::new();
    {
        let height = 80 + 26 * rows.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (960, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let count = rows.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(150)
            .build_cartesian_2d(0.0..capacity * 1.15, count..0.0)?;
        let name = "available bandwidth, Mb/s: estimate with 90 % interval, truth as a grey bar";
        style::horizontal_axis(&mut chart, name, &|value| format!("{value:.0}"))?;
        let label = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, row) in rows.iter().enumerate() {
            let y = index as f64 + 0.5;
            let truth = [(row.truth, y - 0.42), (row.truth, y + 0.42)];
            chart.draw_series([PathElement::new(truth, TRUTH.stroke_width(5))])?;
            if let Some((rate, low, high)) = row.estimate {
                let colour = if row.name == "null" { CONTRAST } else { ESTIMATE };
                let [low, rate, high] = [low, rate, high].map(|v| v.clamp(0.0, capacity * 1.13));
                chart.draw_series([ErrorBar::new_horizontal(y, low, rate, high, colour.filled(), 8)])?;
            }
            chart.draw_series([Text::new(row.name.clone(), (-capacity * 0.012, y), label.clone())])?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// The gaps of one stream in microseconds, by packet.
#[derive(Clone, Debug, Default)]
pub struct GapSeries {
    /// Gaps at the sender.
    pub send: Vec<f64>,
    /// Gaps at the receiver.
    pub receive: Vec<f64>,
    /// Index of the first gap kept by denoising.
    pub first_kept: usize,
    /// Send gaps after denoising.
    pub denoised_send: Vec<f64>,
    /// Receive gaps after denoising.
    pub denoised_receive: Vec<f64>,
}

/// Draws the gaps of one stream before and after denoising, one panel above the other.
pub fn gaps(series: &GapSeries) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 560)).into_drawing_area();
        area.fill(&WHITE)?;
        let (upper, lower) = area.split_vertically(280);
        let raw_top = series.receive.iter().copied().fold(1.0, f64::max) * 1.1;
        let both = [&series.denoised_send, &series.denoised_receive];
        let denoised_top = both.into_iter().flatten().copied().fold(1.0, f64::max) * 1.35;
        let length = series.send.len().max(1);
        let panel = Panel { length, title: "as received", top: raw_top };
        panel.draw(&upper, 0, &series.send, &series.receive, CONTRAST)?;
        let panel = Panel { length, title: "after BASS", top: denoised_top };
        panel.draw(&lower, series.first_kept, &series.denoised_send, &series.denoised_receive, ESTIMATE)?;
        area.present()?;
    }
    Ok(svg)
}

struct Panel {
    length: usize,
    title: &'static str,
    top: f64,
}

impl Panel {
    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        first: usize,
        send: &[f64],
        receive: &[f64],
        colour: RGBColor,
    ) -> Result<(), CannotDraw> {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(self.title, (FONT, 16).into_font().color(&TEXT))
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..self.length as f64, 0.0..self.top)?;
        axes(&mut chart, "packet", "gap, us")?;
        let points = |values: &[f64]| {
            values.iter().enumerate().map(|(i, v)| ((first + i) as f64, *v)).collect::<Vec<_>>()
        };
        chart
            .draw_series(LineSeries::new(points(send), TEXT.stroke_width(2)))?
            .label("send gaps")
            .legend(line_sample(TEXT));
        chart
            .draw_series(LineSeries::new(points(receive), colour.stroke_width(2)))?
            .label("receive gaps")
            .legend(line_sample(colour));
        legend(&mut chart)?;
        Ok(())
    }
}
