//! Several files read as one, packed files, and filters.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::support::{Bulk, Pcap, Pcapng, Tcp};
use flate2::Compression;
use flate2::write::GzEncoder;
use headway_capture::{Next, ReadError, Reader, Several, Unpacked};
use headway_passive::{Options, Skipped, Tracker};

const MS: u64 = 1_000_000;
const START: u64 = 1_600_000_000_000 * MS;

fn bulk() -> Bulk<'static> {
    Bulk {
        client: ("192.0.2.1", 40_000),
        server: ("198.51.100.2", 443),
        at: START,
        rtt: 20 * MS,
        gap: 246_080,
        segments: 300,
    }
}

fn pcap(packets: &[(u64, Tcp)]) -> Vec<u8> {
    let mut file = Pcap::new(1);
    packets.iter().for_each(|(at, tcp)| file.tcp(*at, tcp));
    file.bytes
}

fn pcapng(packets: &[(u64, Tcp)]) -> Vec<u8> {
    let mut file = Pcapng::new(1);
    for (at, tcp) in packets {
        let (data, length) = tcp.ethernet();
        file.push(0, *at, &data, length);
    }
    file.bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn write(folder: &Path, files: &[Vec<u8>]) -> Vec<PathBuf> {
    let write = |(k, bytes): (usize, &Vec<u8>)| {
        let path = folder.join(format!("{k}.pcap"));
        std::fs::write(&path, bytes).unwrap();
        path
    };
    files.iter().enumerate().map(write).collect()
}

/// Reads files to their end; returns the errors and what came of them.
fn follow(files: &[Vec<u8>]) -> (Tracker, Vec<ReadError>) {
    let folder = tempfile::tempdir().unwrap();
    let mut several = Several::open(&write(folder.path(), files)).unwrap();
    let mut tracker = Tracker::new(&Options { connections: 100, paths: 10, ..Options::default() });
    let mut errors = Vec::new();
    loop {
        match several.next() {
            Ok(Next::Packet(packet)) => tracker.packet(&packet, None),
            Ok(Next::OddRecord) => tracker.odd_record(),
            Ok(Next::Pending) => panic!("files are never pending"),
            Ok(Next::End) => break,
            Err(error) => errors.push(error.error),
        }
    }
    let (done, all) = several.progress();
    assert_eq!(done, all);
    tracker.finish();
    (tracker, errors)
}

/// Checks that the transfer is there as in a single file.
fn is_whole(tracker: &mut Tracker) {
    let counts = tracker.counts();
    assert_eq!((counts.used, counts.connections, counts.skipped(Skipped::Copy)), (453, 1, 0));
    assert_eq!(tracker.clock().disordered, 0);
    let row = tracker.paths().remove(0);
    assert_eq!(row.known.volume.packets, 300);
    assert!((row.known.rtt.unwrap().ms() - 20.0).abs() < 1.0, "{:?}", row.known.rtt);
}

#[test]
fn rotated_files_of_any_format_are_read_in_the_order_of_their_times() {
    let packets = bulk().packets();
    let parts: Vec<&[(u64, Tcp)]> = packets.chunks(packets.len().div_ceil(3)).collect();
    // In another order, with one that is empty.
    let files = [packed(&pcap(parts[2])), pcap(parts[0]), Pcap::new(1).bytes, pcapng(parts[1])];
    let (mut tracker, errors) = follow(&files);
    assert!(errors.is_empty());
    is_whole(&mut tracker);
}

#[test]
fn files_that_overlap_are_merged() {
    let packets = bulk().packets();
    let (out, back): (Vec<_>, Vec<_>) = packets.into_iter().partition(|(_, tcp)| tcp.source.1 == 40_000);
    let (mut tracker, errors) = follow(&[packed(&pcapng(&back)), pcap(&out)]);
    assert!(errors.is_empty());
    is_whole(&mut tracker);
}

#[test]
fn a_wrong_time_stamp_in_one_file_does_not_hold_up_its_others() {
    let (mut out, back): (Vec<_>, Vec<_>) =
        bulk().packets().into_iter().partition(|(_, tcp)| tcp.source.1 == 40_000);
    out[100].0 += 40 * 365 * 86_400_000 * MS;
    let (mut tracker, _) = follow(&[pcap(&out), pcap(&back)]);
    assert_eq!((tracker.counts().used, tracker.counts().skipped(Skipped::WrongStamp)), (452, 1));
    let row = tracker.paths().remove(0);
    assert!((row.known.rtt.unwrap().ms() - 20.0).abs() < 1.0, "{:?}", row.known.rtt);
}

#[test]
fn a_file_that_breaks_off_does_not_end_the_others() {
    let packets = bulk().packets();
    let (first, second) = packets.split_at(200);
    let mut broken = pcap(first);
    broken.extend([0xff; 40]);
    let (tracker, errors) = follow(&[broken, pcap(second)]);
    assert!(matches!(errors[..], [ReadError::Corrupt { .. }]), "{errors:?}");
    assert_eq!(tracker.counts().used, 453);
    // A packed file that is cut off gives what is there.
    let whole = packed(&pcap(&packets));
    let (tracker, errors) = follow(&[whole[..whole.len() / 2].to_vec()]);
    assert!(errors.iter().all(|error| matches!(error, ReadError::Cut { .. })), "{errors:?}");
    assert!((50..450).contains(&tracker.counts().used), "{}", tracker.counts().used);
}

#[test]
fn what_is_no_capture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), &[pcap(&bulk().packets()), b"no capture at all".to_vec()]);
    let error = Several::open(&files).unwrap_err();
    assert_eq!(error.path, files[1]);
    assert!(error.to_string().contains("1.pcap: it is corrupt at byte 0: it is neither pcap nor pcapng"));
    assert!(matches!(Several::open(&[folder.path().join("none")]).unwrap_err().error, ReadError::Io(_)));
}

