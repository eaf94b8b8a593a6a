use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::Traffic;

/// Times in nanoseconds and frame lengths without check sequence.
const FRAMES: [(u64, u32); 3] =
    [(1_700_000_000_000_001_000, 1_514), (1_700_000_000_000_014_000, 60), (1_700_000_001_500_000_000, 1_000)];

fn put(out: &mut Vec<u8>, value: u32, big_endian: bool) {
    out.extend(if big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
}

/// Creates a pcap file that keeps at most 64 bytes of each packet.
fn classic(frames: &[(u64, u32)], nanoseconds: bool, big_endian: bool) -> Vec<u8> {
    let (magic, unit) = if nanoseconds { (0xa1b2_3c4d, 1) } else { (0xa1b2_c3d4, 1_000) };
    let mut out = Vec::new();
    for value in [magic, 0x0004_0002, 0, 0, 64, 1] {
        put(&mut out, value, big_endian);
    }
    for (at, length) in frames {
        let kept = (*length).min(64);
        for value in [(at / 1_000_000_000) as u32, (at % 1_000_000_000 / unit) as u32, kept, *length] {
            put(&mut out, value, big_endian);
        }
        out.resize(out.len() + kept as usize, 0);
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8], big_endian: bool) {
    let length = body.len().next_multiple_of(4) + 12;
    put(out, kind, big_endian);
    put(out, length as u32, big_endian);
    out.extend(body);
    out.resize(out.len().next_multiple_of(4), 0);
    put(out, length as u32, big_endian);
}

/// Creates a pcapng file with one interface whose timestamps are in nanoseconds.
fn pcapng(frames: &[(u64, u32)], big_endian: bool) -> Vec<u8> {
    let words = |values: &[u32]| {
        let mut body = Vec::new();
        values.iter().for_each(|value| put(&mut body, *value, big_endian));
        body
    };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = Vec::new();
    block(&mut out, 0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]), big_endian);
    let mut interface = [half(1), half(0), half(0), half(0), half(9), half(1)].concat();
    interface.extend([9, 0, 0, 0]);
    block(&mut out, 1, &interface, big_endian);
    // Blocks of other types are skipped.
    block(&mut out, 5, &words(&[0; 3]), big_endian);
    for (at, length) in frames {
        let mut body = words(&[0, (at >> 32) as u32, *at as u32, 3, *length]);
        body.extend([0; 3]);
        block(&mut out, 6, &body, big_endian);
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
fn all_formats_give_the_original_lengths_on_the_wire() {
    let expected = [(0, 1_538), (13_000, 84), (1_499_999_000, 1_024)];
    for big_endian in [false, true] {
        assert_eq!(parsed(&classic(&FRAMES, false, big_endian)), expected);
        assert_eq!(parsed(&classic(&FRAMES, true, big_endian)), expected);
        assert_eq!(parsed(&pcapng(&FRAMES, big_endian)), expected);
    }
}

#[test]
fn what_a_link_layer_lacks_is_added() {
    let mut contents = classic(&FRAMES, true, false);
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
    assert_eq!(parsed(&classic(&frames, true, false)), [(0, 1_538), (13_000, 84)]);
}

#[test]
fn corrupt_files_are_refused_with_the_place_and_the_next_step() {
    let whole = classic(&FRAMES, false, false);
    let cut = refusal(&whole[..whole.len() - 1]);
    assert!(cut.contains("test.pcap is corrupt at byte 196: 64 bytes are expected, 63 are left"), "{cut}");
    assert!(cut.contains("editcap"), "{cut}");
    assert!(refusal(&whole[..24]).contains("no packet"));
    assert!(refusal(b"").contains("at byte 0"));
    assert!(refusal(&[7; 100]).contains("at byte 0: it is neither pcap nor pcapng"));
    let mut other = whole.clone();
    other[20] = 127;
    assert!(refusal(&other).contains("at byte 20: link type 127"));
    let mut out_of_step = whole;
    out_of_step[24 + 4..][..4].copy_from_slice(&1_000_000u32.to_le_bytes());
    assert!(refusal(&out_of_step).contains("at byte 28: 1000000 is not a fraction"));

    let mut next = pcapng(&FRAMES, false);
    let last = next.len() - 4;
    next[last] ^= 4;
    assert!(
        refusal(&next).contains(&format!("at byte {last}: the two lengths of a block differ: 36 and 32"))
    );
}

#[test]
fn replay_repeats_after_one_mean_gap() {
    let frames: Vec<(u64, u32)> = (0..4).map(|k| (k * 10_000, 1_000)).collect();
    let capture = Capture::parse(Path::new("test.pcap"), &classic(&frames, true, false)).unwrap();
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
    file.write_all(&classic(&FRAMES, false, false)).unwrap();
    let text = format!("model = 'pcap'\nfile = '{}'\nrepeat = true\n", file.path().display());
    let traffic: Traffic = toml::from_str(&text).unwrap();
    assert_eq!(toml::from_str::<Traffic>(&toml::to_string(&traffic).unwrap()).unwrap(), traffic);
    let Traffic::Pcap { file: mut found, .. } = traffic else { panic!("another model") };
    found.load(Path::new("/anywhere")).unwrap();
    assert_eq!(found.packets().len(), FRAMES.len());
    let missing = Capture::from(PathBuf::from("nowhere.pcap")).load(Path::new("/x")).unwrap_err();
    assert!(missing.to_string().contains("cannot read the capture /x/nowhere.pcap"), "{missing}");
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_every_format(
        gaps in proptest::collection::vec((0u64..10_000_000, 60u32..9_000), 1..50), big_endian: bool,
    ) {
        let mut at = 1_700_000_000_000_000_000;
        let frames: Vec<(u64, u32)> = gaps.iter().map(|(gap, length)| { at += gap; (at, *length) }).collect();
        let expected: Vec<(i64, u64)> =
            frames.iter().map(|(at, length)| ((at - frames[0].0) as i64, u64::from(*length) + 24)).collect();
        prop_assert_eq!(parsed(&classic(&frames, true, big_endian)), expected.clone());
        prop_assert_eq!(parsed(&pcapng(&frames, big_endian)), expected);
    }

    #[test]
    fn no_contents_make_the_reader_panic(
        next in any::<bool>(), cut in 0usize..400, changes in proptest::collection::vec((0usize..400, any::<u8>()), 0..6),
    ) {
        let mut contents = if next { pcapng(&FRAMES, false) } else { classic(&FRAMES, false, false) };
        for (place, value) in changes {
            if let Some(byte) = contents.get_mut(place) { *byte = value; }
        }
        contents.truncate(cut);
        let _ = Capture::parse(Path::new("test.pcap"), &contents);
    }
}
