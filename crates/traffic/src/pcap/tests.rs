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
    let cut = refusal(&whole[..whole.len() - 1]);
    assert!(cut.contains("test.pcap is corrupt at byte 196: 64 bytes are expected, 63 are left"), "{cut}");
    assert!(cut.contains("editcap"), "{cut}");
    assert!(refusal(&whole[..24]).contains("no packet"));
    assert!(refusal(b"").contains("at byte 0"));
    assert!(refusal(&[7; 100]).contains("at byte 0: it is neither pcap nor pcapng"));
    let mut other = whole.clone();
    other[20] = 127;
    assert!(refusal(&other).contains("at byte 20: link type 127"));
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
fn time_stamps_that_no_time_can_span_are_refused() {
    let (longest, much) = (i64::MAX as u64 / 1_000, u64::MAX / 1_000);
    assert_eq!(parsed(&next_generation(&[longest, 0])), [(0, 84), (longest as i64 * 1_000, 84)]);
    for stamps in [[0, longest + 1], [much, 0]] {
        let refusal = refusal(&next_generation(&stamps));
        assert!(refusal.contains("its time stamps lie more than 292 years apart"), "{refusal}");
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
    let missing = Capture::from(PathBuf::from("nowhere.pcap")).load(Path::new("/x")).unwrap_err();
    assert!(missing.to_string().contains("cannot read the capture /x/nowhere.pcap"), "{missing}");
}
