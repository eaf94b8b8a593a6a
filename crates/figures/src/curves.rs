//! Panels of curves on common axes.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::CannotDraw;
use crate::style::{self, Chart, FONT, SERIES, TEXT, TRUTH};

/// A series of points, optionally with an interval at each.
#[derive(Clone, Debug)]
pub struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    intervals: Vec<(f64, f64)>,
    line: bool,
    /// Whether it is drawn in grey, as something to compare the others with.
    reference: bool,
}

impl Curve {
    /// A curve whose points are joined by lines.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.to_owned(), points, intervals: Vec::new(), line: true, reference: false }
    }

    /// A curve in grey that others are compared with, such as a capacity; to be added after them.
    pub fn reference(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { reference: true, ..Curve::line(name, points) }
    }

    /// A curve of separate points.
    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { line: false, ..Curve::line(name, points) }
    }

    /// A curve with an interval, lower and upper end, at each point.
    pub fn intervals(name: &str, points: Vec<(f64, f64)>, intervals: Vec<(f64, f64)>) -> Curve {
        Curve { intervals, ..Curve::line(name, points) }
    }
}

/// A pair of axes with curves.
#[derive(Clone, Debug)]
pub struct Panel {
    title: String,
    axes: (String, String),
    curves: Vec<Curve>,
    logarithmic: bool,
    /// Range that the vertical axis always covers.
    y_range: Option<(f64, f64)>,
}

impl Panel {
    /// A panel without curves.
    pub fn new(title: &str, x: &str, y: &str) -> Panel {
        Panel {
            title: title.to_owned(),
            axes: (x.to_owned(), y.to_owned()),
            curves: Vec::new(),
            logarithmic: false,
            y_range: None,
        }
    }

    /// Adds a curve.
    pub fn with(mut self, curve: Curve) -> Panel {
        self.curves.push(curve);
        self
    }

    /// Makes the vertical axis logarithmic; values that are not positive are omitted.
    pub fn logarithmic(self) -> Panel {
        Panel { logarithmic: true, ..self }
    }

    /// Makes the vertical axis cover at least `low` to `high`, so that insignificant differences look small.
    pub fn with_y_range(self, low: f64, high: f64) -> Panel {
        Panel { y_range: Some((low, high)), ..self }
    }

    /// Converts a value to a coordinate on the vertical axis.
    fn height(&self, value: f64) -> f64 {
        if self.logarithmic { value.log10() } else { value }
    }

    /// Returns the drawable points of a curve.
    fn points(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let drawn = curve.points.iter().map(|(x, y)| (*x, self.height(*y)));
        drawn.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    }

    /// Returns the ranges of both axes that cover all points and intervals.
    fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let (mut x, mut y) = (Limits::new(), Limits::new());
        for curve in &self.curves {
            self.points(curve).iter().for_each(|point| {
                x.include(point.0);
                y.include(point.1);
            });
            for (low, high) in &curve.intervals {
                y.include(self.height(*low));
                y.include(self.height(*high));
            }
        }
        for end in self.y_range.iter().flat_map(|(low, high)| [*low, *high]) {
            y.include(self.height(end));
        }
        if !self.logarithmic && y.low > 0.0 && y.low < 0.5 * y.high {
            y.low = 0.0;
        }
        let (low, high) = y.ends();
        let (left, right) = x.ends();
        // Lines may start on an axis; dots there would be cut in half.
        let beside = if self.curves.iter().all(|curve| curve.line) { 0.0 } else { 0.02 * (right - left) };
        ((left - beside, right + beside), (low - 0.04 * (high - low), high + 0.04 * (high - low)))
    }
}

struct Limits {
    low: f64,
    high: f64,
}

impl Limits {
    fn new() -> Limits {
        Limits { low: f64::INFINITY, high: f64::NEG_INFINITY }
    }

    fn include(&mut self, value: f64) {
        if value.is_finite() {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
        }
    }

    /// Returns two different numbers, whatever was included.
    fn ends(&self) -> (f64, f64) {
        // Otherwise the steps between axis labels would be lost to rounding.
        let apart = self.high - self.low > 1e-9 * self.low.abs().max(self.high.abs());
        match (self.low.is_finite(), apart) {
            (true, true) => (self.low, self.high),
            (true, false) => (self.low - 0.5, self.low + 0.5),
            _ => (0.0, 1.0),
        }
    }
}

