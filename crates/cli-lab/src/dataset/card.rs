//! The card of a data set: how it was made.

use std::fmt;
use std::path::Path;

use headway_dataset::Part;
use headway_program::build::BUILD;
use serde::Serialize;

/// How many rows there are.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counts {
    pub(super) rows_train: u64,
    pub(super) rows_test: u64,
    pub(super) runs_train: u64,
    pub(super) runs_test: u64,
    /// Streams that lost a packet, or windows with too few samples.
    pub(super) rows_left_out: u64,
}

impl Counts {
    /// Adds a run that gave `rows` of `all` rows.
    pub(super) fn add(&mut self, part: Part, rows: u64, all: u64) {
        let (sum, runs) = match part {
            Part::Train => (&mut self.rows_train, &mut self.runs_train),
            Part::Test => (&mut self.rows_test, &mut self.runs_test),
        };
        *sum += rows;
        *runs += 1;
        self.rows_left_out += all.saturating_sub(rows);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { rows_train, rows_test, runs_train, runs_test, rows_left_out } = self;
        write!(
            f,
            "{rows_train} rows of {runs_train} runs for training, {rows_test} of {runs_test} for tests"
        )?;
        write!(f, ", {rows_left_out} left out")
    }
}

/// What a card says.
pub(super) struct Card<'a> {
    /// What the rows are, at the beginning of a sentence.
    pub(super) kind: &'static str,
    /// The same in the middle of one.
    pub(super) unit: &'static str,
    /// The plan as written.
    pub(super) plan: &'a str,
}

impl Card<'_> {
    /// Returns the card in Markdown.
    pub(super) fn text(&self, table: &Path, hash: &str, counts: &Counts) -> String {
        let name = table.file_name().unwrap_or_default().display();
        let Card { kind, unit, plan } = self;
        let left_out = match *unit {
            "streams" => "streams that lost a packet",
            _ => "windows with fewer than four samples, or before the capacity was known",
        };
        let Counts { rows_train, rows_test, runs_train, runs_test, rows_left_out } = counts;
        format!(
            "# {kind}: {name}

{kind} from the simulator of Headway {BUILD}, with the true available bandwidth (`free_bps`): the capacity of the
bottleneck minus the cross traffic that left it meanwhile. They are simulated; no packet was sent.

| | rows | runs |
|---|---|---|
| for training (`part` is `train`) | {rows_train} | {runs_train} |
| for tests (`test`) | {rows_test} | {runs_test} |

Split by run: {unit} of one run have nearly the same truth. Left out: {rows_left_out} {left_out}.
Names of columns end in the unit: `_ns`, `_bps`, `_bytes`. Rates count all bytes on the wire.

- SHA-256 of the table: `{hash}`
- Licence of the data: CC0 1.0 (public domain)
- Made by `headway dataset`; the same version makes the same bytes from this plan:

```toml
{}
```
",
            plan.trim_end()
        )
    }
}
