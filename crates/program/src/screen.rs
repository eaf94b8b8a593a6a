//! A part of the terminal that is redrawn in place.

use console::{Term, measure_text_width};

/// Size of a terminal that does not tell it, or says that it is 0, as serial lines do.
const SIZE: (u16, u16) = (24, 80);

/// The part of the terminal with the live table.
pub struct Screen {
    /// `None` where there is no live table.
    term: Option<Term>,
    /// The widths of the lines drawn.
    drawn: Vec<usize>,
}

impl Screen {
    /// Creates a screen; `wanted` is whether there is a live table where standard output is a
    /// terminal that can redraw.
    pub fn new(wanted: bool) -> Screen {
        let redraws = std::env::var_os("TERM").is_some_and(|name| name != "dumb");
        let term = Some(Term::stdout()).filter(|term| wanted && redraws && term.is_term());
        Screen { term, drawn: Vec::new() }
    }

    /// Whether anything that is shown can be seen.
    pub const fn is_live(&self) -> bool {
        self.term.is_some()
    }

    /// Returns height and width.
    pub fn size(&self) -> (usize, usize) {
        let told = self.term.as_ref().and_then(Term::size_checked);
        let size = told.filter(|(height, width)| *height > 0 && *width > 0).unwrap_or(SIZE);
        (size.0.into(), size.1.into())
    }

    /// Replaces the table.
    pub fn show(&mut self, lines: &[String]) {
        self.clear();
        let Some(term) = &self.term else { return };
        for line in lines {
            if term.write_line(line).is_ok() {
                self.drawn.push(measure_text_width(line));
            }
        }
    }

    /// Removes the table. A terminal that fails shows nothing, and nothing depends on it.
    pub fn clear(&mut self) {
        // A terminal that became narrower has wrapped the lines.
        let (height, width) = self.size();
        let lines = self.drawn.drain(..).map(|drawn| drawn.div_ceil(width.max(1)).max(1)).sum::<usize>();
        if let Some(term) = &self.term {
            let _ = term.clear_last_lines(lines.min(height.saturating_sub(1)));
        }
    }
}
