//! `headway passive`: real captures of real transfers, and the sentences about what it cannot read.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration as Time, Instant as Clock};

use crate::support::labs::{ROLE, now, play, was_late};
use crate::support::{PROGRAM, headway, headway_lab, output, text, write};
use headway_lab::{Lab, Life};
use headway_scenario::{LinkSpec, Scenario, TrafficSpec};
use headway_traffic::Traffic;
use headway_units::{Duration, Rate};
use serde_json::Value;

/// How long the transfer in the lab takes, and how long it is captured, s.
const TRANSFER: u64 = 10;
const CAPTURE: u64 = 6;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["sink", address] => {
            let listener = TcpListener::bind(address).unwrap();
            println!("ready");
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
        }
        ["source", address] => {
            let mut stream = TcpStream::connect(address).unwrap();
            println!("ready");
            let (begun, buffer) = (Clock::now(), vec![0; 1 << 16]);
            while begun.elapsed() < Time::from_secs(TRANSFER) && stream.write_all(&buffer).is_ok() {}
        }
        _ => panic!("{role}"),
    }
}

/// Brings up a path of 100 Mb/s with 50 Mb/s of cross traffic; `None` where that cannot be.
fn lab() -> Option<Lab> {
    let link = LinkSpec::at("client", "server", Rate::from_mbps(100.0), Duration::from_ms(10));
    let traffic = vec![TrafficSpec::new("client", "server", Traffic::poisson(Rate::from_mbps(50.0)))];
    let network = Scenario { traffic, ..Scenario::of(vec![link]) };
    let name = format!("t{}-passive", std::process::id());
    match Lab::up_with(&headway_lab(), &network, &name, Life::Owned) {
        Ok(lab) => Some(lab),
        Err(error) => {
            let sentence = error.to_string();
            let impossible = ["this host allows neither", "install the package"];
            assert!(impossible.iter().any(|reason| sentence.contains(reason)), "{sentence}");
            println!("SKIPPED: {sentence}");
            None
        }
    }
}

/// Returns the last line of an output as JSON.
fn last_json(output: &[u8]) -> Value {
    serde_json::from_str(text(output).lines().last().unwrap()).unwrap()
}

#[test]
fn a_transfer_on_an_emulated_path_shows_what_is_free() {
    let Some(lab) = lab() else { return };
    let from = now();
    let (mut sink, _lines) = play(&lab, "server", "sink 10.77.0.2:5201");
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("paths.csv");
    let duration = format!("{CAPTURE} s");
    let arguments = ["passive", "--interface", "eth0", "--duration", &duration, "--json", "--csv"];
    let arguments = arguments.into_iter().chain([csv.to_str().unwrap()]);
    let mut capture = lab.command("client", PROGRAM, arguments).unwrap();
    let capture = capture.stdout(Stdio::piped()).spawn().unwrap();
    let (mut source, _lines) = play(&lab, "client", "source 10.77.0.2:5201");
    let result = capture.wait_with_output().unwrap();
    source.wait().unwrap();
    sink.wait().unwrap();
    let late = was_late(&lab, from);
    lab.down().unwrap();
    assert!(result.status.success());
    assert!(text(&result.stdout).lines().count() > 2, "a line per interval");
    let value = last_json(&result.stdout);
    assert_eq!((&value["type"], &value["sent_bytes"]), (&Value::from("passive"), &Value::from(0)));
    let path = &value["paths"][0];
    assert_eq!((&path["peer"], &path["direction"]), (&Value::from("10.77.0.0/24"), &Value::from("to")));
    if late {
        return;
    }
    let mbps = |key: &str| path[key].as_f64().map(|bps| bps / 1e6);
    // The flow shares what is free with nobody. The machine may be busy, so the bounds are wide.
    let rate = mbps("rate_bps").unwrap();
    assert!((10.0..105.0).contains(&rate), "{path}");
    assert!((20.0..300.0).contains(&(path["rtt_us"].as_f64().unwrap() / 1e3)), "{path}");
    assert!(mbps("capacity_bps").is_some_and(|capacity| capacity > 40.0), "{path}");
    match mbps("free_bps") {
        Some(free) => assert!((15.0..=110.0).contains(&free), "{path}"),
        None => println!("no window gave an estimate: {path}"),
    }
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert!(rows.lines().count() > 2 && rows.starts_with("at_unix_ns,direction,peer"), "{rows}");
}

