//! Tests of scenarios, by subject.

use std::path::Path;

use headway_queue::{Level, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::*;

mod flows;
mod links;
mod middleboxes;
mod reading;
mod reference;
mod select;

const GOOD: &str = r#"duration = "10 s"
warmup = "2 s"
nodes = ["a", "left", "right", "b"]

[[link]]
from = "a"
to = "left"

[[link]]
from = "left"
to = "right"
rate = "100 Mb/s"
delay = "10 ms"
buffer = "100 packets"
police = { rate = "90 Mb/s", burst = "15 kB" }

[[link]]
from = "right"
to = "b"

[[flow]]
from = "a"
to = "b"
count = 4
controller = "reno"
start = "1 s"
stagger = "100 ms"

[[traffic]]
from = "left"
to = "right"
model = "cbr"
rate = "10 Mb/s"
"#;

fn read(text: &str, changes: &[&str]) -> Result<Scenario, Error> {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::parse(text, Path::new("x.toml"), &changes)
}

/// Returns the error of the scenario with `from` replaced by `to`.
fn error(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from}");
    read(&text, &[]).unwrap_err().to_string()
}

/// Reads a table: a row of each line, and cells between bars, in which `//` stands for the end of a
/// line.
fn rows<const CELLS: usize>(table: &str) -> impl Iterator<Item = [String; CELLS]> {
    table.trim().lines().map(|row| {
        let mut cells =
            row.split('|').map(|cell| cell.split("//").map(str::trim).collect::<Vec<_>>().join("\n"));
        let row = std::array::from_fn(|_| cells.next().expect(row));
        assert_eq!(cells.next(), None, "{row:?}");
        row
    })
}

fn mbps(mbps: f64) -> Rate {
    Rate::from_mbps(mbps)
}

/// Builds a scenario of two nodes and one link with the given keys, followed by the rest of the file.
fn one_link(link: &str, rest: &str) -> String {
    format!("duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\n{link}\n{rest}")
}

const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";

/// Reads one link of 10 Mb/s with these keys, and a flow with these.
fn with_keys(link: &str, flow: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"5 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n{link}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n{flow}\n"
    );
    Scenario::parse(&text, Path::new("x.toml"), &[]).map_err(|error| error.to_string())
}
