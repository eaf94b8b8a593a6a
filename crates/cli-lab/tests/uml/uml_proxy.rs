//! Split TCP of Linux in virtual time: a server and a proxy in one place, and a client behind a
//! long path with losses.
//!
//! Where no kernel has been built, which takes minutes, the test says so and passes.

use crate::support::PROGRAM;
use crate::support::kernels::{Try, has_kernel};
use crate::uml_programs::python;
use serde_json::Value;

/// Sends to whoever connects.
const SOURCE: &str = r#"
import socket
with socket.create_server(("", 6000)) as server:
    one = server.accept()[0]
    while True:
        one.sendall(bytes(1 << 18))
"#;

/// Downloads through the proxy.
const SINK: &str = r#"
import socket
with socket.create_connection(("proxy", 7000)) as one:
    while one.recv(1 << 20):
        pass
"#;

/// The buffers of a usual machine, and not those of the world, which are without limit.
const BUFFERS: &str = "echo 4096 131072 6291456 > /proc/sys/net/ipv4/tcp_rmem; exec";

/// A LAN of 1 Gb/s, and a path of 100 Mb/s with an RTT of 120 ms that loses one of 500 packets; the
/// proxy has these options.
fn scenario(options: &str) -> String {
    let python = python();
    let flows = format!("{PROGRAM} flows --json --interval 10ms");
    let program = |at: &str, command: &str, start: u32| {
        format!(
            "[[program]]\nat = \"{at}\"\ncommand = '''{command}'''\ncontroller = \"cubic\"\nstart = \"{start} ms\"\n"
        )
    };
    let programs = [
        program("server", &format!("{python} -c '{SOURCE}'"), 0),
        program("server", &flows, 0),
        program("proxy", &format!("{BUFFERS} {PROGRAM} proxy 0.0.0.0:7000 server:6000 {options}"), 100),
        program("client", &format!("{BUFFERS} {python} -c '{SINK}'"), 200),
        program("client", &flows, 0),
    ];
    format!(
        r#"
duration = "12 s"
nodes = ["server", "proxy", "router", "client"]
[[link]]
from = "server"
to = "proxy"
rate = "1 Gb/s"
delay = "100 us"
buffer = "1.5 MB"
[[link]]
from = "proxy"
to = "router"
[[link]]
from = "router"
to = "client"
rate = "100 Mb/s"
delay = "60 ms"
buffer = "1.5 MB"
loss = 0.002
{}"#,
        programs.concat()
    )
}

/// What the kernels at both ends said once the connections had found their rates.
#[derive(Debug)]
struct Seen {
    /// Quantiles of the RTT between server and proxy, and its minimum, us.
    idle: u64,
    median: u64,
    p95: u64,
    /// The share of looks at which the server saw a closed window, and the largest that it saw.
    closed: f64,
    window: u64,
    /// What the client received, Mb/s.
    goodput: f64,
}

/// Reads the looks of a program that followed one connection, without the first quarter.
fn looks(tried: &Try, program: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(tried.path("out").join(program)).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let looks: Vec<Value> = objects
        .filter(|it| it["event"] == "look")
        .filter_map(|it| it["connections"].get(0).cloned())
        .collect();
    looks[looks.len() / 4..].to_vec()
}

fn run(options: &str) -> Seen {
    let tried = Try::new(&scenario(options));
    tried.summary(&[]);
    let [server, client] = ["program-1.out", "program-4.out"].map(|program| looks(&tried, program));
    let all = |key: &str| {
        let mut values: Vec<u64> = server.iter().filter_map(|look| look[key].as_u64()).collect();
        values.sort_unstable();
        values
    };
    let (rtts, windows) = (all("rtt_us"), all("window_seen_bytes"));
    let closed = windows.iter().filter(|window| **window == 0).count();
    let [from, to] = [client.first().unwrap(), client.last().unwrap()];
    let difference = |key: &str| (to[key].as_u64().unwrap() - from[key].as_u64().unwrap()) as f64;
    Seen {
        idle: all("min_rtt_us")[0],
        median: rtts[rtts.len() / 2],
        p95: rtts[rtts.len() * 95 / 100],
        closed: closed as f64 / windows.len() as f64,
        window: *windows.last().unwrap(),
        goodput: difference("received_bytes") * 8e3 / difference("at_unix_ns"),
    }
}

#[test]
fn a_held_window_keeps_the_rtt_of_the_lan_that_a_proxy_otherwise_inflates() {
    if !has_kernel() {
        return;
    }
    let (plain, held) = (run(""), run("--target-window 16kB"));
    println!("{plain:?}\n{held:?}");
    // Split TCP as it is: the RTT of the LAN is that of delayed ACKs, and the window of the proxy closes.
    assert!(plain.median >= 10 * plain.idle && plain.closed > 0.5, "{plain:?}");
    // With the window at what the LAN holds, and ACKs that do not wait for it.
    assert!(held.p95 < 5000 && held.window <= 16_000, "{held:?}");
    assert!(held.goodput >= 0.98 * plain.goodput, "{plain:?} {held:?}");
}