const WIDTH: u32 = 960;
/// Approximate width of a letter in the names beside a panel, px, and the width around a name for its line
/// sample.
const LETTER: u32 = 8;
const LINE_SAMPLE: u32 = 40;
/// Line height of the names beside a panel, px.
const LINE: i32 = 18;
const PANEL_HEIGHT: u32 = 330;

pub(crate) fn svg(panels: &[Panel]) -> Result<String, CannotDraw> {
    let mut svg = String::new();
    {
        let height = PANEL_HEIGHT * panels.len().max(1) as u32;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        // The same for all panels, so that their horizontal axes lie below each other.
        let beside = panels.iter().map(names_width).max().unwrap_or(0);
        for (panel, area) in panels.iter().zip(area.split_evenly((panels.len().max(1), 1))) {
            draw(panel, &area, beside)?;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw(
    panel: &Panel,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    beside: u32,
) -> Result<(), CannotDraw> {
    let ((left, right), (low, high)) = panel.ranges();
    let (area, beside) = area.split_horizontally(WIDTH - beside);
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).x_label_area_size(44).y_label_area_size(64);
    if !panel.title.is_empty() {
        builder.caption(&panel.title, (FONT, 16).into_font().color(&TEXT));
    }
    let mut chart = builder.build_cartesian_2d(left..right, low..high)?;
    let plain = style::number(high - low);
    let power = |value: &f64| style::significant(10f64.powf(*value)).to_string();
    let y_label: &dyn Fn(&f64) -> String = if panel.logarithmic { &power } else { &plain };
    style::axes(&mut chart, (&panel.axes.0, &panel.axes.1), &style::number(right - left), y_label)?;
    // What a curve is compared with lies behind it.
    let (behind, before): (Vec<_>, Vec<_>) = coloured(panel).partition(|(curve, _)| curve.reference);
    for (curve, colour) in behind.into_iter().chain(before) {
        draw_curve(panel, curve, colour, &mut chart)?;
    }
    draw_names(panel, &beside)
}

/// Iterates over the curves with their colours.
fn coloured(panel: &Panel) -> impl Iterator<Item = (&Curve, RGBColor)> {
    let colours = panel.curves.iter().zip(SERIES.iter().cycle());
    colours.map(|(curve, colour)| (curve, if curve.reference { TRUTH } else { *colour }))
}

/// Returns the width of the curve names beside a panel, px; zero for a single curve.
fn names_width(panel: &Panel) -> u32 {
    let longest = panel.curves.iter().map(|curve| curve.name.chars().count()).max();
    longest.filter(|_| panel.curves.len() > 1).map_or(0, |letters| LINE_SAMPLE + LETTER * letters as u32)
}

/// Draws the names of the curves beside the panel, where they hide none of them.
fn draw_names(
    panel: &Panel,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), CannotDraw> {
    if panel.curves.len() < 2 {
        return Ok(());
    }
    let font = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Center));
    for (row, (curve, colour)) in coloured(panel).enumerate() {
        let y = 52 + LINE * row as i32;
        if curve.line {
            let line = PathElement::new([(0, y), (18, y)], colour.stroke_width(2));
            area.draw(&line)?;
        } else {
            area.draw(&Circle::new((9, y), 4, colour.filled()))?;
        }
        let name = Text::new(curve.name.clone(), (26, y), font.clone());
        area.draw(&name)?;
    }
    Ok(())
}

fn draw_curve(
    panel: &Panel,
    curve: &Curve,
    colour: RGBColor,
    chart: &mut Chart<'_, '_>,
) -> Result<(), CannotDraw> {
    let points = panel.points(curve);
    for ((x, y), (low, high)) in curve.points.iter().zip(&curve.intervals) {
        let [low, y, high] = [*low, *y, *high].map(|value| panel.height(value));
        if low.is_finite() && high.is_finite() {
            let bar = ErrorBar::new_vertical(*x, low, y, high, colour.filled(), 4);
            chart.draw_series([bar])?;
        }
    }
    if curve.line {
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    } else {
        let dots = points.into_iter().map(|point| Circle::new(point, 4, colour.filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}
