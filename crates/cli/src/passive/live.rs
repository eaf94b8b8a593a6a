//! The live table: a line per path, made to fit the terminal, and redrawn in place.

use console::{measure_text_width, pad_str, truncate_str};
use headway_passive::{PathRow, Tracker};

use super::names::Names;
use super::table::{COLUMNS, path_cells, summary};
use headway_program::out::escape_controls;

/// Lines besides those of paths: headings, how many paths are not shown, summary, lost packets,
/// how to end, the cursor.
const FRAME: usize = 6;
/// Space between columns.
const GAP: usize = 2;
/// A longer path is shortened to this before columns are left out.
const PATH: usize = 22;
/// Columns that a narrow terminal does not show, the first to go first: flows, RTT,
/// capacity, limited by, rate.
const EXPENDABLE: [usize; 5] = [1, 3, 4, 6, 2];

/// Formats the lines of a terminal of this height and width.
pub(super) fn lines(
    rows: &[PathRow],
    tracker: &Tracker,
    drops: u64,
    (height, width): (usize, usize),
    names: &mut Names,
) -> Vec<String> {
    let shown = height.saturating_sub(FRAME).max(1);
    let cells = rows.iter().take(shown).map(|row| path_cells(row, names));
    let mut lines = match rows {
        [] => vec!["No data in this interval.".to_owned()],
        _ => fit(cells.collect(), width),
    };
    match rows.len().saturating_sub(shown) {
        0 => {}
        1 => lines.push("... and 1 path with less data".to_owned()),
        more => lines.push(format!("... and {more} paths with less data")),
    }
    lines.push(summary(tracker));
    if drops > 0 {
        lines.push(format!("{drops} packets were dropped by the kernel: this host cannot keep up."));
    }
    lines.push("Ctrl-C ends.".to_owned());
    lines.iter().map(|line| truncate_str(&escape_controls(line), width, "").into_owned()).collect()
}

/// Formats the lines before the first packet.
pub(super) fn waiting() -> Vec<String> {
    ["No TCP packet yet.", "Ctrl-C ends."].map(str::to_owned).to_vec()
}

/// Formats rows with headings, if possible no wider than `width`: shortens paths, then leaves out columns.
fn fit(mut rows: Vec<Vec<String>>, width: usize) -> Vec<String> {
    rows.insert(0, COLUMNS.map(str::to_owned).to_vec());
    let mut columns: Vec<usize> = (0..COLUMNS.len()).collect();
    let mut widths: Vec<usize> = columns
        .iter()
        .map(|column| rows.iter().map(|row| measure_text_width(&row[*column])).max().unwrap_or(0))
        .collect();
    let mut expendable = EXPENDABLE.iter();
    loop {
        let all = columns.iter().map(|column| widths[*column] + GAP).sum::<usize>() - GAP;
        let excess = all.saturating_sub(width);
        if excess == 0 {
            break;
        }
        let least = widths[0].min(PATH);
        if widths[0] - least >= excess {
            widths[0] -= excess;
            break;
        }
        let Some(column) = expendable.next() else {
            widths[0] = least;
            break;
        };
        columns.retain(|other| other != column);
    }
    let line = |row: &Vec<String>| {
        let cells = columns.iter().map(|column| match column {
            0 => pad_str(&shortened(&row[0], widths[0]), widths[0], console::Alignment::Left, None)
                .into_owned(),
            _ => pad_str(&row[*column], widths[*column], console::Alignment::Right, None).into_owned(),
        });
        cells.collect::<Vec<String>>().join(&" ".repeat(GAP))
    };
    rows.iter().map(line).collect()
}

/// Leaves out the middle of a text that is longer than `width`.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head: String = text.chars().take(kept.div_ceil(2)).collect();
    let tail: String = text.chars().skip(length - kept / 2).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str) -> Vec<String> {
        [path, "1", "26.8 Mb/s", "93.9 ms", "99.3 Mb/s", "26.7 Mb/s (20.1 to 33.0)", "path 100 %"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_narrow_terminal_shortens_paths_and_then_leaves_out_columns() {
        let rows = || vec![row("to 10.77.0.0/24"), row("to fd77:1234:5678:9abc:def0:1111:2222:3333")];
        let width = |lines: &[String]| lines.iter().map(|line| measure_text_width(line)).max();
        let wide = fit(rows(), 200);
        assert!(wide[2].contains("2222:3333") && wide[0].ends_with("limited by"), "{wide:#?}");
        let usual = fit(rows(), 100);
        assert!(usual[2].contains('…') && usual[0].contains("RTT"), "{usual:#?}");
        let narrow = fit(rows(), 64);
        assert!(!narrow[0].contains("capacity") && narrow[1].contains("26.7 Mb/s (20.1 to 33.0)"));
        for (lines, most) in [(usual, 100), (narrow, 64), (fit(rows(), 50), 50)] {
            assert!(width(&lines) <= Some(most), "{lines:#?}");
        }
    }

    #[test]
    fn the_middle_of_a_long_path_is_left_out() {
        assert_eq!(shortened("to 192.0.2.0/24", 15), "to 192.0.2.0/24");
        assert_eq!(shortened("to 2001:db8::1234", 10), "to 20…1234");
    }
}
