//! Explicit routers, with the Linux stack at the ends and in the simulator.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::process::Command;

use crate::support::PROGRAM;
use crate::support::kernels::{Try, files, has_kernel};
use serde_json::Value;

/// Four flows over 100 ms, beginning 2 s apart.
const SLOW: &str = r#"
duration = "30 s"
warmup = "10 s"
[[link]]
from = "client"
to = "router"
rate = "100 Mb/s"
delay = "25 ms"
[[link]]
from = "router"
to = "sink"
rate = "1.5 Mb/s"
delay = "25 ms"
queue = { kind = "xcp", limit = "75 kB" }
[[flow]]
from = "client"
to = "sink"
controller = "xcp"
count = 4
stagger = "2 s"
ack-every = 1
"#;

/// The time of a full packet at 1.5 Mb/s, in ns.
const PACKET: f64 = 8_203_000.0;

/// The narrow link of a summary.
fn narrow(summary: &Value) -> &Value {
    let links = summary["links"].as_array().unwrap();
    links.iter().find(|link| link["link"] == "router->sink").unwrap()
}

fn run(world: &str, args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let [file, results] = ["x.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, SLOW).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg(file).args(["--on", world, "--output"]).arg(&results);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(results.join("summary.json")).unwrap()).unwrap()
}

/// Arguments that give the router this law and the flows this controller.
fn with<'a>(kind: &'a str, controller: &'a str) -> [&'a str; 4] {
    ["--set", kind, "--controller", controller]
}

