use std::io::Write;

use super::*;
use crate::Traffic;

/// Times in nanoseconds and frame lengths without check sequence.
const FRAMES: [(u64, u32); 3] =
    [(1_700_000_000_000_001_000, 1_514), (1_700_000_000_000_014_000, 60), (1_700_000_001_500_000_000, 1_000)];

/// Creates a pcap file with timestamps in nanoseconds that keeps at most 64 bytes of each packet.
fn classic(frames: &[(u64, u32)]) -> Vec<u8> {
    let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 64, 1]);
    for (at, length) in frames {
        let kept = (*length).min(64);
        out.extend(words(&[(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, kept, *length]));
        out.resize(out.len() + kept as usize, 0);
    }
    out
}

fn parsed(contents: &[u8]) -> Vec<(i64, u64)> {
    let capture = Capture::parse(Path::new("test.pcap"), contents).unwrap();
    capture.packets().iter().map(|packet| (packet.at.ns(), packet.size.get())).collect()
}

fn refusal(contents: &[u8]) -> String {
    Capture::parse(Path::new("test.pcap"), contents).unwrap_err().to_string()
}

#[test]
fn packets_have_their_original_lengths_on_the_wire() {
    assert_eq!(parsed(&classic(&FRAMES)), [(0, 1_538), (13_000, 84), (1_499_999_000, 1_024)]);
}

#[test]
fn what_a_link_layer_lacks_is_added() {
    let mut contents = classic(&FRAMES);
    let mut size_with = |network: u32| {
        contents[20..24].copy_from_slice(&network.to_le_bytes());
        parsed(&contents)[0].1
    };
    assert_eq!(size_with(1), 1_514 + 24);
    assert_eq!(size_with(1 | 1 << 26 | 2 << 28), 1_514 + 20, "with a check sequence of two words");
    assert_eq!(size_with(101), 1_514 + 38);
    assert_eq!(size_with(113), 1_514 - 16 + 38);
}

#[test]
fn packets_out_of_order_are_sorted() {
    let frames = [FRAMES[1], FRAMES[0]];
    assert_eq!(parsed(&classic(&frames)), [(0, 1_538), (13_000, 84)]);
}

#[test]
fn corrupt_files_are_refused_with_the_place_and_the_next_step() {
    let whole = classic(&FRAMES);
    let cut = refusal(&whole[..30]);
    assert!(cut.contains("test.pcap is corrupt at byte 24: 16 bytes are expected, 6 are left"), "{cut}");
    assert!(cut.contains("editcap"), "{cut}");
    assert!(refusal(&whole[..24]).contains("no packet"));
    assert!(refusal(b"").contains("at byte 0"));
    assert!(refusal(&[7; 100]).contains("at byte 0: it is neither pcap nor pcapng"));
    let mut other = whole.clone();
    other[20] = 147;
    let other = refusal(&other);
    assert!(
        other.contains("no packets that can be read: 3 packets have a link layer that is not read"),
        "{other}"
    );
}

fn left_out(contents: &[u8]) -> (usize, Vec<String>) {
    let capture = Capture::parse(Path::new("test.pcap"), contents).unwrap();
    (capture.packets().len(), capture.left_out().to_vec())
}

#[test]
fn what_is_left_out_is_told() {
    let whole = classic(&FRAMES);
    assert_eq!(left_out(&whole), (3, Vec::new()));
    let cut = left_out(&whole[..whole.len() - 1]);
    assert_eq!(
        cut,
        (2, vec!["the file is cut off: it ends at byte 196: 64 bytes are expected, 63 are left".to_owned()])
    );
    // Lengths of zero, and one time stamp of many.
    let mut odd = whole.clone();
    odd[24 + 12..][..4].fill(0);
    assert_eq!(left_out(&odd).1[0], "1 records have no time stamp, no bytes, or numbers that make no sense");
    let many: Vec<(u64, u32)> = (0..20).map(|k| (if k == 9 { 7 } else { FRAMES[0].0 + k }, 60)).collect();
    let (packets, sentences) = left_out(&classic(&many));
    assert_eq!((packets, sentences.len()), (19, 1));
    assert!(sentences[0].contains("1 packets have time stamps that those before and after them contradict"));
}

#[test]
fn packets_behind_headers_of_any_length_are_read() {
    // 802.11 behind radiotap, whose IP packets have 1500 bytes; a beacon is left out.
    let frame = |kind: u8| {
        let header = [0, 0, 8, 0, 0, 0, 0, 0, kind, 1];
        [&header[..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45, 0, 0x05, 0xdc], &[0; 30]].concat()
    };
    let mut file = classic(&[]);
    file[20] = 127;
    for kind in [8, 0x80, 8] {
        let words = [1, 1, frame(kind).len() as u32, 1_544];
        file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
        file.extend(frame(kind));
    }
    assert_eq!(parsed(&file), [(0, 1_538), (0, 1_538)]);
    assert!(left_out(&file).1[0].starts_with("1 packets have a link layer that is not read"));
}

/// Creates a pcapng file with these time stamps in microseconds, of empty packets.
fn next_generation(stamps: &[u64]) -> Vec<u8> {
    let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20]);
    for stamp in stamps {
        out.extend(words(&[6, 32, 0, (stamp >> 32) as u32, *stamp as u32, 0, 60, 32]));
    }
    out
}

#[test]
fn time_stamps_that_no_time_can_span_are_left_out() {
    let much = u64::MAX / 1_000;
    for stamps in [[1, much], [much, 0]] {
        assert_eq!(left_out(&next_generation(&stamps)).0, 1, "{stamps:?}");
    }
}

#[test]
fn replay_repeats_after_one_mean_gap() {
    let frames: Vec<(u64, u32)> = (0..4).map(|k| (k * 10_000, 1_000)).collect();
    let capture = Capture::parse(Path::new("test.pcap"), &classic(&frames)[..]).unwrap();
    let times = |repeat| {
        let mut source = Traffic::Pcap { file: capture.clone(), repeat }.generator(1, 0);
        std::iter::from_fn(|| source.next()).take(6).map(|packet| packet.at.ns()).collect::<Vec<_>>()
    };
    assert_eq!(times(false), [0, 10_000, 20_000, 30_000]);
    assert_eq!(times(true), [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
}

#[test]
fn a_description_names_the_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&classic(&FRAMES)).unwrap();
    let text = format!("model = 'pcap'\nfile = '{}'\nrepeat = true\n", file.path().display());
    let traffic: Traffic = toml::from_str(&text).unwrap();
    assert_eq!(toml::from_str::<Traffic>(&toml::to_string(&traffic).unwrap()).unwrap(), traffic);
    let Traffic::Pcap { file: mut found, .. } = traffic else { panic!("another model") };
    found.load(Path::new("/anywhere")).unwrap();
    assert_eq!(found.packets().len(), FRAMES.len());
    // Packed as well.
    let mut packed = tempfile::NamedTempFile::new().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&classic(&FRAMES)).unwrap();
    packed.write_all(&encoder.finish().unwrap()).unwrap();
    let mut again = Capture::from(packed.path().to_owned());
    again.load(Path::new("/anywhere")).unwrap();
    assert_eq!(again.packets(), found.packets());
    let missing = Capture::from(PathBuf::from("nowhere.pcap")).load(Path::new("/x")).unwrap_err();
    assert!(missing.to_string().contains("cannot read the capture /x/nowhere.pcap"), "{missing}");
}
