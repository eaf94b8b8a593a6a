//! Captures that are easily read wrongly, and what `headway passive` must say about them.

use crate::support::{headway, output, text};
use serde_json::Value;

/// What a value in the result must be.
enum Right {
    /// This text or number.
    Is(&'static str),
    /// One of these texts.
    In(&'static [&'static str]),
    /// A number within a share of this one.
    Near(f64, f64),
}
use Right::{In, Is, Near};

/// Files in `tests/cases`, and for each of them places in the result with what must be there.
///
/// The path of most has a rate of 20 Mb/s at a token bucket, 20.3 Mb/s on an Ethernet wire,
/// and an RTT of 20 ms.
const CASES: &[(&str, &[(&str, Right)])] = &[
    // A transfer of 50 segments, 81 packets; one of them has a wrong time stamp.
    ("03a-one-stamp-zero.pcap", WRONG_STAMP),
    ("03b-one-stamp-future.pcap", WRONG_STAMP),
    ("03d-zero-stamp-epb.pcapng", WRONG_STAMP),
    // 200 segments, and every packet twice.
    ("04a-any-bridge-sll1.pcap", TWICE),
    ("04c-span-dup-same-if.pcap", TWICE),
    ("04e-dup-vlan-and-plain.pcap", TWICE),
    ("06a-router-any-synthetic.pcap", TWICE),
    ("06a-router-any-synthetic.pcap", &[("/flows/0/near_known_by", Is("handshake"))]),
    // Three interfaces in turn, without copies.
    ("05b-three-interfaces-tsres.pcapng", WHOLE),
    // Formats, tags and tunnels.
    ("09-obsolete-packet-blocks.pcapng", WHOLE),
    ("10a-pppoe.pcap", WHOLE),
    ("10b-mpls.pcap", WHOLE),
    ("10d-gre.pcap", WHOLE),
    ("10e-vxlan.pcap", WHOLE),
    ("16b-snap60-timestamps.pcap", WHOLE),
    // One record makes no sense, or has no time.
    ("11a-usec-over-1e6.pcap", ODD_RECORD),
    ("11b-zero-length-packet.pcap", ODD_RECORD),
    ("11c-one-simple-packet-block.pcapng", ODD_RECORD),
    // The handshake is a second, or five, before the first data.
    ("01a-think-1s-sender-300pkts.pcap", &[("/paths/0/capacity_bps", Near(20.4e6, 0.01))]),
    ("01b-same-data-no-think.pcap", &[("/paths/0/capacity_bps", Near(20.4e6, 0.01))]),
    ("01d-think-5s-receiver-9pkts.pcap", &[("/paths/0/rtt_us", Near(20_050.0, 0.01))]),
    // Bulk that fills the path, and beside it a connection that hardly sends.
    ("02c-synthetic-receiver-bulk.pcap", &[("/paths/0/limited_by", In(&["path", "unknown"]))]),
    ("07-idle-control-connection.pcap", &[("/paths/0/limited_by", Is("path"))]),
    // The receive window limits flights that fit into the bucket of a shaper.
    (
        "14a-capacity-below-rate.pcap",
        &[("/paths/0/capacity_bps", Is("null")), ("/paths/0/limited_by", Is("receive-window"))],
    ),
    // Linux on emulated paths of 10 and 20 Mb/s, captured at the sender, in the middle and at the receiver.
    ("limits-bbr-path-sender.pcap", &[("/paths/0/limited_by", Is("path"))]),
    (
        "limits-bbr-path-receiver.pcap",
        &[
            ("/paths/0/limited_by", Is("path")),
            // As tshark counts them.
            ("/flows/0/retransmissions", Is("0")),
            ("/flows/0/duplicate_acks", Is("56")),
        ],
    ),
    ("limits-cubic-window-middle.pcap", &[("/paths/0/limited_by", Is("receive-window"))]),
    ("limits-cubic-window-receiver.pcap", &[("/paths/0/limited_by", Is("receive-window"))]),
    ("limits-bbr-application-receiver.pcap", &[("/paths/0/limited_by", Is("application"))]),
    ("limits-cubic-application-middle.pcap", &[("/paths/0/limited_by", Is("application"))]),
    // Dialogues on loopback, whose MSS is larger than the window.
    (
        "20a-loopback-mss-above-window.pcap",
        &[
            ("/paths/0/limited_by", Is("application")),
            ("/paths/1/limited_by", Is("application")),
            ("/paths/0/free_unknown", Is("loopback")),
        ],
    ),
    // TLS handshakes, audio, and bursts of a server: nothing presses the path.
    ("20b-free-of-tls-handshakes.pcap", NOTHING_FREE),
    ("20d-free-of-audio-at-a-10M-link.pcap.gz", NOTHING_FREE),
    ("26a-free-1.2G-of-16M.pcap", NOTHING_FREE),
    // A NAT that ends TCP acknowledges data within 0.3 or 0.5 ms, and took 320 or 2762 ms for the handshake.
    (
        "21a-vm-nat-proxy.pcap",
        &[
            ("/connections_proxied", Is("1")),
            ("/flows/0/rtt_us", Near(464.0, 0.01)),
            ("/flows/1/rtt_us", Near(257.0, 0.01)),
            ("/paths/0/limited_by", Is("application")),
        ],
    ),
    ("21c-vm-nat-proxy-free.pcap", NOTHING_FREE),
    (
        "21c-vm-nat-proxy-free.pcap",
        &[("/connections_proxied", Is("1")), ("/flows/0/rtt_us", Near(462.0, 0.01))],
    ),
    // A request of one packet.
    ("22a-one-request-path.pcap", &[("/flows/1/limited_by", Is("null"))]),
    // A link of 10 Mb/s of Ethernet frames, 10.16 Mb/s on the wire; of the short file nothing is known.
    ("24a-capacity-4-times-htb10.pcap", &[("/paths/0/capacity_bps", Is("null"))]),
    ("24b-capacity-drifts-up-htb10.pcap.gz", &[("/paths/0/capacity_bps", Near(10.16e6, 0.01))]),
    ("24b-capacity-drifts-up-htb10.pcap.gz", &[("/paths/0/free_bps", Near(10.16e6, 0.01))]),
    // The handshake is out of order, or both ends send a SYN.
    (
        "12a-synack-before-syn.pcap",
        &[
            ("/connections", Is("1")),
            ("/flows/0/near_known_by", Is("handshake")),
            ("/flows/0/direction", Is("from")),
            ("/flows/0/rtt_us", Near(20_100.0, 0.01)),
        ],
    ),
    ("12b-simultaneous-open.pcap", &[("/connections", Is("1")), ("/flows/0/near_known_by", Is("handshake"))]),
    // Out of order by 107 ms, and in blocks of 20 ms of either direction.
    ("23a-out-of-order-left-out.pcap", &[("/packets_used", Is("6")), ("/connections", Is("2"))]),
    (
        "23b-two-queues-20ms.pcap.gz",
        &[
            ("/packets_used", Is("900")),
            ("/paths/0/capacity_bps", Near(20.3e6, 0.01)),
            ("/paths/0/free_bps", Near(20.3e6, 0.01)),
            ("/paths/0/limited_by", Is("path")),
            ("/flows/0/near_known_by", Is("handshake")),
            ("/flows/0/ack_rtt_min_us", Near(20_181.0, 0.001)),
            ("/flows/0/ack_rtt_p95_us", Near(47_200.0, 0.03)),
        ],
    ),
    // Lengths in the order of old versions, longer headers of records, and nanoseconds that are
    // called microseconds.
    ("25a-pcap-2.2-lengths-swapped.pcap", &[("/packets_used", Is("5"))]),
    ("25b-modified-pcap-fritzbox.pcap", &[("/packets_used", Is("5"))]),
    (
        "25c-nanoseconds-under-microsecond-magic.pcap",
        &[("/packets", Is("60")), ("/packets_used", Is("60")), ("/packets_skipped/odd-record", Is("0"))],
    ),
    // Data in the SYN (TCP Fast Open).
    (
        "15-tfo-side-assumed.pcap",
        &[("/flows/0/near_known_by", Is("handshake")), ("/flows/0/direction", Is("to"))],
    ),
];

