//! `headway run --on uml` as users run it: real kernels in virtual time.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration as Time, Instant as Clock};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_headway");

/// Whether a kernel has been built; says so if not.
fn has_kernel() -> bool {
    is_there(&[])
}

/// Whether a kernel with debug checks has been built; says so if not.
fn has_debug_kernel() -> bool {
    is_there(&["--debug"])
}

fn is_there(kind: &[&str]) -> bool {
    let output = Command::new(PROGRAM).args(["uml", "path"]).args(kind).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// A scenario in its own folder, which also receives the results.
struct Try {
    folder: TempDir,
}

impl Try {
    fn new(scenario: &str) -> Try {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.toml"), scenario).unwrap();
        Try { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, output: &str, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("run").arg(self.path("x.toml")).args(["--on", "uml", "--output"]).arg(self.path(output));
        command.args(args);
        command
    }

    fn run(&self, output: &str, args: &[&str]) -> Output {
        self.command(output, args).output().unwrap()
    }

    /// Returns the summary of a run that must succeed.
    fn summary(&self, args: &[&str]) -> Value {
        let output = self.run("out", args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&std::fs::read(self.path("out/summary.json")).unwrap()).unwrap()
    }
}

/// Returns every result file by name, except for the manifest.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.file_name().unwrap() != "manifest.json");
    files.map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())).collect()
}

/// Returns timestamp (ns) and length of every packet in a capture with nanosecond timestamps.
fn packets(file: &Path) -> Vec<(u64, u32)> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "nanoseconds");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        packets.push((u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)), word(at + 12)));
        at += 16 + word(at + 8) as usize;
    }
    packets
}

/// Two flows over a bottleneck with RED, with Poisson cross traffic.
const MIXED: &str = r#"
duration = "2 s"
warmup = "500 ms"
nodes = ["a", "b", "c"]
[[link]]
from = "a"
to = "b"
[[link]]
from = "b"
to = "c"
rate = "20 Mb/s"
delay = "5 ms"
buffer = "60 kB"
queue = { kind = "red", min = "10 kB", max = "30 kB" }
[[flow]]
from = "a"
to = "c"
count = 2
controller = "cubic"
[[traffic]]
from = "a"
to = "c"
model = "poisson"
rate = "4 Mb/s"
"#;

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    if !has_kernel() {
        return;
    }
    let run = Try::new(MIXED);
    for (output, seed) in [("one", "7"), ("two", "7"), ("three", "8")] {
        assert!(run.run(output, &["--pcap", "--seed", seed]).status.success());
    }
    let [one, two, three] = ["one", "two", "three"].map(|output| files(&run.path(output)));
    assert!(one.contains_key(Path::new("b-c.pcap")) && one.contains_key(Path::new("summary.json")));
    assert!(one == two, "a run with the same seed differs");
    for name in ["b-c.pcap", "summary.json", "truth.csv"] {
        assert!(one[Path::new(name)] != three[Path::new(name)], "{name} does not depend on the seed");
    }
}

#[test]
fn flows_and_traffic_share_a_bottleneck_and_every_packet_is_accounted_for() {
    if !has_kernel() {
        return;
    }
    let summary = Try::new(MIXED).summary(&[]);
    let link = &summary["links"][2];
    assert_eq!(link["link"], "b->c");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&link["utilisation"]) > 0.9, "{link}");
    let source = &summary["traffic"][0];
    let (sent, arrived) = (number(&source["sent"]), number(&source["delivered"]));
    assert!((number(&source["sent_bps"]) / 4e6 - 1.0).abs() < 0.2, "{source}");
    assert!(arrived <= sent && arrived > 0.8 * sent, "{source}");
    let cross = number(&link["cross_bps"]) / number(&source["delivered_bps"]);
    assert!((cross - 1.0).abs() < 0.02, "{cross}");
    let goodput = number(&summary["total"]["goodput_bps"]) * 1538.0 / 1448.0;
    assert!((goodput / number(&link["measured_bps"]) - 1.0).abs() < 0.02, "{summary}");
}