/// A capture of a handshake, some data and its ACKs, with nanoseconds.
fn capture(pairs: u32) -> Vec<u8> {
    let mut out: Vec<u8> =
        [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 128, 101].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut push =
        |us: u32, from_client: bool, sequence: u32, acknowledgement: u32, flags: u8, payload: u16| {
            let (client, server) = ([192, 0, 2, 1], [198, 51, 100, 2]);
            let (source, destination) = if from_client { (client, server) } else { (server, client) };
            let ports: [u16; 2] = if from_client { [40_000, 443] } else { [443, 40_000] };
            let mut packet = vec![0x45, 0];
            packet.extend((40 + payload).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            packet.extend([source, destination].concat());
            packet.extend(ports.map(u16::to_be_bytes).concat());
            packet.extend([sequence.to_be_bytes(), acknowledgement.to_be_bytes()].concat());
            packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            let words =
                [1 + us / 1_000_000, us % 1_000_000 * 1_000, packet.len() as u32, 40 + u32::from(payload)];
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            out.extend(packet);
        };
    push(0, true, 0, 0, 2, 0);
    push(20_000, false, 0, 1, 18, 0);
    push(20_010, true, 1, 1, 16, 0);
    for k in 0..pairs {
        let at = 40_000 + k * 30_000;
        push(at, true, 1 + k * 2_000, 1, 16, 1_000);
        push(at + 10, true, 1_001 + k * 2_000, 1, 16, 1_000);
        push(at + 20_000, false, 1, 1_001 + k * 2_000, 16, 0);
        push(at + 20_080, false, 1, 2_001 + k * 2_000, 16, 0);
    }
    out
}

#[test]
fn a_file_gives_a_table_a_page_and_the_same_names_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    std::fs::write(&file, capture(100)).unwrap();
    let file = file.to_str().unwrap();
    let [csv, page] = ["paths.csv", "page.html"].map(|name| folder.path().join(name));
    let (csv, page) = (csv.to_str().unwrap(), page.to_str().unwrap());
    let options = ["passive", file, "--per-flow", "--hide-addresses", "--csv", csv, "--report", page];
    let shown = output(&mut headway(&options));
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    for what in ["to network-1", "host-1:40000", "host-2:443", "nothing was sent", "limited by"] {
        assert!(shown.contains(what), "{what} is not in\n{shown}");
    }
    let [csv, page] = [csv, page].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(csv.contains(",to,network-1,1,"), "{csv}");
    assert!(page.contains("to network-1") && page.contains("<svg"), "{page}");
    for shared in [&shown, &csv, &page] {
        assert!(!shared.contains("198.51.100") && !shared.contains("192.0.2"), "{shared}");
    }
    let json = output(&mut headway(&["passive", file, "--json", "--group", "address"]));
    let value = last_json(&json.stdout);
    assert_eq!(value["paths"][0]["peer"], "198.51.100.2");
    assert_eq!(value["packets_used"], 403);
    assert!((value["paths"][0]["rtt_us"].as_f64().unwrap() - 20_000.0).abs() < 200.0, "{value}");
}

