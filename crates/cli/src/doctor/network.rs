//! How exactly packets can be sent, stamped and seen.

use headway_net::{Paced, StampSource, pace};
use headway_program::exit::{Code, Failed};
use headway_telemetry::{Clock, ethtool};
use headway_units::Rate;

use super::fact::{Fact, Grade};
use super::kernel::{read, said};

/// The rates at which pacing is tried: gaps of 1.2 ms, 120 us, 12 us and 5 us between full packets.
const RATES: [f64; 4] = [10.0, 100.0, 1_000.0, 2_500.0];
/// Commands that send streams.
const PROBING: [&str; 3] = ["measure", "path", "select"];
const STOP: &str = "stop other work on this host, or reserve a core";
/// The receive buffer that streams above 1 Gb/s fill, in bytes.
const BUFFER: u64 = 4 << 20;

/// Returns the facts; `interface` is to be looked at in place of that of the default route.
pub(super) fn facts(interface: Option<&str>) -> Result<Vec<Fact>, Failed> {
    let mut facts = vec![clock()];
    facts.extend(pacing());
    facts.push(buffers());
    match interface.map(str::to_owned).or_else(default_interface) {
        Some(name) => facts.extend(of_interface(&name, interface.is_some())?),
        None => facts.push(Fact::new("interface", "no default route; name one with --interface")),
    }
    Ok(facts)
}

fn clock() -> Fact {
    let clock = Clock::read();
    let fact = Fact::new("clock", clock.to_string());
    if !clock.is_slow() {
        return fact;
    }
    let reason = "reading the clock takes so long that fast streams are uneven";
    fact.with(
        Grade::Limits,
        &PROBING,
        reason,
        "boot with another clock source (clocksource=tsc), or outside a virtual machine",
    )
}

fn pacing() -> Vec<Fact> {
    let paced: std::io::Result<Vec<Paced>> = RATES.iter().map(|mbps| pace(Rate::from_mbps(*mbps))).collect();
    let paced = match paced {
        Ok(paced) => paced,
        Err(error) => {
            let found = format!("not tried: the loopback interface cannot be used ({})", said(&error));
            let fact = Fact::new("pacing", found);
            return vec![fact.with(
                Grade::Untried,
                &PROBING,
                "pacing was not tried",
                "run `ip link set lo up`",
            )];
        }
    };
    let fact = |paced: &Paced| {
        let Paced { rate, kept, streams, gap, error, error_95, .. } = paced;
        let found = format!(
            "{rate}: {kept} of {streams} streams even, gaps of {gap} off by {error} (median) and {error_95} (95 %)"
        );
        Fact::new("pacing", found)
    };
    let mut facts: Vec<Fact> = paced.iter().map(fact).collect();
    if let Some(last) = facts.pop() {
        facts.push(stamps(limited(last, &paced), &paced));
    }
    facts
}

/// Adds what follows if not all rates can be paced.
fn limited(fact: Fact, paced: &[Paced]) -> Fact {
    let even = paced.iter().filter(|paced| paced.suffices()).map(|paced| paced.rate).next_back();
    let (grade, how, and) = match even {
        Some(most) if paced.last().is_some_and(|paced| paced.rate == most) => return fact,
        Some(most) => {
            (Grade::Limits, format!("leave evenly up to {most}"), "; beyond that answers are \"at least\"")
        }
        None if paced.iter().any(|paced| paced.kept > 0) => (
            Grade::Limits,
            "seldom leave evenly".to_owned(),
            ", so answers are \"at least\" a low rate, or missing",
        ),
        None => (Grade::Fails, "never leave evenly".to_owned(), ""),
    };
    let of_server = format!("streams of `--reverse` {how}");
    fact.with(grade, &PROBING, format!("streams {how}{and}"), STOP).with(
        Grade::Limits,
        &["serve"],
        of_server,
        STOP,
    )
}

