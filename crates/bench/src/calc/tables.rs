//! `headway-bench calc tables`: the tables of fair windows in the LS-AIMD thesis.

use clap::Args;
use headway_formulas::{SharedLink, WINDOW_TABLES, WindowTable};
use headway_program::table::table;
use serde::Serialize;

use super::{flows, print_json};
use headway_program::print_line;

/// Prints the thesis's tables of fair windows, in segments: Q0 (rate and window), Q1 (data centre), Q2
/// (broadband) and Q3 (processes on one host).
///
/// Q0 also has each flow's share in bits per RTT.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench calc tables
  headway-bench calc tables Q1 Q3
  headway-bench calc tables Q0 --json")]
pub(super) struct TablesArgs {
    /// Which tables to print [default: all].
    #[arg(value_name = "NAME", ignore_case = true, value_parser = clap::builder::PossibleValuesParser::new(WINDOW_TABLES.map(|table| table.name)))]
    names: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Cell {
    table: &'static str,
    flows: u32,
    frame_bytes: u64,
    rate_bps: u64,
    rtt_ns: i64,
    /// Each flow's share of the bandwidth-delay product.
    fair_bits: f64,
    /// The fair window, in segments.
    fair_window: f64,
    /// The same as the thesis prints it.
    printed: String,
}

pub(super) fn run(args: &TablesArgs, json: bool) -> anyhow::Result<()> {
    let is_chosen = |table: &&WindowTable| {
        args.names.is_empty() || args.names.iter().any(|name| name.eq_ignore_ascii_case(table.name))
    };
    let chosen = WINDOW_TABLES.iter().filter(is_chosen);
    if json {
        return print_json(&chosen.flat_map(cells).collect::<Vec<_>>());
    }
    for (index, table) in chosen.enumerate() {
        if index > 0 {
            print_line!();
        }
        let share = if has_bits(table) { "share of an RTT in bits, and " } else { "" };
        let WindowTable { name, title, frame, .. } = table;
        print_line!("{name}: {title}, frames of {frame} B; {share}window in segments");
        print(table);
    }
    Ok(())
}

fn cells(table: &WindowTable) -> impl Iterator<Item = Cell> {
    table.rows().flatten().map(|link| Cell {
        table: table.name,
        flows: link.flows,
        frame_bytes: link.frame.get(),
        rate_bps: link.rate.bps(),
        rtt_ns: link.rtt.ns(),
        fair_bits: link.fair_bits(),
        fair_window: link.window(),
        printed: table.window(&link),
    })
}

/// Whether the thesis prints bits per RTT beside windows.
fn has_bits(table: &WindowTable) -> bool {
    table.name == "Q0"
}

/// Prints a table with rates downwards and RTTs across.
fn print(published: &WindowTable) {
    let text = |link: &SharedLink| match has_bits(published) {
        true => format!("{} kb, {}", link.fair_bits() / 1e3, published.window(link)),
        false => published.window(link),
    };
    let rtts = published.rows().next().unwrap_or_default();
    let header: Vec<String> =
        std::iter::once(String::new()).chain(rtts.iter().map(|link| link.rtt.to_string())).collect();
    let rows = published.rows().map(|links| {
        let first = links.first().map(|link| format!("{}, {}", flows(link.flows), link.rate));
        first.into_iter().chain(links.iter().map(text)).collect::<Vec<_>>()
    });
    print_line!("{}", table(header, rows));
}
