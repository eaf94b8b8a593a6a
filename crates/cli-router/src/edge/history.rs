//! `headway edge history`: what an edge router kept.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use headway_edge::snapshot::DecisionState;
use headway_history::{Point, Range, Reader, Step};
use headway_program::{out, print_line};
use headway_units::Rate;
use serde_json::json;

/// Where a history is unless somebody says another file; the service has this folder.
pub(super) const FILE: &str = "/var/lib/headway/edge.history";
/// Longer times are shown in minutes, unless somebody asks for seconds.
const HOUR: Duration = Duration::from_secs(3_600);

/// Shows what an edge router with `--history` kept: rates and available bandwidth, or its
/// decisions with their reasons.
///
/// It has every second for a day and every minute for a year, and may be read while the edge runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudo headway edge history                                # the last hour\n  \
    sudo headway edge history --since 1d --csv > day.csv\n  \
    sudo headway edge history --since 2026-11-01 --until 2026-11-02 --decisions")]
pub(crate) struct HistoryArgs {
    /// The file that the edge was given.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// From when: a time before now, such as `1d`, or a date such as `2026-11-27 09:00:00`, in UTC.
    #[arg(long, value_name = "WHEN", default_value = "1h", value_parser = when)]
    since: When,
    /// Until when.
    #[arg(long, value_name = "WHEN", default_value = "0s", value_parser = when)]
    until: When,
    /// A row for each second, or for each minute; otherwise seconds up to an hour, and minutes for more.
    #[arg(long, value_name = "STEP", conflicts_with = "decisions")]
    step: Option<RowStep>,
    /// Show decisions instead.
    #[arg(long)]
    decisions: bool,
    /// Write comma-separated values, with a header.
    #[arg(long)]
    csv: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RowStep {
    Second,
    Minute,
}

/// A time, or how long before now.
#[derive(Clone, Copy, Debug)]
enum When {
    At(SystemTime),
    Ago(Duration),
}

fn when(text: &str) -> Result<When, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(When::Ago(ago));
    }
    let date = if text.len() == "2026-11-27".len() { format!("{text} 00:00:00") } else { text.to_owned() };
    let at = humantime::parse_rfc3339_weak(&date);
    at.map(When::At)
        .map_err(|_| "it is neither a time such as `6h` nor a date such as `2026-11-27 09:00:00`".to_owned())
}

impl When {
    /// Returns the time since 1970, ms.
    fn ms(self, now: SystemTime) -> u64 {
        let at = match self {
            When::At(at) => at,
            When::Ago(ago) => now.checked_sub(ago).unwrap_or(UNIX_EPOCH),
        };
        at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}

/// Runs the subcommand.
///
/// # Errors
/// When there is no history that can be read.
pub(super) fn run(args: &HistoryArgs, json: bool) -> Result<()> {
    let now = SystemTime::now();
    let range = Range { since_ms: args.since.ms(now), until_ms: args.until.ms(now) };
    anyhow::ensure!(range.since_ms <= range.until_ms, "`--since` is after `--until`; exchange them");
    let reader = Reader::open(&args.file).with_context(|| {
        format!(
            "`headway edge --history {}` writes one; reading that of root takes root",
            args.file.display()
        )
    })?;
    let form = match (json, args.csv) {
        (true, _) => Form::Json,
        (false, true) => Form::Csv,
        (false, false) => Form::Text,
    };
    if args.decisions {
        return decisions(&reader, range, form);
    }
    let is_long = range.until_ms - range.since_ms > HOUR.as_millis() as u64;
    let step = match args.step {
        Some(RowStep::Second) => Step::Second,
        Some(RowStep::Minute) => Step::Minute,
        None if is_long => Step::Minute,
        None => Step::Second,
    };
    points(&reader, step, range, form)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Csv,
    Json,
}

fn points(reader: &Reader, step: Step, range: Range, form: Form) -> Result<()> {
    let mut count = 0_u64;
    reader.points(step, range, |point: Point| {
        count += 1;
        match form {
            Form::Json => print_line!("{}", json!(point)),
            Form::Csv => print_line!("{}", csv_lines(|rows| rows.serialize(point), count == 1)?),
            Form::Text => {
                if count == 1 {
                    print_line!("{HEADER}");
                }
                print_line!("{}", line(&point));
            }
        }
        out::check()
    })?;
    if count == 0 && form == Form::Text {
        print_line!("There is nothing of this time.");
    }
    out::check()
}

const HEADER: &str = "time (UTC)                 down   available (interval)                         up   available (interval)                      flows";

fn line(point: &Point) -> String {
    let rate = |bps| Rate::from_bps(bps).to_string();
    let free = |[free, low, high]: [Option<u64>; 3]| match (free, low, high) {
        (Some(free), Some(low), Some(high)) => format!("{} ({} to {})", rate(free), rate(low), rate(high)),
        _ => "-".to_owned(),
    };
    let down = [point.down_available_bps, point.down_available_low_bps, point.down_available_high_bps];
    let up = [point.up_available_bps, point.up_available_low_bps, point.up_available_high_bps];
    format!(
        "{}  {:>10}   {:<38}  {:>10}   {:<38}  {:>6}",
        time(point.time_ms),
        rate(point.down_bps),
        free(down),
        rate(point.up_bps),
        free(up),
        point.flows
    )
}

/// Formats a time since 1970, which may be any number in a file.
fn time(ms: u64) -> String {
    /// The last second of the year 9999, ms.
    const LAST: u64 = 253_402_300_799_000;
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms.min(LAST))).to_string()
}

/// Returns a row, and the header before it if asked for, without the end of the last line.
fn csv_lines(
    write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> Result<(), csv::Error>,
    header: bool,
) -> Result<String> {
    let mut rows = csv::WriterBuilder::new().has_headers(header).from_writer(Vec::new());
    write(&mut rows)?;
    let mut lines = String::from_utf8(rows.into_inner()?)?;
    lines.truncate(lines.trim_end().len());
    Ok(lines)
}

fn decisions(reader: &Reader, range: Range, form: Form) -> Result<()> {
    if form == Form::Csv {
        print_line!("time_ms,flow,client,server,behaviour,strategies,sentence");
    }
    let mut count = 0_u64;
    reader.decisions(range, |decision: DecisionState| {
        count += 1;
        let DecisionState { time_ms, flow, client, server, behaviour, strategies, sentence } = &decision;
        match form {
            Form::Json => print_line!("{}", json!(decision)),
            Form::Csv => {
                let names = strategies.join(" ");
                let row = (time_ms, flow, client.to_string(), server.to_string(), behaviour, names, sentence);
                print_line!("{}", csv_lines(|rows| rows.serialize(row), false)?);
            }
            Form::Text => print_line!("{}  {client} {server} ({behaviour}) {sentence}", time(*time_ms)),
        }
        out::check()
    })?;
    if count == 0 && form == Form::Text {
        print_line!("There are no decisions of this time.");
    }
    out::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spans_before_now_or_dates() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_642_523);
        let ms = |text: &str| when(text).map(|when| when.ms(now));
        assert_eq!(ms("1d"), Ok((1_795_642_523 - 86_400) * 1_000));
        // `date -u -d '2026-11-25' +%s`.
        assert_eq!(ms("2026-11-25"), Ok(1_795_564_800_000));
        assert_eq!(ms("2026-11-25 21:35:23"), Ok(1_795_642_523_000));
        assert_eq!(ms("100000years"), Ok(0));
        assert!(ms("yesterday").is_err_and(|error| error.starts_with("it is neither")));
    }
}
