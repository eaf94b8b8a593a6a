//! Sentences about what was not used, and why.

use headway_capture::{ReadError, Skipped, Tracker};

use super::PassiveArgs;

/// Returns a sentence for everything that a reader of the result must know.
pub(super) fn all(
    tracker: &Tracker,
    drops: u64,
    failure: Option<&ReadError>,
    args: &PassiveArgs,
) -> Vec<String> {
    let counts = tracker.counts();
    let mut notes = Vec::new();
    if args.interface.is_some() {
        notes.push("Time stamps are the kernel's.".to_owned());
    }
    if let Some(error @ ReadError::Cut { .. }) = failure {
        notes.push(format!("The capture is cut off: {error}. Everything before that was used."));
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
    let steps = counts.clock.steps;
    note(steps, format!("The clock of the capture was set back {steps} times; no time passes there."));
    let disordered = counts.clock.disordered;
    note(
        disordered,
        format!("{disordered} packets have earlier time stamps than the ones before; they got theirs."),
    );
    let oversized = counts.oversized;
    note(
        oversized,
        format!(
            "{oversized} packets are larger than the MSS: captured before segmentation or after reassembly by the \
             card. Their ACKs are used; gaps between such packets are not those on the wire."
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
    let evicted = counts.evicted;
    note(
        evicted,
        format!(
            "The table is full: {evicted} connections idle for longest were given up; --connections {} holds more.",
            u64::from(args.connections) * 4
        ),
    );
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
            let link = tracker.counts().foreign.map_or("unknown".to_owned(), |link| link.to_string());
            format!(
                "{count} packets have a link layer that is not supported ({link}); capture on an Ethernet interface."
            )
        }
        Skipped::NotIp => format!("{count} packets are not IP."),
        Skipped::NotTcp => format!("{count} packets are IP but not TCP."),
        Skipped::Fragment => format!("{count} packets are IP fragments, which are not put together."),
        Skipped::Snapped => {
            format!("{count} packets were cut before the end of their headers; capture with `-s 128`.")
        }
        Skipped::Malformed => format!("{count} packets have headers that contradict themselves."),
        Skipped::Copy => {
            format!("{count} packets were captured twice, on two interfaces; one of each was used.")
        }
    }
}
