//! The honest clients.

use super::path::{CLIENTS, Path, SERVER};
use super::servers::Servers;
use std::collections::BTreeMap;

/// The kind of measurement a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Forward,
    Reverse,
    Tls,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Forward, Kind::Reverse, Kind::Tls];

    /// Cycles through the kinds.
    pub(crate) fn of(number: usize) -> Kind {
        Kind::ALL[number % Kind::ALL.len()]
    }
}

/// The result of one client.
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    /// The available bandwidth, or the reason why there is none.
    pub(crate) mbps: Result<f64, String>,
    /// Its interval in Mb/s; zero where there is none, without an upper end where it is "at least" so much.
    pub(crate) interval: (f64, f64),
}

impl Answer {
    /// Whether the client's own host was too busy to pace, which says nothing about the server.
    pub(crate) fn is_disturbed(&self) -> bool {
        let uneven = |reason: &String| reason.contains("could not pace packets");
        self.kind != Kind::Reverse && (self.interval.1.is_infinite() || self.mbps.as_ref().is_err_and(uneven))
    }
}

/// Runs one client to its end.
pub(crate) fn measure(path: &Path, servers: &Servers, kind: Kind) -> Answer {
    let server = if kind == Kind::Tls { &servers.tls } else { &servers.plain };
    // With priority over the servers, with which it would not share a real host.
    let mut command = path.command(CLIENTS, "nice");
    command.args(["-n", "-10"]).arg(&servers.program).args([
        "measure",
        SERVER,
        "--csv",
        "--port",
        &server.port.to_string(),
    ]);
    match kind {
        Kind::Forward => {}
        Kind::Reverse => drop(command.arg("--reverse")),
        Kind::Tls => drop(command.args(["--tls-fingerprint", &servers.fingerprint])),
    }
    match command.env_remove("HEADWAY_TOKEN").output() {
        Ok(output) => {
            let table = String::from_utf8_lossy(&output.stdout);
            let mbps = |column: &str| column_mbps(&table, column);
            let available = mbps("available_bps");
            let low = mbps("available_low_bps").unwrap_or_default();
            // An answer of at least this much has no upper end.
            let high = if available.is_some() { f64::INFINITY } else { 0.0 };
            Answer {
                kind,
                mbps: available.ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                interval: (low, mbps("available_high_bps").unwrap_or(high)),
            }
        }
        Err(error) => Answer { kind, mbps: Err(error.to_string()), interval: (0.0, 0.0) },
    }
}

/// Reads a rate, in Mb/s, from a table with one row.
fn column_mbps(csv: &str, name: &str) -> Option<f64> {
    let mut lines = csv.lines();
    let column = lines.next()?.split(',').position(|found| found == name)?;
    Some(lines.next()?.split(',').nth(column)?.parse::<f64>().ok()? / 1e6)
}

/// Prints the answers of one kind and returns their median.
pub(crate) fn summary(answers: &[Answer], kind: Kind) -> f64 {
    let mut rates = Vec::new();
    let mut failures: BTreeMap<&str, u32> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| answer.kind == kind) {
        match &answer.mbps {
            Ok(rate) => rates.push(*rate),
            Err(reason) => *failures.entry(reason).or_default() += 1,
        }
    }
    rates.sort_by(f64::total_cmp);
    let at = |share: f64| rates.get((rates.len() as f64 * share) as usize).or(rates.last());
    let [least, median, most] = [0.0, 0.5, 1.0].map(|share| at(share).copied().unwrap_or(f64::NAN));
    println!("  {kind:?}: {} answers, {least:.1} to {most:.1} Mb/s, median {median:.1}", rates.len());
    for (reason, count) in failures {
        println!("    {count} without: {reason}");
    }
    median
}
