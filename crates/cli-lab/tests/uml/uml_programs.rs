//! Programs of the host on networks of a kernel in virtual time.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::path::Path;
use std::process::Command;

use crate::support::kernels::{Try, files, has_kernel};
use serde_json::Value;

/// A client and a server, 10 ms and 20 Mb/s apart, with these programs.
fn hosts(programs: &str) -> String {
    format!(
        r#"
duration = "2 s"
nodes = ["client", "router", "server"]
[[link]]
from = "client"
to = "router"
[[link]]
from = "router"
to = "server"
rate = "20 Mb/s"
delay = "10 ms"
buffer = "100 kB"
{programs}"#
    )
}

/// Returns a program table of a scenario, with further keys.
fn program(at: &str, command: &str, keys: &str) -> String {
    format!("[[program]]\nat = \"{at}\"\ncommand = '''{command}'''\n{keys}\n")
}

/// Returns the path of the interpreter itself: the one in PATH may be a script that needs
/// the user's settings.
pub(crate) fn python() -> String {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Answers the first byte, then reads everything until the end.
const SERVER: &str = r#"
import socket
with socket.create_server(("", 7000)) as server:
    while True:
        with server.accept()[0] as one:
            one.sendall(one.recv(1))
            while one.recv(1 << 20):
                pass
            one.sendall(b"x")
"#;

/// Prints names, the time of a round trip and the time to transfer 1448000 bytes.
const CLIENT: &str = r#"
import socket, time
print(socket.gethostname(), socket.gethostbyname(socket.gethostname()), socket.gethostbyname("server"))
with socket.create_connection(("server", 7000)) as one:
    begin = time.monotonic()
    one.sendall(b"x")
    one.recv(1)
    print(f"{time.monotonic() - begin:.9f}")
    begin = time.monotonic()
    one.sendall(bytes(1448000))
    one.shutdown(socket.SHUT_WR)
    one.recv(1)
    print(f"{time.monotonic() - begin:.9f}")
"#;

#[test]
fn programs_of_the_host_talk_over_the_network_and_repeat_byte_by_byte() {
    if !has_kernel() {
        return;
    }
    let python = python();
    let client = program("client", &format!("{python} client.py"), "start = \"100 ms\"");
    let run = Try::new(&hosts(&(program("server", &format!("{python} server.py"), "") + &client)));
    std::fs::write(run.path("server.py"), SERVER).unwrap();
    std::fs::write(run.path("client.py"), CLIENT).unwrap();
    for output in ["one", "two"] {
        let output = run.run(output, &["--pcap"]);
        assert!(output.status.success(), "{output:?}");
    }
    let [one, two] = ["one", "two"].map(|output| files(&run.path(output)));
    assert!(one == two, "a run with the same seed differs");
    let captured = one.iter().filter(|(name, _)| name.extension().is_some_and(|end| end == "pcap"));
    // The headers of 1000 segments.
    assert!(captured.map(|(_, bytes)| bytes.len()).max() > Some(66_000));
    let text = std::str::from_utf8(&one[Path::new("program-1.out")]).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "client 172.20.0.1 172.20.0.3");
    let [round_trip, transfer] = [1, 2].map(|line| lines[line].parse::<f64>().unwrap());
    assert!((0.020..0.022).contains(&round_trip), "{round_trip}");
    // 1000 full-size packets, and some round trips of slow start.
    let whole = 1000.0 * 1538.0 * 8.0 / 20e6;
    assert!((whole..whole + 0.2).contains(&transfer), "{transfer}");
    let summary: Value = serde_json::from_slice(&one[Path::new("summary.json")]).unwrap();
    let [server, client] = [0, 1].map(|number| &summary["programs"][number]);
    assert_eq!((&server["stopped"], &client["stopped"]), (&true.into(), &false.into()));
    assert_eq!(client["exit_status"], 0);
}

#[test]
fn a_program_that_fails_is_the_exit_code_and_one_that_goes_on_is_ended() {
    if !has_kernel() {
        return;
    }
    let failing = program("client", "echo words >&2; exit 3", "");
    let stubborn = program("server", "trap '' TERM; sleep 1000", "stop = \"200 ms\"");
    let run = Try::new(&hosts(&(failing + &stubborn)));
    let output = run.run("out", &[]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("program 0 at client failed: exit status 3; see program-0.err"), "{printed}");
    assert_eq!(std::fs::read_to_string(run.path("out/program-0.err")).unwrap(), "words\n");
    let summary = std::fs::read(run.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let [failed, ended] = [0, 1].map(|number| &summary["programs"][number]);
    assert_eq!(failed["exit_status"], 3);
    assert_eq!((&ended["signal"], &ended["stopped"]), (&9.into(), &true.into()));
    let at = ended["ended_ns"].as_u64().unwrap();
    assert!((1_200_000_000..1_300_000_000).contains(&at), "{at}");
}

#[test]
fn programs_have_the_controller_of_their_node() {
    if !has_kernel() {
        return;
    }
    let command = "cat /proc/sys/net/ipv4/tcp_congestion_control";
    let at = |controller: &str| program("server", command, &format!("controller = \"{controller}\""));
    let run = Try::new(&hosts(&(program("client", command, "") + &at("dctcp"))));
    run.summary(&[]);
    let read = |number: usize| std::fs::read_to_string(run.path(&format!("out/program-{number}.out")));
    assert_eq!([0, 1].map(|number| read(number).unwrap()), ["cubic\n", "dctcp\n"]);
    let output = Try::new(&hosts(&at("kernel:no_such_name"))).run("out", &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the congestion control `no_such_name`; it has reno"), "{errors}");
}

#[test]
fn time_passes_for_programs_that_poll() {
    if !has_kernel() {
        return;
    }
    let poll = "import os, select, time\nr, w = os.pipe()\nend = time.monotonic() + 0.02\n\
                while time.monotonic() < end: select.select([], [w], [])";
    let write = "import os\nfor _ in range(20000): os.write(2, b'x')";
    let python = python();
    let one = |name: &str| program("client", &format!("{python} {name}.py"), "");
    let run = Try::new(&hosts(&(one("poll") + &one("write"))));
    std::fs::write(run.path("poll.py"), poll).unwrap();
    std::fs::write(run.path("write.py"), write).unwrap();
    let summary = run.summary(&[]);
    let ended = |number: usize| summary["programs"][number]["ended_ns"].as_u64().unwrap();
    assert!((20_000_000..45_000_000).contains(&ended(0)), "{summary}");
    // After the first thousand, every write takes a microsecond.
    assert!(ended(1) > 18_000_000, "{summary}");
}

#[test]
fn iperf3_measures_the_bottleneck() {
    if !has_kernel() {
        return;
    }
    if !Command::new("iperf3").arg("-v").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: iperf3 is not installed");
        return;
    }
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/iperf3.toml");
    let run = Try::new(&std::fs::read_to_string(scenario).unwrap());
    run.summary(&[]);
    let result = std::fs::read(run.path("out/program-1.out")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    let whole = 100e6 * 1448.0 / 1538.0;
    assert!((0.95..=1.0).contains(&(rate / whole)), "{rate}");
}
