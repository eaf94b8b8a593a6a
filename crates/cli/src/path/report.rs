//! Formats a finished measurement of a path as text or JSON.

use std::fmt::Write as _;
use std::net::IpAddr;

use comfy_table::{Cell, CellAlignment, Table, presets};
use headway_estimate::Bound;
use headway_estimate::locate::{Answer, MOST_HOPS, Node, Refused};
use headway_estimate::ppdd::Capacity;
use headway_net::Carrier;
use headway_program::lines::{GroupLine, HopLine, MemberLine, PathLine};
use headway_units::{Bytes, Duration};

/// Everything known about a measurement except its answer.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
    pub(crate) rtt: Duration,
    /// Time from the first packet to the answer.
    pub(crate) time: Duration,
    /// Bytes of all probes, including those that find the packet size.
    pub(crate) probes: Bytes,
    pub(crate) control: Bytes,
    /// Size of the packets of pairs and trains on the wire.
    pub(crate) packet: Bytes,
    pub(crate) carrier: Carrier,
    pub(crate) interrupted: bool,
}

/// Returns the result as `--json` prints it.
pub(super) fn line(context: &Context, answer: &Answer) -> PathLine {
    let capacity = answer.capacity;
    let narrow = answer.narrow.as_ref();
    let tight = answer.tight.as_ref().and_then(|tight| tight.as_ref().ok());
    let loose = answer.tight.as_ref().and_then(|tight| tight.as_ref().err());
    PathLine {
        r#type: "path".to_owned(),
        host: context.host.clone(),
        hops: answer.nodes.iter().map(|node| hop(context, answer, node)).collect(),
        capacity_bps: capacity.filter(Capacity::is_clear).map(|capacity| capacity.rate.bps()),
        capacity_low_bps: capacity.map(|capacity| capacity.low.bps()),
        capacity_high_bps: capacity.map(|capacity| capacity.high.bps()),
        capacity_confidence: capacity.map(|capacity| capacity.confidence),
        pairs_selected: capacity.map(|capacity| capacity.selected),
        pairs_usable: capacity.map(|capacity| capacity.pairs),
        narrow_hop: narrow.ok().map(|location| location.hop),
        narrow_confidence: narrow.ok().map(|location| location.confidence),
        error: narrow.err().map(|refused| why(context, refused)),
        tight_hop: tight.map(|tight| tight.hop),
        tight_confidence: tight.map(|tight| tight.confidence),
        tight_below_bps: tight.map(|tight| tight.rate.bps()),
        tight_error: loose.map(|refused| why(context, refused)),
        groups: answer
            .groups
            .iter()
            .map(|group| GroupLine {
                hop: group.hop,
                trains: group.trains,
                mean_rate_bps: group.rate.bps(),
                deviation_bps: group.deviation.bps(),
            })
            .collect(),
        slcs: answer
            .slcs
            .iter()
            .map(|member| MemberLine { hop: member.hop, capacity_bps: member.capacity.bps() })
            .collect(),
        trains_sent: answer.trains,
        trains_lost: answer.dropped.lost,
        trains_reordered: answer.dropped.reordered,
        trains_late: answer.dropped.late,
        packets_duplicated: answer.duplicates,
        probe_bytes: context.probes.get(),
        control_bytes: context.control.get(),
        duration_ms: context.time.ms(),
        rtt_us: context.rtt.us(),
        packet_wire_bytes: context.packet.get(),
        carrier: if context.carrier == Carrier::Icmp { "icmp" } else { "udp" }.to_owned(),
        interrupted: context.interrupted,
    }
}

fn hop(context: &Context, answer: &Answer, node: &Node) -> HopLine {
    let measured = node.prefix.as_ref().and_then(|prefix| prefix.as_ref().ok());
    HopLine {
        hop: node.hop,
        addresses: addresses(context, answer, node),
        prefix_capacity_bps: measured.map(|capacity| capacity.bps()),
    }
}

/// Returns the addresses of a node; the last one is the receiver, which does not report expired packets.
fn addresses(context: &Context, answer: &Answer, node: &Node) -> Vec<IpAddr> {
    if usize::from(node.hop) == answer.nodes.len() { vec![context.address] } else { node.addresses.clone() }
}