/// More datagrams than a link can carry; the first one finds it idle.
fn overload(mbps: u32) -> String {
    format!(
        r#"
duration = "60 ms"
interval = "10 ms"
nodes = ["a", "b", "c"]
[[link]]
from = "a"
to = "b"
[[link]]
from = "b"
to = "c"
rate = "{mbps} Mb/s"
delay = "30 ms"
buffer = "1 MB"
[[traffic]]
from = "a"
to = "c"
model = "cbr"
rate = "{} Mb/s"
"#,
        mbps + mbps / 5
    )
}

#[test]
fn delays_are_exact_to_the_microsecond_and_gaps_to_the_nanosecond() {
    if !has_kernel() {
        return;
    }
    for mbps in [100, 1_000, 10_000] {
        let run = Try::new(&overload(mbps));
        run.summary(&["--pcap"]);
        let (before, after) = (packets(&run.path("out/a-b.pcap")), packets(&run.path("out/b-c.pcap")));
        assert!(after.len() > 100, "{} packets", after.len());
        // A packet leaves when its transmission would be complete: after the delay and 1538 bytes at the link's rate.
        let whole = 1538.0 * 8e3 / f64::from(mbps);
        let delay = (after[0].0 - before[0].0) as f64 - 30e6 - whole;
        assert!(delay.abs() <= 1_000.0, "{mbps} Mb/s: the delay is off by {delay} ns");
        for pair in after.windows(2) {
            let gap = (pair[1].0 - pair[0].0) as f64;
            assert!((gap - whole).abs() <= 1.0, "{mbps} Mb/s: a gap of {gap} ns instead of {whole} ns");
        }
    }
}

#[test]
fn a_module_of_ours_is_the_controller_of_a_flow() {
    if !has_kernel() {
        return;
    }
    let scenario = |controller: &str| {
        format!(
            "duration = \"3 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\ndelay = \"10 ms\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\n"
        )
    };
    let goodput = |controller: &str| {
        let summary = Try::new(&scenario(controller)).summary(&[]);
        (summary["total"]["goodput_bps"].as_f64().unwrap(), summary)
    };
    // Ten segments per RTT of a little more than 20 ms; then half of the link.
    let (window, _) = goodput("fixed-window:10");
    assert!((window / (10.0 * 1448.0 * 8.0 / 0.0202) - 1.0).abs() < 0.03, "{window}");
    let (rate, summary) = goodput("fixed-rate:50 Mb/s");
    assert!((rate / (50e6 * 1448.0 / 1538.0) - 1.0).abs() < 0.02, "{rate}");
    assert_eq!(summary["total"]["retransmitted"], 0);
}

/// Writes a module whose init function has this body.
fn module(run: &Try, body: &str) -> PathBuf {
    let folder = run.path("module");
    std::fs::create_dir(&folder).unwrap();
    let text = format!(
        "#include <linux/module.h>\n#include <linux/slab.h>\n#include <linux/mm.h>\nstatic int __init begin(void)\n{{\n{body}\n\treturn 0;\n}}\n\
         module_init(begin);\nMODULE_LICENSE(\"GPL\");\n"
    );
    std::fs::write(folder.join("hostile.c"), text).unwrap();
    folder
}

/// Returns the processes whose working directory contains `name`.
fn processes(name: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let names = |number: &i32| {
        let folder = std::fs::read_link(format!("/proc/{number}/cwd")).unwrap_or_default();
        folder.to_string_lossy().contains(name)
    };
    numbers.filter(names).collect()
}

