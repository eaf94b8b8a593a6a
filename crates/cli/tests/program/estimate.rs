//! `headway estimate` as users run it, on a file of streams made by hand.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{headway, write};
use serde_json::Value;

/// Streams of 64 packets of 9038 bytes at 5.7, 6.6, 7.6 and 8.7 Gb/s. From packet 33 on the gaps separate
/// (rapid 2.11), but not in the last stream.
fn streams(free: bool) -> String {
    let mut text = "stream,index,packet_wire_bytes,average_bps,sent_ns,received_ns".to_owned();
    text += if free { ",free_bps\n" } else { "\n" };
    for stream in 0..3 {
        let (mut sent, mut received) = (0.0, 1e9);
        for index in 0..=64usize {
            if let Some(sample) = index.checked_sub(1) {
                let gap = 9038.0 * 8.0 / [5.7f64, 6.6, 7.6, 8.7][sample / 16];
                sent += gap;
                received += gap + if sample >= 32 && stream < 2 { 1_000.0 } else { 0.0 };
            }
            let _ = write!(text, "{stream},{index},9038,6976000000,{sent:.0},{received:.0}");
            text += if free { ",7000000000\n" } else { "\n" };
        }
    }
    text
}

fn file(folder: &Path, text: &str) -> PathBuf {
    write(folder, "streams.csv", text);
    folder.join("streams.csv")
}

fn estimate(file: &Path, args: &[&str]) -> Output {
    headway(&[&["estimate", file.to_str().unwrap()], args].concat()).output().unwrap()
}

fn json(file: &Path, args: &[&str]) -> Value {
    let output = estimate(file, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_published_example_is_scored_beside_the_null_estimator() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), &streams(true));
    let value = json(&file, &["--method", "excursion"]);
    let methods = value["methods"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|one| one["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["excursion", "null"]);
    let bps = |stream: usize, method: &str| value["each"][stream]["answers"][method]["bps"].as_f64().unwrap();
    assert!((bps(0, "excursion") / 6.6e9 - 1.0).abs() < 1e-3, "{value}");
    assert!((bps(2, "excursion") / 8.7e9 - 1.0).abs() < 1e-3, "{value}");
    assert_eq!(value["each"][2]["answers"]["excursion"]["bound"], "at_least");
    assert_eq!(methods[0]["covering"], 3);
    let error = |method: usize, name: &str| methods[method]["relative_error"][name].as_f64().unwrap();
    assert!((error(0, "p50") - (6.6 / 7.0 - 1.0)).abs() < 1e-3, "{value}");
    assert!((error(1, "p95") - (6.976 / 7.0 - 1.0)).abs() < 1e-9, "{value}");
    let text = String::from_utf8(estimate(&file, &["--each"]).stdout).unwrap();
    for words in ["p5 %", "p95 %", "null", "bass", "pathchirp", "at least 8.7", "3 of them with the truth"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn verdicts_are_counted_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), &streams(true));
    let value = json(&file, &["--method", "prc-mt,pathload", "--denoise", "none"]);
    let prc_mt = &value["methods"][0];
    assert_eq!((&prc_mt["above"], &prc_mt["not_above"]), (&Value::from(2), &Value::from(1)));
    // The average rate is below what is free.
    assert_eq!(prc_mt["wrong_share"].as_f64().map(|share| (share * 3.0).round()), Some(2.0));
    assert_eq!(prc_mt["null_wrong_share"], 0.0);
    let text = String::from_utf8(estimate(&file, &["--method", "prc-mt"]).stdout).unwrap();
    assert!(text.contains("not above") && text.contains("null (one verdict for all)"), "{text}");
}

#[test]
fn without_the_truth_there_are_answers_and_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), &streams(false));
    let value = json(&file, &["--method", "bass", "--capacity", "10 Gb/s", "--split", "32"]);
    assert_eq!((&value["streams"], &value["methods"][0]["relative_error"]), (&Value::from(6), &Value::Null));
    let text = String::from_utf8(estimate(&file, &[]).stdout).unwrap();
    assert!(text.contains("3 streams, without the truth") && !text.contains("p50"), "{text}");
}

