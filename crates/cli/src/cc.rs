//! `headway cc`: congestion controllers for this kernel.

mod end;
mod on;
mod rapid;
mod receiver;
mod show;
mod stop;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use headway_kernel::{Carrier, Controller, EndOptions, LsOptions, Namespace};
use headway_units::Rate;

/// Runs congestion controllers on this kernel; when the program ends, the kernel is as before.
///
/// A controller is a set of BPF programs and needs neither a module nor another kernel. Connections choose it by an
/// option of their program (`iperf3 -C ls_dctcp`), by route (`ip route change ... congctl ls_dctcp`) or, with
/// --default, automatically. Connections that still have it when it is unloaded keep it until they end.
#[derive(Args, Debug)]
pub(crate) struct CcArgs {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// LS-AIMD DCTCP: DCTCP that works below two segments per round trip.
    LsDctcp(LsArgs),
    /// LS-AIMD Reno: Reno with ECN that works below two segments per round trip.
    LsReno(LsArgs),
    /// Plain DCTCP with a floor of two segments, as a baseline.
    HwDctcp(PlainArgs),
    /// Plain Reno with ECN and a floor of two segments, as a baseline.
    HwReno(PlainArgs),
    /// XCP: routers say, in a header of the packets, how much faster or slower to become.
    Xcp(XcpArgs),
    /// RCP: routers say, in a header of the packets, how fast to send.
    Rcp(EndArgs),
    /// TCP Rapid: sends at the available bandwidth, which every packet probes.
    Rapid(rapid::RapidArgs),
    /// A receiver for TCP Rapid: its ACKs tell the sender when segments arrived.
    RapidReceiver(receiver::ReceiverArgs),
    /// Lists the controllers that can be turned on.
    List,
    /// Shows which controllers are on, and the leftovers of killed programs.
    Status,
    /// Shows counters of the connections of all controllers that are on.
    Stats(StatsArgs),
    Stop(StopArgs),
}

#[derive(Args, Debug)]
struct LsArgs {
    /// The most segments that the receiver acknowledges with one ACK, 1 to 16: below this window segments are
    /// paced one by one.
    #[arg(long, value_name = "SEGMENTS", default_value_t = LsOptions::default().delta, value_parser = clap::value_parser!(u32).range(1..=16))]
    delta: u32,
    /// Scale C of the increase, 2^-16 to 1, or `auto`, which makes it follow the fraction of marks.
    #[arg(long, value_name = "C", default_value = "auto", value_parser = scale)]
    scale: u32,
    /// Minimum window in bytes, 1 to 65536.
    #[arg(long, value_name = "BYTES", default_value_t = LsOptions::default().floor, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    floor: u32,
    #[command(flatten)]
    plain: PlainArgs,
}

#[derive(Args, Debug)]
struct PlainArgs {
    /// Write a line for every ACK to this file (CSV): window, ssthresh, increase, alpha, RTTs, pacing rate.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    on: OnArgs,
}

#[derive(Args, Debug)]
struct XcpArgs {
    /// What a sender does at losses: `xcp` halves the window and goes on with the feedback, `reno` becomes Reno for good.
    #[arg(long, default_value = "xcp", value_parser = ["xcp", "reno"])]
    loss: String,
    #[command(flatten)]
    end: EndArgs,
}

#[derive(Args, Debug)]
struct EndArgs {
    /// What carries the header: `protocol` is an IP protocol in front of TCP, `option` an option of TCP, which passes boxes
    /// that drop unknown protocols. Receivers with `protocol` answer both, those with `option` leave interfaces alone.
    #[arg(long, default_value = "protocol", value_parser = ["protocol", "option"])]
    carrier: String,
    /// An interface of this network namespace whose packets carry the protocol; may be repeated [default: all Ethernet
    /// interfaces that are up].
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// Only answer senders: this host's own connections do not get the controller.
    #[arg(long)]
    receive: bool,
    /// The rate that senders ask for, for example "10 Mb/s" [default: any].
    #[arg(long, value_name = "RATE")]
    demand: Option<Rate>,
    /// Number of the header as an IP protocol; both ends and all routers need the same.
    #[arg(long, value_name = "NUMBER", default_value_t = EndOptions::default().protocol, value_parser = clap::value_parser!(u8).range(143..=254))]
    protocol: u8,
    /// Kind of the header as an option of TCP, 253 or 254; both ends and all routers need the same.
    #[arg(long, value_name = "KIND", default_value_t = EndOptions::default().kind, value_parser = clap::value_parser!(u8).range(253..=254))]
    kind: u8,
    #[command(flatten)]
    on: OnArgs,
}

