//! Cards of receivers that coalesce interrupts, before the Linux stack.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use crate::support::kernels::{Try, has_kernel};

/// A segment every 12.3 us, each with its ACK.
const STEADY: &str = r#"
duration = "300 ms"
warmup = "100 ms"
[[link]]
from = "sender"
to = "receiver"
rate = "1 Gb/s"
delay = "5 ms"
[host.receiver]
coalescing = "120 us"
[[flow]]
from = "sender"
to = "receiver"
controller = "fixed-rate:1 Gb/s"
offload = false
ack-every = 1
receive-buffer = "20 MB"
"#;

/// rapid 2.15: packets 12 us apart come in batches, and so do their ACKs.
#[test]
fn a_card_hands_up_batches_about_an_interval_apart() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(STEADY);
    attempt.summary(&["--pcap"]);
    let times = times(&std::fs::read(attempt.path("out/receiver-sender.pcap")).unwrap());
    // The driver takes up to 1 us a packet.
    let batches: Vec<usize> =
        times.chunk_by(|one, next| next - one < 2_000).skip(100).map(<[u64]>::len).collect();
    let span = times[times.len() - 1] - times[times.len() - 1 - batches.iter().sum::<usize>()];
    let apart = span / batches.len() as u64;
    assert!((114_000..=126_000).contains(&apart), "{apart} ns");
    assert!(batches.iter().any(|size| *size < 9) && batches.iter().any(|size| *size > 10), "{batches:?}");
}

/// The times of all packets of a capture with nanoseconds.
fn times(capture: &[u8]) -> Vec<u64> {
    let mut rest = &capture[24..];
    let mut times = Vec::new();
    while let Some((head, packet)) = rest.split_at_checked(16) {
        let [seconds, nanoseconds, kept] =
            [0, 4, 8].map(|at| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap()));
        times.push(u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds));
        rest = &packet[kept as usize..];
    }
    times
}

#[test]
fn cards_that_the_kernel_does_not_have_are_refused_by_their_key() {
    let attempt =
        Try::new(&STEADY.replace("\"120 us\"", "{ kind = \"adaptive\", interval = \"30 us\", frames = 8 }"));
    let output = attempt.run("out", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("host.receiver.coalescing"), "{said}");
}