#[test]
fn results_come_while_a_pipe_is_still_written() {
    let mut command = Command::new(PROGRAM);
    command.args(["passive", "-", "--json", "--interval", "100 ms"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let capture = capture(50);
    let (now, later) = capture.split_at(capture.len() / 2);
    input.write_all(now).unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let interval: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&interval["type"], &interval["paths"][0]["peer"]),
        (&"interval".into(), &"198.51.100.0/24".into())
    );
    input.write_all(later).unwrap();
    drop(input);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(last_json(rest.as_bytes())["packets_used"], 203);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_read_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = output(&mut headway(&[&["passive"], arguments].concat()));
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let whole = capture(20);
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let (code, shown, _) = run(&[cut.to_str().unwrap()]);
    assert!(
        code == 0 && shown.contains("cut off: it ends at byte") && shown.contains("198.51.100"),
        "{shown}"
    );

    let mut broken = whole;
    let end = broken.len();
    broken.extend([0xff; 40]);
    let path = folder.path().join("broken.pcap");
    std::fs::write(&path, &broken).unwrap();
    let (code, shown, error) = run(&[path.to_str().unwrap()]);
    assert!(code == 1 && shown.contains("198.51.100"), "what was read before is shown: {shown}");
    assert!(error.contains(&format!("corrupt at byte {}", end + 8)) && error.contains("editcap"), "{error}");

    let words = write(folder.path(), "words.txt", "not a capture at all");
    assert!(run(&[&words]).2.contains("it is neither pcap nor pcapng"));
    let (code, _, error) = run(&[folder.path().join("none").to_str().unwrap()]);
    assert!(code == 1 && error.contains("cannot read") && error.contains("No such file"), "{error}");
    let empty = folder.path().join("empty.pcap");
    std::fs::write(&empty, &broken[..24]).unwrap();
    let (code, _, error) = run(&[empty.to_str().unwrap()]);
    assert!(code == 6 && error.contains("no TCP connection"), "{error}");
    let (code, _, error) = run(&["--interface", "nothere0"]);
    assert!(code == 1 && error.contains("there is no interface nothere0; there are"), "{error}");
    assert_eq!(run(&[]).0, 2);
    assert_eq!(run(&["a", "--interval", "0 s"]).0, 2);
}

#[test]
fn packed_and_rotated_captures_are_filtered_and_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let whole = capture(40);
    // Packets have 56 bytes with their record's header; the second file repeats the header.
    let middle = 24 + 56 * 80;
    let files = [whole[..middle].to_vec(), [&whole[..24], &whole[middle..]].concat()];
    let paths = ["b.pcap", "a.pcap.gz"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&paths[0], &files[0]).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut child = Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    std::fs::write(&paths[1], gzip(&files[1])).unwrap();
    let run = |arguments: &[&str]| {
        let output = output(&mut headway(&[&["passive"], arguments, &["--json"]].concat()));
        (output.status.code().unwrap(), output.stdout, text(&output.stderr))
    };
    let value = last_json(&run(&[&paths[1], &paths[0]]).1);
    assert_eq!((&value["packets_used"], &value["connections"]), (&163.into(), &1.into()));
    let value = last_json(&run(&[&paths[1], &paths[0], "--filter", "port 443 and after 1 s"]).1);
    let (used, filtered) = (value["packets_used"].as_u64(), value["packets_skipped"]["filtered"].as_u64());
    assert!(
        used.is_some_and(|used| (20..60).contains(&used))
            && used.zip(filtered).is_some_and(|(a, b)| a + b == 163)
    );

    let (code, _, error) = run(&[&paths[0], "--filter", "host 192.0.2.9"]);
    assert!(code == 6 && error.contains("no TCP connection that passes the filter"), "{error}");
    let (code, _, error) = run(&[&paths[0], "--filter", "dst port 443"]);
    assert!(code == 2 && error.contains("estimates need both"), "{error}");
    let (code, _, error) = run(&[&paths[0], "-"]);
    assert!(code == 1 && error.contains("among other files"), "{error}");
    let words = write(folder.path(), "words.txt", "not a capture at all");
    let (code, _, error) = run(&[&paths[0], &words]);
    assert!(code == 1 && error.contains("words.txt") && error.contains("neither pcap nor pcapng"), "{error}");

    let mut command = Command::new(PROGRAM);
    let mut child = command
        .args(["passive", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(&whole)).unwrap();
    assert_eq!(last_json(&child.wait_with_output().unwrap().stdout)["packets_used"], 163);
}