#[derive(Args, Debug)]
struct OnArgs {
    /// Register it under another name, of at most 15 letters, digits or `_`; names are global to the host.
    #[arg(long)]
    name: Option<String>,
    /// Make it the default of this network namespace, for new connections that choose none; the former
    /// default is restored at the end.
    #[arg(long)]
    default: bool,
    /// Let programs without CAP_NET_ADMIN choose it, and other network namespaces make it their default.
    #[arg(long)]
    unrestricted: bool,
    /// Return once it is on and leave it on until `headway cc stop`.
    #[arg(long)]
    background: bool,
}

#[derive(Args, Debug)]
struct StatsArgs {
    /// Time every call for one second, and show the cost per call.
    #[arg(long)]
    cost: bool,
}

/// Ends programs that have controllers on, and removes the leftovers of killed ones.
#[derive(Args, Debug)]
struct StopArgs {
    /// Names of controllers, as in `headway cc status` [default: all].
    names: Vec<String>,
}

impl CcArgs {
    /// Whether the command has a JSON form.
    pub(crate) fn has_json(&self) -> bool {
        !matches!(self.command, What::Stop(_))
    }
}

impl LsArgs {
    fn plain(&self) -> on::Plain<'_> {
        let options = LsOptions { delta: self.delta, scale: self.scale, floor: self.floor };
        on::Plain { options, ..self.plain.plain() }
    }
}

impl PlainArgs {
    fn plain(&self) -> on::Plain<'_> {
        on::Plain { log: self.log.as_deref(), ..on::Plain::new(&self.on) }
    }
}

impl EndArgs {
    fn options(&self, yields: bool) -> Result<EndOptions> {
        Ok(EndOptions {
            demand: self.demand.map(Rate::bps),
            namespace: Some(Namespace::here()?),
            protocol: self.protocol,
            yields,
            carrier: if self.carrier == "option" { Carrier::TcpOption } else { Carrier::Protocol },
            kind: self.kind,
        })
    }
}

pub(crate) fn run(args: &CcArgs, json: bool) -> Result<()> {
    crate::service::start_log("warn")?;
    match &args.command {
        What::LsDctcp(args) => on::run(Controller::LsDctcp, &args.plain(), json),
        What::LsReno(args) => on::run(Controller::LsReno, &args.plain(), json),
        What::HwDctcp(args) => on::run(Controller::HwDctcp, &args.plain(), json),
        What::HwReno(args) => on::run(Controller::HwReno, &args.plain(), json),
        What::Xcp(args) => end::run(Controller::Xcp, args.end.options(args.loss == "reno")?, &args.end, json),
        What::Rcp(args) => end::run(Controller::Rcp, args.options(false)?, args, json),
        What::Rapid(args) => on::run(
            Controller::Rapid,
            &on::Plain { rapid: Some(args.rapid()?), ..on::Plain::new(&args.on) },
            json,
        ),
        What::RapidReceiver(args) => receiver::run(args, json),
        What::List => show::list(json),
        What::Status => show::status(json),
        What::Stats(args) => show::stats(args.cost, json),
        What::Stop(args) => stop::run(&args.names),
    }
}

/// Parses C into units of 2^-16; zero for automatic.
fn scale(text: &str) -> Result<u32, String> {
    if text == "auto" {
        return Ok(0);
    }
    let value = text.parse::<f64>().ok().map(|value| value * f64::from(LsOptions::SCALE_ONE));
    match value {
        Some(value) if (1.0..=f64::from(LsOptions::SCALE_ONE)).contains(&value) => Ok(value.round() as u32),
        _ => Err("C is a number from 0.0000153 (2^-16) to 1, or `auto`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_shares_or_automatic() {
        assert_eq!(scale("auto"), Ok(0));
        assert_eq!(scale("1"), Ok(65_536));
        assert_eq!(scale("0.0078125"), Ok(512));
        assert!(
            scale("0").is_err() && scale("1.1").is_err() && scale("NaN").is_err() && scale("much").is_err()
        );
    }
}
