//! `headway flows` beside what sockets and `ss` say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::support::{headway, output, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A connection within this host, with `unread` bytes that have arrived at the second end.
fn pair(unread: usize) -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut here = listener.accept().unwrap().0;
    there.write_all(&vec![1; unread + 1]).unwrap();
    here.read_exact(&mut [0]).unwrap();
    [there, here]
}

fn filter(stream: &TcpStream) -> String {
    format!("port {}", stream.local_addr().unwrap().port())
}

/// Whether this kernel lists connections; says so if not.
fn lists(said: &str) -> bool {
    let cannot = said.contains("cannot list connections");
    if cannot {
        println!("SKIPPED: {said}");
    }
    !cannot
}

/// Returns the connections of the first look, by their own ports.
fn look(filter: &str, port: u16) -> Option<Value> {
    let ran = output(&mut headway(&["flows", "--json", "--duration", "1ms", "--filter", filter]));
    if !lists(&text(&ran.stderr)) {
        return None;
    }
    let said: Value = serde_json::from_str(text(&ran.stdout).lines().next().unwrap()).unwrap();
    let connections = said["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2, "{said}");
    let is = |it: &&Value| it["local"].as_str().unwrap().ends_with(&format!(":{port}"));
    connections.iter().find(is).cloned()
}

/// Returns the words of `ss` about a connection, such as `rtt:1.5/0.7`, without their names.
fn ss(port: u16) -> Option<impl Fn(&str) -> Option<String>> {
    let asked = Command::new("ss").args(["-Htinm", &format!("sport = :{port}")]).output();
    let Ok(asked) = asked else {
        println!("SKIPPED: there is no `ss` to compare with");
        return None;
    };
    let said = text(&asked.stdout);
    Some(move |name: &str| {
        let words: Vec<&str> = said.split([' ', '\n', '\t', '(', ',', ')']).collect();
        words.iter().find_map(|word| word.strip_prefix(name)).map(str::to_owned)
    })
}

#[test]
fn the_numbers_are_those_of_ss() {
    let [there, here] = pair(5000);
    let port = here.local_addr().unwrap().port();
    let Some(seen) = look(&filter(&here), port) else { return };
    assert_eq!((&seen["unread_bytes"], &seen["received_bytes"]), (&5000.into(), &5001.into()));
    assert_eq!(seen["peer"], there.local_addr().unwrap().to_string());
    let Some(ss) = ss(port) else { return };
    let number = |name: &str| ss(name).and_then(|value| value.parse::<f64>().ok());
    for (key, name, unit) in [
        ("receive_memory_bytes", "r", 1.0),
        ("receive_buffer_bytes", "rb", 1.0),
        ("send_buffer_bytes", "tb", 1.0),
        ("cwnd_segments", "cwnd:", 1.0),
        ("mss_bytes", "mss:", 1.0),
        ("received_bytes", "bytes_received:", 1.0),
        ("min_rtt_us", "minrtt:", 1000.0),
        ("window_seen_bytes", "snd_wnd:", 1.0),
        ("window_told_bytes", "rcv_wnd:", 1.0),
    ] {
        // An older `ss` does not say all of it.
        if let Some(expected) = number(name) {
            assert_eq!(seen[key].as_f64(), Some((expected * unit).round()), "{key}");
        }
    }
    let rtt = ss("rtt:").unwrap();
    let expected: f64 = rtt.split('/').next().unwrap().parse().unwrap();
    assert_eq!(seen["rtt_us"].as_f64(), Some((expected * 1000.0).round()), "{rtt}");
    assert_eq!(ss(seen["controller"].as_str().unwrap()).as_deref(), Some(""));
}

#[test]
fn a_connection_has_its_file_and_its_end_is_told() {
    let [there, here] = pair(0);
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("telemetry");
    let mut command = headway(&["flows", "--json", "--interval", "5ms", "--filter", &filter(&here)]);
    let mut flows =
        command.arg("--csv").arg(&csv).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(flows.stdout.take().unwrap()).lines();
    let mut until = |event: &str| {
        let mut objects = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        objects.find(|said| said["event"] == event)
    };
    if until("look").is_none() {
        let mut said = String::new();
        flows.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        flows.wait().unwrap();
        assert!(!lists(&said), "{said}");
        return;
    }
    let local = there.local_addr().unwrap().to_string();
    drop((there, here));
    let ended = [until("ended").unwrap(), until("ended").unwrap()];
    assert!(ended.iter().any(|it| it["local"] == local), "{ended:?}");
    kill(Pid::from_raw(flows.id() as i32), Signal::SIGINT).unwrap();
    let end = until("end").unwrap();
    assert!(flows.wait().unwrap().success());
    assert_eq!((&end["counters"]["connections"], &end["counters"]["ended"]), (&2.into(), &2.into()));
    let files: Vec<_> = std::fs::read_dir(&csv).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let rows = std::fs::read_to_string(file).unwrap();
        assert!(rows.starts_with("at_unix_ns,local,peer,"), "{rows}");
        let columns: Vec<usize> = rows.lines().map(|row| row.split(',').count()).collect();
        assert!(columns.len() >= 2 && columns.iter().all(|count| *count == columns[0]), "{rows}");
    }
    // A folder with files is left alone.
    let again = output(headway(&["flows", "--duration", "1ms", "--csv"]).arg(&csv));
    assert!(!again.status.success() && text(&again.stderr).contains("is not empty; name another one"));
}