/// 50 segments of 1538 bytes on the wire.
const WHOLE: &[(&str, Right)] = &[
    ("/packets_used", Is("81")),
    ("/connections", Is("1")),
    ("/paths/0/rate_bps", Near(6.0e6, 0.03)),
    ("/flows/0/rtt_us", Near(20_000.0, 0.02)),
];
const NOTHING_FREE: &[(&str, Right)] = &[
    ("/paths/0/free_bps", Is("null")),
    ("/paths/0/capacity_bps", Is("null")),
    ("/paths/1/free_bps", Is("null")),
    ("/paths/1/capacity_bps", Is("null")),
];
const WRONG_STAMP: &[(&str, Right)] = &[
    ("/packets_used", Is("80")),
    ("/packets_skipped/wrong-stamp", Is("1")),
    ("/clock_steps", Is("0")),
    ("/paths/0/rate_bps", Near(6.0e6, 0.03)),
    ("/flows/0/rtt_us", Near(20_000.0, 0.02)),
];
const ODD_RECORD: &[(&str, Right)] = &[
    ("/packets", Is("81")),
    ("/packets_used", Is("80")),
    ("/packets_skipped/odd-record", Is("1")),
    ("/paths/0/rate_bps", Near(6.0e6, 0.03)),
    ("/flows/0/rtt_us", Near(20_000.0, 0.02)),
];
const TWICE: &[(&str, Right)] = &[
    ("/packets", Is("612")),
    ("/packets_used", Is("306")),
    ("/packets_skipped/copy", Is("306")),
    ("/connections", Is("1")),
    ("/flows/0/data_packets", Is("200")),
    ("/paths/0/rate_bps", Near(15.0e6, 0.03)),
    ("/flows/0/direction", Is("to")),
];

