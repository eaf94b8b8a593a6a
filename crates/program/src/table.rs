//! Tables on the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Columns between the texts of a table.
const GAP: usize = 3;

/// Formats a table; the first column holds text, the others numbers.
pub fn table(
    header: impl IntoIterator<Item: Into<Cell>>,
    rows: impl IntoIterator<Item: IntoIterator<Item = String>>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(column, text)| {
            let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        }));
    }
    table
}

/// Formats the lines of a table as [`table`] does, each with its end, without holding them in memory: `rows`
/// are asked for twice, first to see how wide they are. Every character takes a column of the terminal.
pub fn lines<R: Iterator<Item = Vec<String>>>(
    header: Vec<&str>,
    rows: impl Fn() -> R,
) -> impl Iterator<Item = String> {
    let length = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = header.iter().map(|text| length(text)).collect();
    rows().for_each(|row| {
        widths.iter_mut().zip(&row).for_each(|(width, text)| *width = length(text).max(*width));
    });
    let all = widths.iter().map(|width| width + GAP).sum::<usize>() - 1;
    let rule = |stroke: &str| stroke.repeat(all) + "\n";
    let line = move |row: Vec<String>, aligned_left: usize| {
        let cells = row.into_iter().zip(&widths).enumerate().map(|(column, (text, width))| {
            if column < aligned_left { format!(" {text:<width$} ") } else { format!(" {text:>width$} ") }
        });
        cells.collect::<Vec<_>>().join(" ") + "\n"
    };
    let names = header.iter().map(|&text| text.to_owned()).collect();
    let (between, end) = (rule("─"), rule("─"));
    let head = [rule("─"), line(names, usize::MAX), rule("═")];
    let rows = rows().enumerate().map(move |(k, row)| {
        let before = if k > 0 { &between[..] } else { "" };
        format!("{before}{}", line(row, 1))
    });
    head.into_iter().chain(rows).chain([end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_whole_table() {
        for count in [0, 1, 7] {
            let rows = || {
                (0..count)
                    .map(|k: usize| vec!["x".repeat(k), format!("{}", k * 3_333), "\u{b5}s".repeat(k % 3)])
            };
            let all: String = lines(vec!["name", "n", "a long head"], rows).collect();
            assert_eq!(all, format!("{}\n", table(["name", "n", "a long head"], rows())));
        }
    }
}