#[test]
fn senders_of_the_kernel_use_the_link_and_the_queue_as_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    // The kernel's senders of RCP pace what their window lets through.
    for (kind, controller, beside) in [
        ("link.1.queue.kind=xcp", "xcp", "xcp"),
        ("link.1.queue.kind=xcp-b", "xcp", "xcp"),
        ("link.1.queue.kind=rcp", "rcp", "rcp:paced"),
        ("link.1.queue.kind=rcp", "rcp:paced", "rcp:paced"),
    ] {
        let [kernel, simulated] =
            [("uml", controller), ("sim", beside)].map(|(world, sender)| run(world, &with(kind, sender)));
        let value = |summary: &Value, key: &str| narrow(summary)[key].as_f64().unwrap();
        let [used, should] = [&kernel, &simulated].map(|summary| value(summary, "utilisation"));
        assert!((used / should - 1.0).abs() < 0.03, "{kind} {controller}: {used} and {should}");
        let [queue, should] = [&kernel, &simulated].map(|summary| value(summary, "delay_mean_ns"));
        let differs = (queue - should).abs();
        assert!(differs < should / 4.0 || differs < PACKET, "{kind} {controller}: {queue} and {should}");
        let fairness = kernel["total"]["fairness"].as_f64().unwrap();
        assert!(fairness > 0.99, "{kind} {controller}: {fairness}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(SLOW);
    let [one, same, other] = [("one", "1"), ("same", "1"), ("other", "2")].map(|(name, seed)| {
        let output = attempt.run(name, &["--pcap", "--seed", seed, "--set", "duration=12 s"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut files = files(&attempt.path(name));
        // It has the date.
        files.retain(|name, _| !name.ends_with("manifest.json"));
        files
    });
    assert!(one.keys().any(|name| name.ends_with("control.jsonl")));
    assert!(one == same);
    assert!(one != other);
}

#[test]
fn a_router_records_its_control_intervals() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(SLOW);
    let output = attempt.run("out", &["--set", "duration=12 s"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(attempt.path("out").join("control.jsonl")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let narrow: Vec<&Value> = records.iter().filter(|record| record["link"] == "router->sink").collect();
    let end = |record: &&Value| record["end_ns"].as_u64().unwrap();
    assert!(narrow.is_sorted_by_key(end));
    assert!(end(&narrow[narrow.len() - 1]) < 12_000_000_000);
    for record in narrow.iter().filter(|record| end(record) > 10_000_000_000) {
        assert_eq!(record["capacity_bps"].as_f64(), Some(1_500_000.0));
        let input = record["input_bps"].as_f64().unwrap();
        assert!((1_000_000.0..2_000_000.0).contains(&input), "{record}");
        let interval = record["interval_ns"].as_u64().unwrap();
        assert!((90_000_000..200_000_000).contains(&interval), "{record}");
    }
}

#[test]
fn a_router_of_xcp_drops_what_senders_of_rcp_send() {
    if !has_kernel() {
        return;
    }
    let summary = run("uml", &["--controller", "rcp", "--set", "duration=12 s"]);
    assert_eq!(summary["total"]["goodput_bps"].as_u64(), Some(0));
    assert!(narrow(&summary)["dropped"].as_u64().unwrap() > 0);
}

#[test]
fn four_flows_of_the_kernel_share_a_gigabit_with_hardly_a_queue() {
    if !has_kernel() {
        return;
    }
    for (kind, controller) in [("link.1.queue.kind=xcp", "xcp"), ("link.1.queue.kind=rcp", "rcp")] {
        let faster = [
            "--set",
            "link.0.rate=10 Gb/s",
            "--set",
            "link.1.rate=1 Gb/s",
            "--set",
            "link.1.queue.limit=2.5 MB",
            "--set",
            "link.0.delay=5 ms",
            "--set",
            "link.1.delay=5 ms",
            "--set",
            "flow.0.stagger=0 s",
            "--set",
            "duration=2.5 s",
            "--set",
            "warmup=2 s",
        ];
        let summary = run("uml", &[&with(kind, controller)[..], &faster].concat());
        let link = narrow(&summary);
        assert!(link["utilisation"].as_f64().unwrap() > 0.97, "{controller}: {link}");
        assert!(link["delay_mean_ns"].as_f64().unwrap() < 500_000.0, "{controller}: {link}");
        assert_eq!(link["dropped"].as_u64(), Some(0), "{controller}");
        assert!(summary["total"]["fairness"].as_f64().unwrap() > 0.99, "{controller}: {summary}");
    }
}

/// Sends as many packets of protocol 253 as its argument says, random and mutated, from one node to another.
const HOSTILE: &str = r#"
import random, socket, sys, time
draw = random.Random(7)
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
source, sink = socket.gethostbyname("client"), socket.gethostbyname("sink")
for _ in range(int(sys.argv[1])):
    body = bytearray(draw.randbytes(draw.choice([0, 1, 19, 20, 21, 40, 60, 200])))
    if draw.random() < 0.7 and len(body) >= 3:
        body[0] = draw.choice([6, 6, 6, 17, 253, draw.randrange(256)])
        body[1] = draw.choice([20, 20, 20, draw.randrange(256)])
        body[2] = draw.choice([0x21, 0x22, 0xf1, 0xf2, draw.randrange(256)])
    options = draw.choice([0, 0, 0, 1, 4, 10])
    head = bytearray([1] * (20 + 4 * options))
    head[0:2] = [0x45 + options, 0]
    head[2:4] = (len(head) + len(body)).to_bytes(2, "big")
    head[6:8] = draw.choice([0, 0, 0, 0x2000, 0x4000, draw.randrange(65536)]).to_bytes(2, "big")
    head[8:12] = [64, 253, 0, 0]
    head[12:20] = socket.inet_aton(source) + socket.inet_aton(sink)
    out.sendto(bytes(head + body), (sink, 0))
    time.sleep(0.0002)
"#;

/// A `[[program]]` that runs Python at a node.
fn program(node: &str, command: &str) -> String {
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap().trim().to_owned();
    format!("[[program]]\nat = \"{node}\"\ncommand = \"{python} {command}\"\n")
}

/// A kernel that crashes or hangs ends the run with an error.
#[test]
fn random_and_mutated_headers_are_counted_and_flows_go_on() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new("");
    std::fs::write(attempt.path("hostile.py"), HOSTILE).unwrap();
    let program = program("client", "hostile.py 20000");
    std::fs::write(attempt.path("x.toml"), format!("{SLOW}{program}")).unwrap();
    let summary =
        attempt.summary(&["--set", "link.1.rate=10 Mb/s", "--set", "duration=12 s", "--set", "warmup=8 s"]);
    assert_eq!(summary["programs"][0]["exit_status"].as_i64(), Some(0));
    let text = std::fs::read_to_string(attempt.path("out/control.jsonl")).unwrap();
    let last = text.lines().rfind(|line| line.contains("router->sink")).unwrap();
    let record: Value = serde_json::from_str(last).unwrap();
    assert!(record["rejected"].as_u64().unwrap() > 10_000, "{record}");
    assert!(narrow(&summary)["utilisation"].as_f64().unwrap() > 0.9, "{summary}");
    assert!(summary["total"]["fairness"].as_f64().unwrap() > 0.95, "{summary}");
}

/// Sends a megabyte with the controller that its argument names, and again after an idle period; prints the
/// window in segments before and after the first segment of that.
const IDLE: &str = r#"
import socket, struct, sys, time
def window():
    print(struct.unpack_from("I", end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 80)[0])
end = socket.socket()
# Routes of programs have the whole MTU.
end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
end.setsockopt(socket.IPPROTO_TCP, 13, sys.argv[1].encode())
end.connect((socket.gethostbyname("sink"), 9000))
end.sendall(bytes(1000000))
time.sleep(4)
window()
end.sendall(bytes(100))
window()
"#;

/// Answers a connection of `IDLE`.
const ANSWER: &str = r#"
import socket
listener = socket.socket()
listener.setsockopt(socket.IPPROTO_TCP, 13, b"headway_end")
listener.bind(("", 9000))
listener.listen()
end, _ = listener.accept()
while end.recv(65536):
    pass
"#;

#[test]
fn after_an_idle_period_rcp_begins_with_one_segment_and_xcp_with_ten_at_most() {
    if !has_kernel() {
        return;
    }
    // RCP's window has room for a segment that the receiver holds back.
    for (kind, after) in [("rcp", 2), ("xcp", 10)] {
        let sender = program("client", &format!("idle.py headway_{kind}"));
        let attempt = Try::new(&format!("{SLOW}{}{sender}start = \"0.1 s\"\n", program("sink", "answer.py")));
        std::fs::write(attempt.path("idle.py"), IDLE).unwrap();
        std::fs::write(attempt.path("answer.py"), ANSWER).unwrap();
        let law = format!("link.1.queue.kind={kind}");
        // The flow is there for its modules.
        let faster =
            ["link.1.rate=10 Mb/s", "flow.0.count=1", "flow.0.start=11 s", "duration=12 s", "warmup=11 s"];
        let sets = faster.iter().flat_map(|set| ["--set", set]);
        attempt.summary(&with(&law, kind).into_iter().chain(sets).collect::<Vec<&str>>());
        let text = std::fs::read_to_string(attempt.path("out/program-1.out")).unwrap();
        let windows: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(windows[0] > 50 && windows[1] == after, "{kind}: {windows:?}");
    }
}