impl Right {
    fn holds(&self, found: &Value) -> bool {
        match self {
            Is(expected) => found.as_str().map_or_else(|| found.to_string(), str::to_owned) == *expected,
            In(expected) => found.as_str().is_some_and(|found| expected.contains(&found)),
            Near(expected, share) => {
                found.as_f64().is_some_and(|found| (found / expected - 1.0).abs() <= *share)
            }
        }
    }
}

#[test]
fn captures_that_are_easily_read_wrongly_are_read_rightly() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut wrong = Vec::new();
    for (file, facts) in CASES {
        let path = format!("{folder}/{file}");
        let output = output(&mut headway(&["passive", &path, "--json", "--per-flow"]));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let failed = facts.iter().filter_map(|(place, right)| {
            let found = result.pointer(place).unwrap_or(&Value::Null);
            (!right.holds(found)).then(|| format!("{file}: {place} is {found}"))
        });
        wrong.extend(failed);
        if !output.status.success() {
            wrong.push(format!("{file}: {}", text(&output.stderr)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The records of a pcap file of this machine's byte order, with stamps in microseconds.
fn records(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    let (mut at, mut records) = (24, Vec::new());
    while at < file.len() {
        let end = at + 16 + word(at + 8) as usize;
        records.push((u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)), file[at..end].to_vec()));
        at = end;
    }
    records
}

/// Writes the records of a case in blocks of so many ms, first the packets of one direction,
/// then those of the other.
fn in_blocks(case: &str, ms: u64, folder: &std::path::Path) -> String {
    let file = std::fs::read(format!("{}/tests/cases/{case}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut records = records(&file);
    let first = records[0].0;
    // The end of the source address in Ethernet and IPv4.
    records.sort_by_key(|(at, record)| ((at - first) / (ms * 1_000), [record[16 + 28], record[16 + 29]]));
    let path = folder.join("blocks.pcap");
    let bytes: Vec<u8> = records.into_iter().flat_map(|(_, record)| record).collect();
    std::fs::write(&path, [&file[..24], &bytes].concat()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn files_out_of_order_are_sorted_within_a_second_and_refused_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let case = "14a-capacity-below-rate.pcap";
    let result = |path: &str| -> Value {
        let output = output(&mut headway(&["passive", path, "--json", "--per-flow"]));
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let whole = result(&format!("{}/tests/cases/{case}", env!("CARGO_MANIFEST_DIR")));
    for ms in [30, 700] {
        let blocks = result(&in_blocks(case, ms, folder.path()));
        for part in ["paths", "flows"] {
            assert_eq!(blocks[part], whole[part], "{ms} ms");
        }
        assert!(blocks["disordered"].as_u64() > Some(100));
    }
    let path = in_blocks(case, 2_000, folder.path());
    let refused = output(&mut headway(&["passive", &path]));
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(1), true));
    assert!(text(&refused.stderr).contains("`reordercap FILE NEW`"), "{}", text(&refused.stderr));
}

#[test]
fn a_stream_out_of_order_is_sorted_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_blocks("01b-same-data-no-think.pcap", 20, folder.path());
    let run = |arguments: &[&str], input: bool| -> Value {
        let mut command = headway(arguments);
        if input {
            command.stdin(std::fs::File::open(&path).unwrap());
        }
        // Before the result of a stream there are intervals.
        serde_json::from_str(text(&output(&mut command).stdout).lines().last().unwrap()).unwrap()
    };
    let (file, stream) = (run(&["passive", &path, "--json"], false), run(&["passive", "-", "--json"], true));
    assert_eq!(file["paths"], stream["paths"]);
    assert_eq!(file["disordered"], stream["disordered"]);
}
