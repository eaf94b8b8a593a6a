//! Reliability diagrams: claimed against actual coverage of intervals, as stand-alone SVG text.

use plotters::prelude::*;

use crate::error::CannotDraw;
use crate::style::{self, SERIES, TEXT, legend_at};

/// The coverage of one class, or of all classes together.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Claimed probability, and the share of intervals that contained the truth, both in
    /// percent, in ascending order.
    pub points: Vec<(f64, f64)>,
}

/// Lowest claimed probability on the axis, percent.
const LOWEST: f64 = 45.0;

/// Draws the coverage over all answers in colour, on top of the classes in grey; well-calibrated intervals
/// lie on the diagonal.
pub fn diagram(all: &[Line], classes: &[Line]) -> Result<String, CannotDraw> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (640, 560)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(LOWEST..100.0, 0.0..100.0)?;
        let label = |value: &f64| format!("{value:.0}");
        style::axes(
            &mut chart,
            ("claimed probability, %", "intervals that held the truth, %"),
            &label,
            &label,
        )?;
        chart.draw_series([PathElement::new([(LOWEST, LOWEST), (100.0, 100.0)], TEXT.stroke_width(1))])?;
        let grey = TEXT.mix(0.22);
        for (number, class) in classes.iter().enumerate() {
            let drawn = chart.draw_series(LineSeries::new(class.points.clone(), grey.stroke_width(1)))?;
            if number == 0 {
                drawn
                    .label("each class")
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey.stroke_width(1)));
            }
        }
        for (line, colour) in all.iter().zip(SERIES) {
            chart.draw_series(LineSeries::new(line.points.clone(), colour.stroke_width(3)))?;
            chart
                .draw_series(line.points.iter().map(|point| Circle::new(*point, 5, colour.filled())))?
                .label(&line.name)
                .legend(move |(x, y)| Circle::new((x + 9, y), 5, colour.filled()));
        }
        legend_at(&mut chart, SeriesLabelPosition::LowerRight)?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]
    use super::*;

    #[test]
    fn every_level_has_its_point() {
        let line = |name: &str| Line { name: name.to_owned(), points: vec![(50.0, 40.0), (90.0, 85.0)] };
        let svg = diagram(&[line("response")], &[line("slow"), line("jitter")]).unwrap();
        // Two points, and the one of the legend.
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("each class").count(), 1);
        assert!(svg.contains("claimed probability, %"));
    }
}