#[test]
fn mistakes_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |text: &str, args: &[&str], words: &str| {
        let output = estimate(&file(folder.path(), text), args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{words} is not in\n{said}");
    };
    let good = streams(true);
    fails(
        &good.replace("0,7,", "0,8,"),
        &[],
        "streams.csv, line 9: has packet 8 of stream 0 where packet 7 is due",
    );
    fails(
        &good.replacen(",6976000000,0,", ",6976000000,-5,", 1),
        &[],
        "streams.csv, line 2: `-5` in column 5 (`sent_ns`) is negative; add the same time to all of that column",
    );
    fails("measure,sent_ns\n", &[], "streams.csv, line 1: `measure` is none of the columns stream, index");
    fails(&good, &["--method", "prc-mt-dp1"], "prc-mt-dp1 needs the scheduled gaps: the column `gap_ns`");
    fails(&good, &["--method", "guess"], "`guess` is none of null, excursion, bass");
    fails(&good, &["--split", "65"], "no stream has 65 gaps");
    fails(&good, &["--capacity", "0"], "--capacity must be more than 0");
}

/// A link of 10 Gb/s that 20 streams and constant traffic of 2.5 Gb/s cross, in order of arrival: the table
/// of the streams without the truth, and a capture behind the link.
fn crossed_link() -> (String, Vec<u8>) {
    let mut table = "stream,index,packet_wire_bytes,average_bps,sent_ns,received_ns\n".to_owned();
    let mut arrivals = Vec::new();
    let mut at = 0.0;
    for stream in 0..20 {
        for index in 0..=64usize {
            at += 9038.0 * 8.0 / [5.7f64, 6.6, 7.6, 8.7][index.saturating_sub(1) / 16];
            arrivals.push((at, 9000_u16, Some((stream, index))));
        }
    }
    let cross = (1..).map(|k| f64::from(k) * 1538.0 * 8.0 / 2.5).take_while(|cross| *cross < at);
    arrivals.extend(cross.map(|at| (at, 1500, None)));
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let header = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 64, 101].into_iter().flat_map(u32::to_le_bytes);
    let mut capture: Vec<u8> = header.collect();
    let mut free = 0.0_f64;
    for (at, length, probe) in arrivals {
        free = free.max(at) + f64::from(length + 38) * 0.8;
        let ns = free.round() as u32;
        [1, ns, 28, length.into()].iter().for_each(|word: &u32| capture.extend(word.to_le_bytes()));
        let mut packet = [0_u8; 28];
        (packet[0], packet[9]) = (0x45, 17);
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[22..24].copy_from_slice(&if probe.is_some() { 8621_u16 } else { 9 }.to_be_bytes());
        capture.extend(packet);
        if let Some((stream, index)) = probe {
            // The receiver's clock is another one.
            let _ =
                writeln!(table, "{stream},{index},9038,6976000000,{at:.0},{}", 7_000_000_000 + u64::from(ns));
        }
    }
    (table, capture)
}

/// rapid 2.16: from the capture alone, within 0.1 % beside constant traffic.
#[test]
fn what_was_free_is_found_in_a_capture_of_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let (table, capture) = crossed_link();
    let file = file(folder.path(), &table);
    let link = folder.path().join("link.pcap");
    std::fs::write(&link, capture).unwrap();
    let truth = ["--truth", link.to_str().unwrap()];
    let value = json(&file, &[&truth[..], &["--method", "bass"]].concat());
    let free = value["free_bps"].as_f64().unwrap();
    assert!((free / 7.5e9 - 1.0).abs() < 1e-3, "{free}");
    // The last rate of a stream leaves a queue of 16 us, so its window is 2.5 % longer than the one in which
    // the cross traffic came.
    for each in value["each"].as_array().unwrap() {
        assert!((each["free_bps"].as_f64().unwrap() / 7.5e9 - 1.0).abs() < 1e-2, "{each}");
    }
    assert_eq!(value["methods"][0]["covering"], 20);
    let parts = json(&file, &[&truth[..], &["--split", "32"]].concat());
    assert_eq!(parts["streams"], 40);
    let other = estimate(&file, &[&truth[..], &["--probe-port", "9"]].concat());
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(!other.status.success() && said.contains("1300 were received"), "{said}");
}