/// Adds what follows if the kernel does not stamp packets. Whether there is room for the stamps of long streams
/// is another fact.
fn stamps(fact: Fact, paced: &[Paced]) -> Fact {
    if paced.first().is_none_or(|paced| paced.send_stamps == StampSource::Kernel && paced.receive_stamps) {
        return fact;
    }
    let reason = "the kernel does not stamp packets, so their times are less exact";
    let remedy = "run it on Linux itself, outside sandboxes such as gVisor";
    fact.with(Grade::Limits, &["measure", "path", "select", "serve"], reason, remedy)
}

fn buffers() -> Fact {
    let most = read("/proc/sys/net/core/rmem_max").and_then(|text| text.parse::<u64>().ok());
    let Some(most) = most else { return Fact::new("buffers", "net.core.rmem_max is unknown") };
    let forced = headway_privileges::rights::change_network().is_ok();
    let fact = Fact::new(
        "buffers",
        format!("net.core.rmem_max is {most}{}", if forced { ", which this user may exceed" } else { "" }),
    );
    if forced || most >= BUFFER {
        return fact;
    }
    let remedy = format!("run `sysctl net.core.rmem_max={BUFFER}` as root");
    fact.with(
        Grade::Limits,
        &["serve", "measure"],
        "fast and long streams may not fit into its receive buffer, nor their stamps",
        remedy,
    )
}

/// Returns the interface of the default route, of IPv4 or else of IPv6.
fn default_interface() -> Option<String> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let v4 = read("/proc/net/route").unwrap_or_default();
    let of_v4 = |line: Vec<String>| match (line.get(1)?.as_str(), line.get(7)?.as_str()) {
        ("00000000", "00000000") => line.first().cloned(),
        _ => None,
    };
    let v6 = read("/proc/net/ipv6_route").unwrap_or_default();
    let of_v6 = |line: Vec<String>| {
        let is_default = line.get(1)? == "00" && line.get(9)? != "lo";
        is_default.then(|| line.get(9).cloned())?
    };
    v4.lines().map(fields).find_map(of_v4).or_else(|| v6.lines().map(fields).find_map(of_v6))
}

fn of_interface(name: &str, is_named: bool) -> Result<[Fact; 2], Failed> {
    let offloads = ethtool::offloads(name);
    if let (Err(error), true) = (&offloads, is_named) {
        let reason = anyhow::anyhow!("cannot look at the interface {name}: {}", said(error));
        return Err(Failed::new(Code::Arguments, reason));
    }
    let on = offloads.unwrap_or_default();
    let list = if on.is_empty() { "no offloads that change gaps".to_owned() } else { on.join(", ") + " on" };
    let mut interface = Fact::new("interface", format!("{name}: {list}"));
    let merges: Vec<&str> = on.into_iter().filter(|what| ["GRO", "LRO"].contains(what)).collect();
    if !merges.is_empty() {
        let off =
            merges.iter().map(|what| format!("{} off", what.to_lowercase())).collect::<Vec<_>>().join(" ");
        let reason =
            format!("{} merges TCP packets that arrive, so that their gaps are lost", merges.join(" and "));
        interface =
            interface.with(Grade::Limits, &["passive"], reason, format!("run `ethtool -K {name} {off}`"));
    }
    Ok([interface, timestamps(name)])
}

fn timestamps(name: &str) -> Fact {
    let which = |[send, receive]: [bool; 2]| match (send, receive) {
        (true, true) => "of sent and received packets",
        (true, false) => "of sent packets only",
        (false, true) => "of received packets only",
        (false, false) => "none",
    };
    match ethtool::timestamps(name) {
        Ok(has) => {
            let found = format!("{name}: software {}, hardware {}", which(has.software), which(has.hardware));
            let fact = Fact::new("timestamps", found);
            if has.software[0] {
                return fact;
            }
            let reason = format!("{name} does not stamp sent packets, so this program does, less exactly");
            fact.with(
                Grade::Limits,
                &["measure", "path", "select"],
                reason,
                "use another interface or driver",
            )
        }
        Err(error) => Fact::new("timestamps", format!("{name}: the driver does not say ({})", said(&error))),
    }
}