/// Returns the answer as text of several lines.
pub(crate) fn human(context: &Context, answer: &Answer) -> String {
    let by = if context.carrier == Carrier::Icmp { " by ICMP" } else { "" };
    let mut text = format!("{}, from here to the server{by}: {}\n", context.host, hops(answer));
    if !answer.nodes.is_empty() {
        text.push_str(&table(context, answer));
        text.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = match &answer.narrow {
        Ok(location) => {
            let sure = percent(location.confidence);
            let capacity = answer.capacity.map_or(String::new(), |capacity| format!(", {}", capacity.rate));
            writeln!(text, "narrow link: hop {} ({sure} sure){capacity}", location.hop)
        }
        Err(refused) => writeln!(text, "narrow link: unknown, because {}", why(context, refused)),
    };
    let _ = match &answer.tight {
        None => Ok(()),
        Some(Ok(tight)) => {
            let sure = percent(tight.confidence);
            writeln!(text, "tight link:  hop {} ({sure} sure), less than {} to spare", tight.hop, tight.rate)
        }
        Some(Err(refused)) => writeln!(text, "tight link:  unknown, because {}", why(context, refused)),
    };
    if let Some(capacity) = &answer.capacity {
        let _ = writeln!(text, "{}", capacity_line(capacity));
    }
    if !answer.slcs.is_empty() {
        let members: Vec<String> =
            answer.slcs.iter().map(|member| format!("{} at hop {}", member.capacity, member.hop)).collect();
        let _ = writeln!(text, "narrower than all links before them: {}", members.join(", "));
    }
    let unused = answer.dropped.to_string();
    let mut unused = if unused.is_empty() { "all used".to_owned() } else { unused };
    if answer.duplicates > 0 {
        let _ = write!(unused, "; {} packets arrived twice", answer.duplicates);
    }
    let _ = writeln!(
        text,
        "cost     {} of probes and {} of control traffic in {:.1} s; {} pairs and trains, {unused}",
        context.probes,
        context.control,
        context.time.secs_f64(),
        answer.trains
    );
    text
}

/// Returns why the narrow link is unknown, and what to do.
pub(crate) fn why(context: &Context, refused: &Refused) -> String {
    match (context.carrier, refused) {
        (Carrier::Icmp, Refused::NoneArrived) => format!(
            "no ICMP packet with a TTL of 1 to {MOST_HOPS} arrived; a firewall on the way may drop Echo Replies that nobody requested, or small TTLs; try --carrier udp"
        ),
        _ => refused.to_string(),
    }
}

/// Returns a probability in percent, rounded down: nothing is more certain than it is.
fn percent(probability: f64) -> String {
    format!("{} %", (probability * 100.0).floor())
}

fn hops(answer: &Answer) -> String {
    match answer.nodes.len() {
        0 => "number of hops unknown".to_owned(),
        1 => "1 hop".to_owned(),
        hops => format!("{hops} hops"),
    }
}

fn table(context: &Context, answer: &Answer) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["hop", "address", "capacity", "narrow"];
    header.extend(answer.tight.is_some().then_some("tight"));
    table.set_header(header);
    for node in &answer.nodes {
        let narrow = answer.narrow.as_ref().ok().filter(|location| location.hop == u32::from(node.hop));
        let mark = narrow.map_or(String::new(), |location| percent(location.confidence));
        let addresses: Vec<String> =
            addresses(context, answer, node).iter().map(ToString::to_string).collect();
        let mut row = vec![
            Cell::new(node.hop).set_alignment(CellAlignment::Right),
            Cell::new(if addresses.is_empty() { "*".to_owned() } else { addresses.join(" ") }),
            Cell::new(capacity(answer, node, narrow.is_some())),
            Cell::new(mark),
        ];
        if let Some(tight) = &answer.tight {
            let here = tight.as_ref().ok().filter(|tight| tight.hop == u32::from(node.hop));
            row.push(Cell::new(here.map_or(String::new(), |tight| percent(tight.confidence))));
        }
        table.add_row(row);
    }
    // Trailing spaces would be noise in logs.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn capacity_line(capacity: &Capacity) -> String {
    let Capacity { rate, low, high, selected, pairs, .. } = capacity;
    if !capacity.is_clear() {
        return format!("capacity unclear: {low} to {high} from {pairs} resampled pairs");
    }
    let more = if capacity.bound == Bound::AtLeast { "at least " } else { "" };
    format!(
        "capacity {more}{rate} ({low} to {high} from resampled pairs); {selected} of {pairs} pairs are near it"
    )
}

/// Returns the capacity column: that of the narrow link, that of measured prefixes, or nothing.
fn capacity(answer: &Answer, node: &Node, narrow: bool) -> String {
    match (narrow, answer.capacity, &node.prefix) {
        (true, Some(capacity), _) => capacity.rate.to_string(),
        (_, _, Some(Ok(rate))) if answer.slcs.iter().any(|member| member.hop == u32::from(node.hop)) => {
            rate.to_string()
        }
        (_, _, Some(Ok(rate))) => format!("{rate} or more"),
        _ => String::new(),
    }
}
