//! `headway passive`: what is free on the paths of TCP connections that are there anyway,
//! without sending a byte.

mod lines;
mod live;
mod names;
mod notes;
mod page;
mod run;
mod source;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};
use headway_estimate::sabes::{self, Form, Settings};
use headway_learned::{Model, Task};
use headway_passive::{Filter, Grouping, Options};
use headway_program::arguments::some_rate;
use headway_units::{Duration, Rate};

use crate::model_file;

pub(crate) use run::run;

/// Reports what is free on the paths of TCP connections, without sending a byte.
///
/// Reads captures or an interface. The gaps between the ACKs of a transfer show how fast the tight link lets its segments pass, and so
/// how much of the link is free for it (SABES). Only transfers that at times fill the path give an
/// estimate; for the others the table says why not, and what limits them: their application, the receive
/// window, or the path.
///
/// Rates count every byte on the wire (IP packet + 38 bytes of Ethernet framing).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct PassiveArgs {
    /// Capture files (pcap or pcapng, also with gzip), read as one in the order of their times; or
    /// `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "interface", conflicts_with = "interface")]
    files: Vec<PathBuf>,
    /// Capture on this interface, or on all (`any`), until Ctrl-C.
    #[arg(long, short, value_name = "NAME", help_heading = "Capture")]
    interface: Option<String>,
    /// Capture for this long only, for example `30 s`.
    #[arg(long, short, value_name = "TIME", requires = "interface", value_parser = some_time, help_heading = "Capture")]
    duration: Option<Duration>,
    /// Use only the connections and times that pass, such as `host 192.0.2.7 and not port 22` [see below].
    #[arg(long, short, value_name = "FILTER", help_heading = "Capture")]
    filter: Option<Filter>,
    /// Where the capture was taken relative to the data [default: inferred for every connection].
    #[arg(long, value_enum, value_name = "SIDE", help_heading = "Capture")]
    side: Option<Side>,
    /// Which transfers share a path.
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    group: Group,
    /// Rate of the NIC where the capture was taken [default: what the interface says, or 1 Gb/s].
    #[arg(long, value_name = "RATE", value_parser = some_rate, help_heading = "Capture")]
    nic: Option<Rate>,
    /// Trained model that judges windows in place of the rules, of the kind sabes-nn or sabes-kde.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Length of the intervals of the live table, of CSV rows and of the report.
    #[arg(long, default_value = "1 s", value_name = "TIME", value_parser = some_time, help_heading = "Output")]
    interval: Duration,
    /// Also list the transfers, those with the most data first.
    #[arg(long, help_heading = "Output")]
    per_flow: bool,
    /// Replace addresses by names such as `network-1`, the same ones in all outputs.
    #[arg(long, help_heading = "Output")]
    hide_addresses: bool,
    /// Write a row for every path and interval to this CSV file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write a page with tables and figures to this HTML file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Most connections to follow at a time; of more, those idle for longest are given up.
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    connections: u32,
}

/// Where the capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Near the host that sends the data.
    Sender,
    /// Near the host that receives the data.
    Receiver,
}

/// Which transfers share a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Those with peers in the same network: /24 of IPv4, /56 of IPv6.
    #[default]
    Prefix,
    /// Those with the same peer.
    Address,
}

const EXAMPLES: &str = "\
Examples:
  headway passive capture.pcap                 what is free on the paths in a capture
  headway passive rotated.pcap* --filter 'net 192.0.2.0/24 and after 60 s'
  sudo headway passive --interface eth0        now, on this host; or any
  ssh router tcpdump -U -s 128 -w - tcp | headway passive -
  headway passive capture.pcap --hide-addresses --report report.html";

const AFTER_LONG_HELP: &str = "\
Columns:
  path        the peer's network, and whether the data goes to it or comes
              from it
  flows       transfers with data
  rate        data on the wire, averaged over the interval, or over the time
              in which there was some
  RTT         smoothed round-trip time of the transfer with the most data
  capacity    rate of the narrow link
  free        available bandwidth: capacity less the traffic that is not in
              the capture, as the median of the windows, with their median
              interval in the same unit; or why there is no estimate
  limited by  what limits the transfers, and for which share of the time; on a
              path each counts as much as its data
  ACK RTT     with --per-flow: time from a segment to its ACK at the tap, which
              near the receiver is short
  sent again, out of order, duplicate ACKs, zero windows
              with --per-flow: as tshark counts them

Filters:
  host ADDRESS             an end of the connection has this address
  net PREFIX               an end is in this network, such as 192.0.2.0/24
  port NUMBER              an end has this port, or one of a range (8000-8099)
  after TIME, before TIME  since the first packet (10 s), or with date and zone
                           (2026-01-31T12:00:00Z)
  They are joined with and, or, not and parentheses. Both directions of a
  connection pass or neither. In tunnels the inner packet counts.

On a narrow terminal the live table shortens paths and leaves out columns.

Exit codes:
  0    a result was printed, also when Ctrl-C ended a live capture
  1    another error, for example a corrupt file; what was read before it is
       printed
  2    invalid arguments
  6    there is no TCP connection with data in the capture
  130  interrupted while reading a file; the partial result was printed

Examples:
  headway passive capture.pcap                 what is free on the paths in a capture
  headway passive rotated.pcap* --filter 'net 192.0.2.0/24 and after 60 s'
  sudo headway passive --interface eth0        now, on this host; or any
  ssh router tcpdump -U -s 128 -w - tcp | headway passive -
  headway passive capture.pcap --hide-addresses --report report.html
  headway passive capture.pcap --json | jq '.paths[] | {peer, free_bps}'";

impl PassiveArgs {
    /// Reads the model file.
    fn model(&self) -> anyhow::Result<Option<Arc<Model>>> {
        let Some(path) = &self.model else { return Ok(None) };
        let model = model_file::read(path)?;
        if !matches!(model.task(), Task::SabesNn | Task::SabesKde) {
            let (file, task) = (path.display(), model.task().name());
            bail!("{file} is a model of probe streams ({task}); it is for `--method learned --model`");
        }
        Ok(Some(model))
    }

    /// Returns the settings of the tracker; `nic` is what the interface says.
    fn options(&self, nic: Option<Rate>) -> Options {
        let defaults = Options::default();
        let side = self.side.map(|side| match side {
            Side::Sender => sabes::Side::Sender,
            Side::Receiver => sabes::Side::Receiver,
        });
        let grouping = match self.group {
            Group::Prefix => Grouping::Prefix,
            Group::Address => Grouping::Address,
        };
        let nic = self.nic.or(nic).unwrap_or(defaults.settings.nic);
        // Models were trained on the windows of the published rules.
        let form = if self.model.is_some() { Form::Literal } else { defaults.settings.form };
        let settings = Settings { nic, form, ..defaults.settings };
        Options { side, grouping, connections: self.connections as usize, settings, ..defaults }
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if time >= Duration::from_ms(10) { Ok(time) } else { Err("it must be at least 10 ms".to_owned()) }
}
