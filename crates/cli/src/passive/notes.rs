//! Sentences about what was not used, and why.

use headway_capture::layers::Unread;
use headway_capture::{ClockCounts, ReadError};
use headway_passive::{Skipped, Tracker};

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
    let ClockCounts { steps, unsorted, disordered, late, behind } = tracker.clock();
    let sort = "If packets are not in the order of their times, `reordercap FILE NEW` sorts them.";
    note(
        steps - unsorted,
        format!("The clock of the capture was set {} times; no time passes there. {sort}", steps - unsorted),
    );
    note(
        unsorted,
        format!("Packets went back by more than a second {unsorted} times: the result is wrong. {sort}"),
    );
    note(
        disordered - late,
        format!("{} packets came behind later ones, and were sorted.", disordered - late),
    );
    note(late, format!("{late} packets came too late to be sorted, and got the time of the packet before."));
    note(
        behind,
        format!("{behind} packets are more than a second behind others, as with another clock. {sort}"),
    );
    let oversized = counts.oversized;
    note(
        oversized,
        format!(
            "{oversized} packets are larger than the MSS: captured before segmentation or after reassembly by the \
             NIC. ACKs of such packets are used; gaps between them are not those on the wire."
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
            "Of {} transfers only ACKs were captured: there is no RTT but that of the handshake.",
            counts.acks_only
        ),
    );
    let proxies = counts.proxies;
    note(
        proxies,
        format!(
            "Of {proxies} connections a proxy near the tap answers, such as a NAT that ends TCP: it acknowledges data far sooner than \
             the handshake took. RTT and rates of such connections are those of the way to it."
        ),
    );
    let evicted = counts.evicted;
    note(
        evicted,
        format!(
            "The table is full, and gave up {evicted} connections idle for longest; --connections {} holds more.",
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
    notes.iter().map(|note| agreeing(note)).collect()
}

/// Returns a sentence in which one of something is singular, and its verbs too.
fn agreeing(sentence: &str) -> String {
    const NOUNS: [(&str, &str); 5] = [
        ("1 packets", "1 packet"),
        ("1 connections", "1 connection"),
        ("1 transfers", "1 transfer"),
        ("1 records", "1 record"),
        ("1 times", "once"),
    ];
    const VERBS: [(&str, &str); 5] =
        [("have ", "has "), ("are ", "is "), ("were ", "was "), ("do ", "does "), ("hold ", "holds ")];
    let is_whole = |at: &usize| !sentence[..*at].ends_with(|c: char| c.is_ascii_digit());
    let found = NOUNS.iter().find_map(|(many, one)| {
        let at = sentence.match_indices(many).map(|(at, _)| at).find(is_whole)?;
        Some((&sentence[..at], *one, &sentence[at + many.len()..]))
    });
    let Some((before, one, after)) = found else { return sentence.to_owned() };
    let verb =
        VERBS.iter().find(|(many, _)| after.strip_prefix(' ').is_some_and(|rest| rest.starts_with(many)));
    let after = verb.map_or(after.to_owned(), |(many, one)| after.replacen(many, one, 1));
    format!("{before}{one}{}", after.replacen(", and were ", ", and was ", 1))
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
            let kinds =
                unread(count, tracker, |unread| !matches!(unread, Unread::Link(_)) && !is_within_ip(unread));
            format!("{count} packets are not IP ({kinds}).")
        }
        Skipped::NotTcp => match unread(0, tracker, is_within_ip) {
            none if none.is_empty() => format!("{count} packets are IP but not TCP."),
            some => {
                format!("{count} packets are IP but not TCP; TCP in some of them cannot be read ({some}).")
            }
        },
        Skipped::Fragment => {
            format!("{count} packets hold a fragment of IP; fragments are not put together.")
        }
        Skipped::Snapped => {
            format!("{count} packets were cut before the end of the headers; capture with `-s 128`.")
        }
        Skipped::Malformed => format!("{count} packets have headers that contradict themselves."),
        Skipped::Copy => {
            format!("{count} packets were captured several times; one copy of each was used.")
        }
        Skipped::WrongStamp => {
            format!("{count} packets have a time stamp that others around contradict, and were left out.")
        }
        Skipped::Filtered => format!("{count} packets do not pass the filter."),
        Skipped::OddRecord => {
            format!("{count} records were skipped: no time stamp, no bytes, or numbers that make no sense.")
        }
    }
}

fn is_within_ip(unread: Unread) -> bool {
    matches!(unread, Unread::Protocol(_) | Unread::Tunnelled(_))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_something_is_singular() {
        for (many, one) in [
            ("1 packets are not IP (ARP).", "1 packet is not IP (ARP)."),
            ("1 packets do not pass the filter.", "1 packet does not pass the filter."),
            ("1 packets came late, and were sorted.", "1 packet came late, and was sorted."),
            ("1 packets have a stamp, and were left out.", "1 packet has a stamp, and was left out."),
            ("The kernel dropped 1 packets: they are gone.", "The kernel dropped 1 packet: they are gone."),
            ("Of 1 transfers only ACKs were captured.", "Of 1 transfer only ACKs were captured."),
            ("The clock was set 1 times; no time passes.", "The clock was set once; no time passes."),
            ("21 packets are not IP (ARP: 1).", "21 packets are not IP (ARP: 1)."),
            ("0 packets have 11 times 1 byte.", "0 packets have 11 times 1 byte."),
        ] {
            assert_eq!(agreeing(many), one);
        }
    }

    #[test]
    fn what_was_skipped_is_said_of_one_and_of_many() {
        let tracker = Tracker::new(&headway_passive::Options::default());
        for reason in Skipped::ALL {
            let one = agreeing(&skipped(reason, 1, &tracker));
            let is_right = |verb: &str| one.starts_with(&format!("1 packet {verb} "));
            let record = one.starts_with("1 record was ");
            assert!(record || ["has", "is", "was", "does", "holds"].into_iter().any(is_right), "{one}");
            assert!(!one.contains(" they ") && !one.contains(" their "), "{one}");
        }
    }
}