/// A stream that arrives in small parts, with a pause before each.
struct Trickle {
    bytes: VecDeque<u8>,
    paused: bool,
}

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.paused = !self.paused;
        if self.paused {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = out.len().min(self.bytes.len()).min(1);
        self.bytes.drain(..count).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(count)
    }
}

#[test]
fn packed_streams_are_unpacked_as_they_arrive() {
    let packets = bulk().packets();
    let file = pcap(&packets[..50]);
    let (first, second) = file.split_at(1_000);
    // Packed in two parts, as by programs that append; packed once; and as it is.
    for bytes in [[packed(first), packed(second)].concat(), packed(&file), file.clone()] {
        let mut reader = Reader::new(Unpacked::new(Trickle { bytes: bytes.into(), paused: false }));
        let mut count = 0;
        loop {
            match reader.next().unwrap() {
                Next::Packet(_) => count += 1,
                Next::Pending => {}
                Next::OddRecord => panic!("an odd record"),
                Next::End => break,
            }
        }
        assert_eq!(count, 50);
    }
    for bytes in [&[][..], &[0x1f], &[0x1f, 0x8b]] {
        let mut all = Vec::new();
        let _ = Unpacked::new(bytes).read_to_end(&mut all);
        assert!(all.len() < 2);
    }
}

#[test]
fn a_filter_keeps_connections_and_times() {
    let other = Bulk { client: ("192.0.2.9", 50_000), ..bulk() };
    let mut packets = [bulk().packets(), other.packets()].concat();
    packets.sort_by_key(|(at, _)| *at);
    for (filter, used) in [
        ("host 192.0.2.9", 453),
        ("net 192.0.2.0/24", 906),
        ("port 40000 or port 50000 and not host 192.0.2.9", 453),
        // The handshakes, of which the second segment is at 20 ms.
        ("before 19 ms", 2),
        ("after 1 h", 0),
        ("after 2020-09-13T12:26:40.019Z", 904),
    ] {
        let mut tracker = Tracker::new(&Options { connections: 100, paths: 10, ..Options::default() });
        tracker.set_filter(filter.parse().unwrap());
        let file = pcap(&packets);
        let mut reader = Reader::new(&file[..]);
        while let Next::Packet(packet) = reader.next().unwrap() {
            tracker.packet(&packet, None);
        }
        tracker.finish();
        let counts = tracker.counts();
        assert_eq!((counts.used, counts.skipped(Skipped::Filtered)), (used, 906 - used), "{filter}");
    }
}
