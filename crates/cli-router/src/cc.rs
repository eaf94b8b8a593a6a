//! `headway cc`: congestion controllers for this kernel.

mod end;
mod gaps;
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
/// A controller is a set of BPF programs and needs neither a module nor another kernel. Programs select it
/// (`iperf3 -C ls_dctcp`), or routes (`ip route change ... congctl ls_dctcp`), or it is the default
/// (`--default`). Connections that still use it when it is unloaded keep it until they end.
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
    /// XCP: routers set the change of the rate in a header of the packets.
    Xcp(XcpArgs),
    /// RCP: routers set the rate in a header of the packets.
    Rcp(EndArgs),
    /// TCP Rapid: sends at the available bandwidth, which every packet probes.
    Rapid(rapid::RapidArgs),
    /// A receiver for TCP Rapid: its ACKs report when segments arrived.
    RapidReceiver(receiver::ReceiverArgs),
    /// Lists the available controllers.
    List,
    /// Shows which controllers are on, and what killed programs left behind.
    Status,
    /// Shows counters of all controllers that are on, and the connections of Rapid.
    Stats(StatsArgs),
    Stop(StopArgs),
}

#[derive(Args, Debug)]
struct LsArgs {
    /// Most segments per ACK of the receiver, 1 to 16: below this window segments are paced one by one.
    #[arg(long, value_name = "SEGMENTS", default_value_t = LsOptions::default().delta, value_parser = clap::value_parser!(u32).range(1..=16))]
    delta: u32,
    /// Scale C of the increase, 2^-16 to 1, or `auto`: it follows the fraction of marks.
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
    /// What a sender does at losses: `xcp` halves the window and follows the feedback, `reno`
    /// becomes Reno for good.
    #[arg(long, default_value = "xcp", value_parser = ["xcp", "reno"])]
    loss: String,
    #[command(flatten)]
    end: EndArgs,
}

#[derive(Args, Debug)]
struct EndArgs {
    /// What carries the header: `protocol` is an IP protocol in front of TCP, `option` a TCP option, which
    /// passes middleboxes that drop unknown protocols. Receivers with `protocol` answer both.
    #[arg(long, default_value = "protocol", value_parser = ["protocol", "option"])]
    carrier: String,
    /// An interface whose packets carry the protocol; may be repeated [default: all Ethernet
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
#[command(next_help_heading = "Registration")]
struct OnArgs {
    /// Another name, of at most 15 letters, digits or `_`; names are global to the host.
    #[arg(long)]
    name: Option<String>,
    /// Make it the default of new connections of this network namespace; the former default is
    /// restored at the end.
    #[arg(long)]
    default: bool,
    /// Let programs without CAP_NET_ADMIN select it, and other network namespaces make it their default.
    #[arg(long)]
    unrestricted: bool,
    /// Return once it is on and leave it on until `headway cc stop`.
    #[arg(long)]
    background: bool,
}

#[derive(Args, Debug)]
struct StatsArgs {
    /// Time every call for one second, and show the time per call.
    #[arg(long)]
    cost: bool,
}

/// Ends programs that have controllers on, and removes what killed ones left behind.
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
    headway_program::service::start_log("warn")?;
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
