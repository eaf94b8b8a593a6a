//! Tables on the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

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
