//! Sentences about what was not used, and why.

use headway_capture::ReadError;
use headway_passive::{ClockCounts, Skipped, Tracker, Unread};

use super::PassiveArgs;
use super::source::Failure;

/// Returns a sentence for everything that a reader of the result must know.
pub(super) fn all(tracker: &Tracker, drops: u64, failures: &[Failure], args: &PassiveArgs) -> Vec<String> {
    let counts = tracker.counts();
    let mut notes = Vec::new();
    if args.interface.is_some() {
        notes.push("Time stamps are the kernel's.".to_owned());
    }
    for Failure { name, error } in failures {
        let of = if args.files.len() > 1 { format!(" {name}") } else { String::new() };
        if let ReadError::Cut { .. } = error {
            notes.push(format!("The capture{of} is cut off: {error}. Everything before that was used."));
        } else if args.files.len() > 1 {
            notes.push(format!("The capture{of} was not read to its end: {error}."));
        }
    }
    for reason in Skipped::ALL {
        let count = counts.skipped(reason);
        if count > 0 {
            notes.push(skipped(reason, count, tracker));
        }
    }
    let mut note = |count: u64, text: String| {
        if count > 0 {
            notes.push(text);
        }
    };
    note(
        drops,
        format!("The kernel dropped {drops} packets: this host cannot keep up, and estimates may be wrong."),
    );
    let ClockCounts { steps, disordered } = tracker.clock();
    note(steps, format!("The clock of the capture was set {steps} times; no time passes there."));
    note(
        disordered,
        format!("{disordered} packets have earlier time stamps than the ones before; they got theirs."),
    );
    let oversized = counts.oversized;
    note(
        oversized,
        format!(
            "{oversized} packets are larger than the MSS: captured before segmentation or after reassembly by the \
             NIC. Their ACKs are used; gaps between such packets are not those on the wire."
        ),
    );
    let one_way = tracker.one_way();
    note(
        one_way,
        format!(
            "Of {one_way} connections only one direction was captured; without data and ACKs there is no estimate."
        ),
    );
    note(
        counts.acks_only,
        format!(
            "Of {} transfers only ACKs were captured: they have no RTT but that of the handshake.",
            counts.acks_only
        ),
    );
    let proxies = counts.proxies;
    note(
        proxies,
        format!(
            "Of {proxies} connections a proxy near the tap answers, such as a NAT that ends TCP: it acknowledges data far sooner than \
             the handshake took. Their RTT and rates are those of the way to it."
        ),
    );
    let evicted = counts.evicted;
    note(
        evicted,
        format!(
            "The table is full: {evicted} connections idle for longest were given up; --connections {} holds more.",
            u64::from(args.connections) * 4
        ),
    );
    if let Some(outside) = tracker.outside() {
        notes
            .push(format!("Windows unlike those that the model was trained on gave no estimate: {outside}."));
    }
    let mut note = |count: u64, text: String| {
        if count > 0 {
            notes.push(text);
        }
    };
    let assumed = tracker.assumed() as u64;
    note(
        assumed,
        format!(
            "Where the capture was taken is not known for {assumed} connections: the side of the sender is assumed; \
             say --side receiver if that is wrong."
        ),
    );
    notes
}

fn skipped(reason: Skipped, count: u64, tracker: &Tracker) -> String {
    match reason {
        Skipped::ForeignLink => {
            let links = unread(count, tracker, |unread| matches!(unread, Unread::Link(_)));
            format!(
                "{count} packets have a link layer that is not read ({links}); capture on an Ethernet interface."
            )
        }
        Skipped::NotIp => {
            let kinds = unread(count, tracker, |unread| !matches!(unread, Unread::Link(_)));
            format!("{count} packets are not IP ({kinds}).")
        }
        Skipped::NotTcp => format!("{count} packets are IP but not TCP."),
        Skipped::Fragment => format!("{count} packets are IP fragments, which are not put together."),
        Skipped::Snapped => {
            format!("{count} packets were cut before the end of their headers; capture with `-s 128`.")
        }
        Skipped::Malformed => format!("{count} packets have headers that contradict themselves."),
        Skipped::Copy => {
            format!("{count} packets were captured several times; one of each was used.")
        }
        Skipped::WrongStamp => {
            format!(
                "{count} packets have time stamps that those before and after them contradict; they were left out."
            )
        }
        Skipped::Filtered => format!("{count} packets do not pass the filter."),
        Skipped::OddRecord => {
            format!(
                "{count} records have no time stamp, no bytes, or numbers that make no sense; they were skipped."
            )
        }
    }
}

/// Lists the protocols of some kind that are not read, with their packets out of `all`.
fn unread(all: u64, tracker: &Tracker, kind: impl Fn(Unread) -> bool) -> String {
    let known = tracker.counts().unread.into_iter().flatten().filter(|(unread, _)| kind(*unread));
    let mut list: Vec<(String, u64)> = known.map(|(unread, count)| (unread.to_string(), count)).collect();
    let named = list.iter().map(|(_, count)| count).sum::<u64>();
    if named < all {
        list.push(("others".to_owned(), all - named));
    }
    match &list[..] {
        [(name, _)] => name.clone(),
        _ => list.iter().map(|(name, count)| format!("{name}: {count}")).collect::<Vec<_>>().join("; "),
    }
}
