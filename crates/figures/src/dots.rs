//! Dot plots: dots in groups over bands in which they should lie, as stand-alone SVG text.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::CannotDraw;
use crate::style::{FONT, SERIES, TEXT};

const WIDTH: u32 = 960;
/// Height of the legend.
const HEAD: u32 = 62;
const PANEL: u32 = 230;
/// Height below the last panel, for the names of the groups and of the axis.
const FOOT: u32 = 30;
/// Colour of the band in which dots should lie.
const BAND: RGBColor = RGBColor(214, 214, 214);

/// The value of one metric in one cell.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// The value; infinite values are drawn beyond the end of the axis.
    pub value: f64,
    /// Index of its kind in the legend.
    pub kind: usize,
    /// Whether to draw a filled circle instead of a ring.
    pub filled: bool,
}

/// A group of evenly spaced dots, some of which may be absent.
#[derive(Clone, Debug)]
pub struct Group {
    /// Label below the dots.
    pub name: String,
    /// Half the height of the grey band around zero.
    pub band: Option<f64>,
    /// Dots, from left to right.
    pub dots: Vec<Option<Dot>>,
}

/// One metric of all cells.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Label of the axis, with its unit.
    pub y: String,
    /// The axis spans this much on both sides of zero; dots beyond it become triangles at its end.
    pub limit: f64,
    /// Groups, from left to right.
    pub groups: Vec<Group>,
}

/// The meaning of the dots.
#[derive(Clone, Debug)]
pub struct Legend {
    /// Names of the colours.
    pub kinds: Vec<String>,
    /// Meaning of filled circles.
    pub filled: String,
    /// Meaning of rings.
    pub ring: String,
    /// Meaning of grey bands.
    pub band: String,
    /// Label of the horizontal direction.
    pub x: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws panels one below the other, under a common legend.
pub fn panels(panels: &[Panel], legend: &Legend) -> Result<String, CannotDraw> {
    let mut svg = String::new();
    {
        let height = HEAD + PANEL * panels.len() as u32 + FOOT;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (head, mut rest) = area.split_vertically(HEAD);
        draw_legend(&head, legend)?;
        for panel in panels {
            let (mine, others) = rest.split_vertically(PANEL);
            draw_panel(&mine, panel)?;
            rest = others;
        }
        let style = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
        rest.draw(&Text::new(legend.x.clone(), (WIDTH as i32 / 2, 4), style))?;
        area.present()?;
    }
    Ok(svg)
}

fn draw_legend(area: &Area<'_>, legend: &Legend) -> Result<(), CannotDraw> {
    let style = || (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Left, VPos::Center));
    let step = (WIDTH as i32 - 80) / 3;
    for (place, (name, colour)) in legend.kinds.iter().zip(SERIES).enumerate() {
        let x = 70 + place as i32 * step;
        area.draw(&Circle::new((x, 18), 4, colour.filled()))?;
        area.draw(&Text::new(name.clone(), (x + 12, 18), style()))?;
    }
    area.draw(&Circle::new((70, 44), 4, TEXT.filled()))?;
    area.draw(&Text::new(legend.filled.clone(), (82, 44), style()))?;
    area.draw(&Circle::new((70 + step, 44), 4, TEXT.stroke_width(1)))?;
    area.draw(&Text::new(legend.ring.clone(), (82 + step, 44), style()))?;
    area.draw(&Rectangle::new([(62 + 2 * step, 37), (78 + 2 * step, 51)], BAND.filled()))?;
    area.draw(&Text::new(legend.band.clone(), (84 + 2 * step, 44), style()))?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), CannotDraw> {
    let (count, limit) = (panel.groups.len().max(1) as f64, panel.limit);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..count, -limit * 1.08..limit * 1.08)?;
    for (index, group) in panel.groups.iter().enumerate() {
        if let Some(band) = group.band {
            let corners = [(index as f64, -band.min(limit)), (index as f64 + 1.0, band.min(limit))];
            chart.draw_series([Rectangle::new(corners, BAND.filled())])?;
        }
    }
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.12))
        .axis_style(TEXT)
        .label_style((FONT, 14).into_font().color(&TEXT))
        .y_desc(panel.y.clone())
        .y_labels(5)
        .y_label_formatter(&|value| signed(*value))
        .draw()?;
    chart.draw_series([PathElement::new([(0.0, 0.0), (count, 0.0)], TEXT.stroke_width(1))])?;
    let label = (FONT, 14).into_font().color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
    for (index, group) in panel.groups.iter().enumerate() {
        let left = index as f64;
        if index > 0 {
            let line = [(left, -limit * 1.08), (left, limit * 1.08)];
            chart.draw_series([PathElement::new(line, TEXT.mix(0.5))])?;
        }
        let below = EmptyElement::at((left + 0.5, -limit * 1.08))
            + Text::new(group.name.clone(), (0, 6), label.clone());
        chart.draw_series([below])?;
        draw_dots(&mut chart, group, left, limit)?;
    }
    Ok(())
}

fn draw_dots(chart: &mut Plane<'_, '_>, group: &Group, left: f64, limit: f64) -> Result<(), CannotDraw> {
    let step = 1.0 / (group.dots.len() + 1) as f64;
    for (place, dot) in group.dots.iter().enumerate() {
        let Some(dot) = dot else { continue };
        let x = left + (place + 1) as f64 * step;
        let colour = SERIES[dot.kind % SERIES.len()];
        let style = if dot.filled { colour.filled() } else { colour.stroke_width(1) };
        if dot.value.abs() <= limit {
            chart.draw_series([Circle::new((x, dot.value), 3, style)])?;
            continue;
        }
        let tip = if dot.value > 0.0 { -5 } else { 5 };
        let corners = vec![(-4, 0), (4, 0), (0, tip), (-4, 0)];
        let at = EmptyElement::at((x, limit.copysign(dot.value)));
        if dot.filled {
            chart.draw_series([at + Polygon::new(corners, style)])?;
        } else {
            chart.draw_series([at + PathElement::new(corners, style)])?;
        }
    }
    Ok(())
}

/// Formats a number with its sign and without trailing zeros.
fn signed(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    if rounded == 0.0 { "0".to_owned() } else { format!("{rounded:+}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_beyond_the_axis_become_triangles() {
        let dot = |value| Some(Dot { value, kind: 0, filled: true });
        let dots = vec![dot(1.0), dot(-3.0), None, dot(99.0), dot(f64::NEG_INFINITY)];
        let group = Group { name: "reno".to_owned(), band: Some(3.0), dots };
        let panel = Panel { y: "goodput, %".to_owned(), limit: 10.0, groups: vec![group] };
        let text = |text: &str| text.to_owned();
        let legend = Legend {
            kinds: vec![text("1 Gb/s")],
            filled: text("one flow"),
            ring: text("four flows"),
            band: text("band"),
            x: text("controller"),
        };
        let svg = panels(&[panel], &legend).unwrap();
        // One circle for each kind, two for the shapes, and two dots.
        assert_eq!(svg.matches("<circle").count(), 5);
        assert_eq!(svg.matches("<polygon").count(), 2);
        assert!(["goodput, %", "1 Gb/s", "four flows", "controller"].iter().all(|word| svg.contains(word)));
    }
}
