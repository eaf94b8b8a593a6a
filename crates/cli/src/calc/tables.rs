//! `headway calc tables`: the tables of fair windows printed in the LS-AIMD thesis.

use clap::Args;
use headway_core::calculate::{Published, TABLES};
use headway_core::{Duration, Rate};
use serde::Serialize;

use super::print_json;
use crate::out::print_line;
use crate::run::table::table;

/// Prints the thesis' tables of fair windows, in segments: Q0 (principle), Q1 (data centre), Q2 (broadband),
/// Q3 (processes on one host).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway calc tables
  headway calc tables Q1 Q3
  headway calc tables Q0 --json")]
pub(super) struct TablesArgs {
    /// Which tables to print [default: all].
    #[arg(value_name = "NAME", ignore_case = true, value_parser = clap::builder::PossibleValuesParser::new(TABLES.map(|table| table.name)))]
    names: Vec<String>,
    /// Print one JSON array, with an object for every cell.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Serialize)]
struct Cell {
    table: &'static str,
    flows: u32,
    frame_bytes: u64,
    rate_bps: u64,
    rtt_ns: i64,
    /// A flow's fair share of the bandwidth-delay product, bits.
    fair_bits: f64,
    window: f64,
    /// The window as printed in the thesis.
    printed: String,
}

pub(super) fn run(args: &TablesArgs) -> anyhow::Result<()> {
    let chosen = |table: &&Published| {
        args.names.is_empty() || args.names.iter().any(|name| name.eq_ignore_ascii_case(table.name))
    };
    let tables = TABLES.iter().filter(chosen);
    if args.json {
        return print_json(&tables.flat_map(cells).collect::<Vec<_>>());
    }
    for (index, table) in tables.enumerate() {
        if index > 0 {
            print_line!();
        }
        print_line!("{}, {}, frames of {} B", table.name, table.title, table.frame);
        print(table);
    }
    Ok(())
}

fn cells(table: &'static Published) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &flows in table.flows {
        for &mbps in table.mbps {
            for &rtt in table.rtts {
                let share = table.shared_link(flows, mbps, rtt);
                cells.push(Cell {
                    table: table.name,
                    flows,
                    frame_bytes: table.frame,
                    rate_bps: share.rate.bps(),
                    rtt_ns: share.rtt.ns(),
                    fair_bits: share.bits() / f64::from(flows),
                    window: share.window(),
                    printed: table.window(&share),
                });
            }
        }
    }
    cells
}

/// Prints a table with rates downwards and RTTs across; the first table has several numbers of flows.
fn print(published: &Published) {
    let mut header = vec!["flows, rate".to_owned()];
    header.extend(published.rtts.iter().map(|rtt| Duration::from_us(*rtt).to_string()));
    let mut rows = Vec::new();
    for &flows in published.flows {
        for &mbps in published.mbps {
            let rate = Rate::from_bps(mbps * 1_000_000);
            let mut row = vec![format!("{flows}, {rate}")];
            row.extend(
                published.rtts.iter().map(|rtt| published.window(&published.shared_link(flows, mbps, *rtt))),
            );
            rows.push(row);
        }
    }
    print_line!("{}", table(header, rows));
}
