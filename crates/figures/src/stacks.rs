//! Stacked bars: the shares of streams judged right, wrong, and so on.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::CannotDraw;
use crate::style::{self, FONT, TEXT};

/// One bar.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Label below the bar.
    pub label: String,
    /// Its parts, from the bottom up, in percent.
    pub parts: [f64; 4],
}

/// A pair of axes with bars.
#[derive(Clone, Debug)]
pub struct StackPanel {
    /// Title above the bars.
    pub title: String,
    /// The bars.
    pub stacks: Vec<Stack>,
}

/// Colours of the parts, from the bottom up.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 90, 181), RGBColor(213, 94, 0), RGBColor(200, 200, 200), RGBColor(90, 90, 90)];

const PANEL: (u32, u32) = (330, 230);
const LEGEND_HEIGHT: u32 = 34;

pub(crate) fn svg(
    panels: &[StackPanel],
    columns: usize,
    names: &[&str; 4],
    axis: &str,
) -> Result<String, CannotDraw> {
    let columns = columns.clamp(1, 4).min(panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    {
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + LEGEND_HEIGHT);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (legend, below) = area.split_vertically(LEGEND_HEIGHT);
        draw_legend(&legend, names)?;
        for (panel, area) in panels.iter().zip(below.split_evenly((rows, columns))) {
            draw(panel, axis, &area)?;
        }
        area.present()?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_legend(area: &Area<'_>, names: &[&str; 4]) -> Result<(), CannotDraw> {
    let text = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Center));
    let used = names.iter().zip(COLOURS).filter(|(name, _)| !name.is_empty());
    for (index, (name, colour)) in used.enumerate() {
        let x = 50 + 90 * index as i32;
        area.draw(&Rectangle::new([(x, 12), (x + 14, 26)], colour.filled()))?;
        area.draw(&Text::new(*name, (x + 20, 19), text.clone()))?;
    }
    Ok(())
}

fn draw(panel: &StackPanel, axis: &str, area: &Area<'_>) -> Result<(), CannotDraw> {
    let count = panel.stacks.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(&panel.title, (FONT, 15).into_font().color(&TEXT))
        .x_label_area_size(40)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..count, 0.0..100.0)?;
    // The bars are labelled below them, not at the ticks of the axis.
    style::axes(&mut chart, (axis, "streams, %"), &|_| String::new(), &style::number(100.0))?;
    let below = (FONT, 12).into_font().color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
    for (index, stack) in panel.stacks.iter().enumerate() {
        let x = index as f64;
        let mut from = 0.0;
        for (part, colour) in stack.parts.iter().zip(COLOURS) {
            let bar = Rectangle::new([(x + 0.1, from), (x + 0.9, from + part)], colour.filled());
            chart.draw_series([bar])?;
            from += part;
        }
        let (left, bottom) = chart.backend_coord(&(x + 0.5, 0.0));
        let base = area.get_base_pixel();
        let place = (left - base.0, bottom - base.1 + 5);
        area.draw(&Text::new(stack.label.clone(), place, below.clone()))?;
    }
    Ok(())
}
