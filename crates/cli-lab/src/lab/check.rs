//! `headway lab check`: whether a host leaves packets alone, step by step.

use std::fs::read_to_string;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;
use headway_program::exit::Code;
use headway_program::{out, print_line};
use headway_telemetry::qdisc::Queues;
use headway_telemetry::{Clock, ethtool};
use serde::Serialize;

pub(super) const EXAMPLES: &str = "\
Exit codes:
  0    all steps hold, or those set do
  1    a step does not hold, was refused, or could not be set

Examples:
  headway lab check eth1
  sudo headway lab check eth1 --set offloads
  sudo headway lab check eth1 --set all
  headway lab exec client -- headway lab check eth0";

/// Queues that send what they get, in order; or links that an experiment makes.
const PLAIN: [&str; 9] = ["noqueue", "pfifo_fast", "pfifo", "bfifo", "fq", "red", "tbf", "htb", "netem"];

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Interface of this network namespace.
    interface: String,
    /// Make a step hold, or all in their order; refused before all earlier steps hold.
    #[arg(long, value_name = "STEP", value_parser = steps())]
    set: Option<String>,
}

fn steps() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.iter().map(|step| step.name).chain(["all"]))
}

/// What the kernel says of a step: whether it holds, and what was found.
type Found = Result<(bool, String)>;

/// A step of the preparation of a host.
struct Step {
    name: &'static str,
    look: fn(&str) -> Found,
    /// What makes it hold, for a shell in which `dev` is the interface; none if no command can.
    set: Option<&'static str>,
}

/// In the order in which they are done.
const STEPS: [Step; 8] = [
    Step { name: "clock", look: clock, set: None },
    Step {
        name: "pause",
        look: |name| {
            let [receives, sends] = ethtool::holding(name)?.pauses;
            let on = [(receives, "obeys"), (sends, "sends")]
                .into_iter()
                .filter(|(on, _)| *on)
                .map(|(_, what)| what);
            let on = on.collect::<Vec<_>>().join(" and ");
            Ok((on.is_empty(), if on.is_empty() { "off".to_owned() } else { format!("{on} pause frames") }))
        },
        set: Some("ethtool -A $dev autoneg off rx off tx off"),
    },
    Step {
        name: "coalescing",
        look: |name| {
            let us = ethtool::holding(name)?.coalescing;
            Ok((us == 0, if us == 0 { "off".to_owned() } else { format!("packets wait up to {us} us") }))
        },
        set: Some("ethtool -C $dev rx-usecs 0"),
    },
    Step {
        name: "offloads",
        look: |name| {
            let on = ethtool::offloads(name)?;
            Ok((on.is_empty(), if on.is_empty() { "off".to_owned() } else { on.join(", ") + " on" }))
        },
        set: Some("for one in tso gso gro lro; do ethtool -K $dev $one off 2>/dev/null; done; :"),
    },
    Step {
        name: "qdisc",
        look: |name| {
            let index = nix::net::if_::if_nametoindex(name)?;
            let kind = Queues::open()?.root(index)?.map_or_else(|| "noqueue".to_owned(), |root| root.kind);
            Ok((PLAIN.contains(&kind.as_str()), kind))
        },
        set: Some("tc qdisc replace dev $dev root pfifo"),
    },
    Step {
        name: "ecn",
        look: |_| {
            let value = sysctl("tcp_ecn")?;
            Ok((value == "1", format!("net.ipv4.tcp_ecn is {value}")))
        },
        set: Some("echo 1 >/proc/sys/net/ipv4/tcp_ecn"),
    },
    Step {
        name: "metrics",
        look: |_| {
            let (saved, kept) = (sysctl("tcp_no_metrics_save")?, shell("ip tcp_metrics show", "")?);
            let found = format!("net.ipv4.tcp_no_metrics_save is {saved}, {} kept", kept.lines().count());
            Ok((saved == "1" && kept.is_empty(), found))
        },
        set: Some("echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save; ip tcp_metrics flush"),
    },
    Step {
        name: "quick-acks",
        look: |name| {
            let routes = shell("ip route show dev $dev", name)?;
            let slow = routes.lines().filter(|route| !route.contains("quickack 1")).count();
            Ok((slow == 0, format!("{slow} of {} routes without", routes.lines().count())))
        },
        set: Some(
            "ip route show dev $dev | grep -v 'quickack 1' | \
             while read -r route; do ip route change $route dev $dev quickack 1; done",
        ),
    },
];

/// Checks the interface, or makes steps hold and checks those.
///
/// # Errors
/// When the interface does not exist, a step is refused, or cannot be set.
pub(super) fn run(args: &CheckArgs, json: bool) -> Result<ExitCode> {
    let name = &args.interface;
    nix::net::if_::if_nametoindex(name.as_str()).with_context(|| format!("there is no interface {name}"))?;
    if let Some(wanted) = &args.set {
        return set(name, wanted);
    }
    let results: Vec<Row> = STEPS.iter().map(|step| Row::of(step, name)).collect();
    let holds = results.iter().all(|row| row.holds);
    if json {
        out::document(&serde_json::to_string(&results)?);
    } else {
        results.iter().for_each(Row::print);
    }
    Ok(if holds { ExitCode::SUCCESS } else { Code::Other.into() })
}

/// Makes the steps up to `wanted` hold: all of them with `all`, else only the last, which the
/// others must not need.
fn set(name: &str, wanted: &str) -> Result<ExitCode> {
    for step in &STEPS {
        let row = Row::of(step, name);
        let asked = wanted == "all" || wanted == step.name;
        if !row.holds && asked {
            let Some(command) = step.set else { bail!("{}: {}; {}", step.name, row.found, row.remedy) };
            shell(command, name).with_context(|| format!("{} cannot be set", step.name))?;
            let now = Row::of(step, name);
            if !now.holds {
                bail!("{} was set, but the kernel does not confirm it: {}", step.name, now.found);
            }
            now.print();
        } else if !row.holds {
            bail!("{wanted} comes after {}, which does not hold: {}; {}", step.name, row.found, row.remedy);
        } else if asked {
            row.print();
        }
        if wanted == step.name {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of a step.
#[derive(Debug, Serialize)]
struct Row {
    step: &'static str,
    holds: bool,
    found: String,
    /// What to do; empty if it holds.
    remedy: String,
}

impl Row {
    fn of(step: &Step, name: &str) -> Row {
        let (holds, found) = (step.look)(name).unwrap_or_else(|error| (false, format!("unknown: {error:#}")));
        let remedy = match step.set {
            _ if holds => String::new(),
            Some(command) => format!("run as root: {}", command.replace("$dev", name)),
            None => "boot with another clock source (clocksource=tsc)".to_owned(),
        };
        Row { step: step.name, holds, found, remedy }
    }

    fn print(&self) {
        let Row { step, holds, found, remedy } = self;
        print_line!("{step:<11} {:<6} {found}", if *holds { "holds" } else { "WRONG" });
        if !remedy.is_empty() {
            print_line!("{:<18} {remedy}", "");
        }
    }
}

fn clock(_: &str) -> Found {
    let clock = Clock::read();
    Ok((!clock.is_slow(), clock.to_string()))
}

fn sysctl(name: &str) -> Result<String> {
    let file = format!("/proc/sys/net/ipv4/{name}");
    Ok(read_to_string(&file).with_context(|| format!("cannot read {file}"))?.trim().to_owned())
}

/// Runs a command of a shell in which `dev` is the interface; returns what it prints.
fn shell(command: &str, interface: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", command]).env("dev", interface).output()?;
    if !output.status.success() {
        bail!("`{command}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