#[test]
fn guests_that_panic_hang_or_run_out_of_memory_are_ended_with_their_last_words() {
    if !has_kernel() {
        return;
    }
    let trials = [
        ("panic(\"on purpose\");", "Kernel panic - not syncing: on purpose"),
        ("*(volatile int *)8 = 1;", "ernel panic"),
        ("for (;;) cpu_relax();", "virtual time stood"),
        ("for (;;) if (!kmalloc(4096, GFP_KERNEL | __GFP_NOFAIL)) break;", "deadlocked on memory"),
    ];
    for (body, words) in trials {
        let run = Try::new(MIXED);
        let folder = module(&run, body);
        let output = run.run("out", &["--patience", "5 s", "--module", folder.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(words), "{body}: {errors}");
    }
}

#[test]
fn a_kernel_with_checks_runs_flows_of_our_module_and_finds_nothing() {
    if !has_debug_kernel() {
        return;
    }
    let run = Try::new(&MIXED.replace("controller = \"cubic\"", "controller = \"fixed-window:10\""));
    let summary = run.summary(&["--debug"]);
    assert!(summary["total"]["goodput_bps"].as_f64().unwrap() > 1e6, "{summary}");
}

#[test]
fn what_the_checks_of_a_kernel_find_in_a_module_is_the_error_of_the_run() {
    if !has_debug_kernel() {
        return;
    }
    let trials = [
        (
            "char *text = kmalloc(8, GFP_KERNEL); OPTIMIZER_HIDE_VAR(text); text[8] = 1; kfree(text);",
            ["BUG: KASAN: slab-out-of-bounds in begin+", "Write of size 1 at addr"],
        ),
        (
            "char *text = kmalloc(8, GFP_KERNEL); OPTIMIZER_HIDE_VAR(text); kfree(text); text[0] = 1;",
            ["BUG: KASAN: slab-use-after-free in begin+", "[hostile]"],
        ),
        (
            "static DEFINE_SPINLOCK(one); static DEFINE_SPINLOCK(two);\n\
             spin_lock(&one); spin_lock(&two); spin_unlock(&two); spin_unlock(&one);\n\
             spin_lock(&two); spin_lock(&one); spin_unlock(&one); spin_unlock(&two);",
            ["WARNING: possible circular locking dependency detected", "begin+"],
        ),
        ("WARN_ON(1);", ["WARNING: CPU: 0", "hostile.c:"]),
    ];
    for (body, words) in trials {
        let run = Try::new(MIXED);
        let folder = module(&run, body);
        let output = run.run("out", &["--debug", "--module", folder.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{body}");
        assert!(words.iter().all(|words| errors.contains(words)), "{body}: {errors}");
    }
}

#[test]
fn ctrl_c_leaves_a_partial_result_and_no_process() {
    if !has_kernel() {
        return;
    }
    let run = Try::new(&MIXED.replace("2 s", "20000 s"));
    let mut child = run.command("out", &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let guest = format!("running-{}-", child.id());
    let begin = Clock::now();
    while processes(&guest).is_empty() || begin.elapsed() < Time::from_secs(2) {
        assert!(begin.elapsed() < Time::from_secs(60), "no guest has started");
        std::thread::sleep(Time::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(processes(&guest), Vec::<i32>::new());
    let summary = std::fs::read(run.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["partial"], true);
}

#[test]
fn guests_end_with_a_program_that_is_killed() {
    if !has_kernel() {
        return;
    }
    let run = Try::new(&MIXED.replace("2 s", "20000 s"));
    let mut child = run.command("out", &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let guest = format!("running-{}-", child.id());
    let begin = Clock::now();
    // A kernel that is just starting has a child, stopped for a moment, that nothing would end.
    while processes(&guest).is_empty() || begin.elapsed() < Time::from_secs(2) {
        assert!(begin.elapsed() < Time::from_secs(60), "no guest has started");
        std::thread::sleep(Time::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while !processes(&guest).is_empty() {
        assert!(begin.elapsed() < Time::from_secs(60), "the guest goes on");
        std::thread::sleep(Time::from_millis(20));
    }
}

#[test]
fn what_the_kernel_cannot_do_is_said_before_anything_starts() {
    let run = Try::new(&MIXED.replace(
        "buffer = \"60 kB\"",
        "buffer = \"60 kB\"\npolice = { rate = \"1 Mb/s\", burst = \"10 kB\" }",
    ));
    let output = run.run("out", &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("link[1].police"), "{errors}");
}

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

/// Returns the path of the interpreter itself: the one in PATH may be a script that needs the user's settings.
fn python() -> String {
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
        let output = run.run(output, &[]);
        assert!(output.status.success(), "{output:?}");
    }
    let [one, two] = ["one", "two"].map(|output| files(&run.path(output)));
    assert!(one == two, "a run with the same seed differs");
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
