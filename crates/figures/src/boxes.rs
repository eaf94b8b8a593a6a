//! Box plots: the error distributions of several estimators, or the delay distributions of
//! several controllers.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::CannotDraw;
use crate::style::{self, CONTRAST, FONT, SERIES, TEXT};

/// The distribution of one estimator's or controller's values.
#[derive(Clone, Debug)]
pub struct BoxMark {
    /// Name of the estimator or controller.
    pub name: String,
    /// 5th, 25th, 50th, 75th and 95th percentiles.
    pub quantiles: [f64; 5],
    /// Whether this is the null estimator, which ignores its input.
    pub null: bool,
}

pub(crate) fn svg(axis: &str, marks: &[BoxMark]) -> Result<String, CannotDraw> {
    let mut svg = String::new();
    {
        let height = 80 + 34 * marks.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (960, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let reach = marks.iter().flat_map(|mark| mark.quantiles).filter(|value| value.is_finite());
        let reach = reach.fold(10.0, |reach: f64, value| reach.max(value.abs())) * 1.05;
        let negative = marks.iter().any(|mark| mark.quantiles.iter().any(|value| *value < 0.0));
        // Without negative values, the axis starts just left of zero.
        let left = if negative { -reach } else { -0.02 * reach };
        let count = marks.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(210)
            .build_cartesian_2d(left..reach, count..0.0)?;
        let name = format!("{axis}: 5th to 95th percentile, quartiles, median");
        style::horizontal_axis(&mut chart, &name, &style::number(reach - left))?;
        let zero = PathElement::new([(0.0, 0.0), (0.0, count)], TEXT.mix(0.5));
        chart.draw_series([zero])?;
        let label = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center));
        for (index, mark) in marks.iter().enumerate() {
            let y = index as f64 + 0.5;
            let name = Text::new(mark.name.clone(), (left, y), label.clone());
            chart.draw_series([name])?;
            if mark.quantiles.iter().all(|value| value.is_finite()) {
                draw(mark, y, &mut chart)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw(mark: &BoxMark, y: f64, chart: &mut style::Chart<'_, '_>) -> Result<(), CannotDraw> {
    let colour = if mark.null { CONTRAST } else { SERIES[0] };
    let [p5, p25, p50, p75, p95] = mark.quantiles;
    let whisker = PathElement::new([(p5, y), (p95, y)], colour.stroke_width(2));
    let ends = [p5, p95].map(|x| PathElement::new([(x, y - 0.15), (x, y + 0.15)], colour.stroke_width(2)));
    let body = Rectangle::new([(p25, y - 0.28), (p75, y + 0.28)], colour.mix(0.35).filled());
    let frame = Rectangle::new([(p25, y - 0.28), (p75, y + 0.28)], colour.stroke_width(1));
    let median = PathElement::new([(p50, y - 0.28), (p50, y + 0.28)], colour.stroke_width(3));
    chart.draw_series([whisker])?;
    chart.draw_series(ends)?;
    chart.draw_series([body, frame])?;
    chart.draw_series([median])?;
    Ok(())
}
