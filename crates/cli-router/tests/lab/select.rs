//! `headway select` on parallel emulated links, with real measurements, hooks and routes.
//!
//! Where the machine allows no namespaces, each test says so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration as Time, Instant as Clock};

use headway_lab::Lab;
use serde_json::Value;

use crate::support::labs::{On, ROLE, bring_up_text, line, name, now, play, was_late};
use crate::support::{PROGRAM, TIMEOUT, text, write};

/// Two links between the same hosts, the second of which has four times the rate.
const LINKS: &str = r#"
[[link]]
name = "slow"
from = "here"
to = "there"
forward = { rate = "10 Mb/s", delay = "5 ms", buffer = "100 ms" }
[[link]]
name = "fast"
from = "here"
to = "there"
forward = { rate = "40 Mb/s", delay = "10 ms", buffer = "100 ms" }
"#;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["selector", address] => selector(address.parse().unwrap()),
        ["put", address] => put(address.parse().unwrap()),
        ["connect"] => connect(),
        _ => panic!("{role}"),
    }
}

/// What answers as sing-box's API does, and prints the name of each outbound that is selected.
fn selector(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    println!("ready");
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.unwrap());
        let (mut request, mut length) = (String::new(), 0);
        reader.read_line(&mut request).unwrap();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if let Some(bytes) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let said: Value = serde_json::from_slice(&body).unwrap();
        println!("{} {}", request.trim(), said["name"].as_str().unwrap());
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

/// The hook that has sing-box's selector take the path of the same name.
fn put(address: SocketAddr) {
    let body = serde_json::json!({ "name": std::env::var("HEADWAY_NEW").unwrap() }).to_string();
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    let length = body.len();
    write!(
        stream,
        "PUT /proxies/select HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

/// Counts from which addresses connections to a thousand others would be made.
fn connect() {
    println!("ready");
    let mut counts = BTreeMap::new();
    for number in 0..1_000_u16 {
        let [high, low] = number.to_be_bytes();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((Ipv4Addr::new(198, 51, high, low), 9)).unwrap();
        *counts.entry(socket.local_addr().unwrap().ip().to_string()).or_insert(0) += 1;
    }
    println!("{}", serde_json::json!(counts));
}

/// The lab, and what serves at its far end.
pub(crate) struct Stage {
    pub(crate) lab: Lab,
    serve: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn up(what: &str) -> Option<Stage> {
        let lab = bring_up_text(LINKS, &name(what))?;
        let serve = serve(&lab);
        Some(Stage { lab, serve, folder: tempfile::tempdir().unwrap() })
    }

    /// Writes a file with both paths, the slow one first, after these lines.
    pub(crate) fn file(&self, head: &str) -> String {
        let path = |number: usize, link: &str| {
            format!(
                "[[path]]\nname = \"{link}\"\nhosts = [\"10.77.{number}.2\"]\ninterface = \"{}\"\nnext-hop = \"10.77.{number}.2\"\n",
                self.lab.interface("here", link).unwrap().name
            )
        };
        // A busy machine has to measure a path several times, and nobody is to wait an hour for that.
        let budget = "strategy = \"available\"\nmax-bytes-per-hour = \"1 GB\"";
        let text = format!("{budget}\n{head}\n{}{}", path(0, "slow"), path(1, "fast"));
        write(self.folder.path(), "paths.toml", &text)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn once(&self, file: &str) -> Output {
        self.lab.command("here", PROGRAM, ["select", file, "--once", "--json"]).unwrap().output().unwrap()
    }

    pub(crate) fn start(&self, file: &str) -> On {
        On::new(&self.lab, "here", &["select", file, "--socket", &self.path("socket")]).unwrap()
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        let output = self.lab.command("here", "ip", arguments.split(' ')).unwrap().output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Sets the far interface of the fast link up or down.
    fn far(&self, state: &str) {
        let interface = &self.lab.interface("there", "fast").unwrap().name;
        let set = ["link", "set", interface, state];
        assert!(self.lab.command("there", "ip", set).unwrap().status().unwrap().success());
    }

    /// All that a process may have set.
    fn routes(&self) -> String {
        ["-4 route show table all", "-4 rule", "nexthop"].map(|what| self.ip(what)).concat()
    }

    /// Returns by which interface what has no route of its own leaves.
    fn way(&self) -> String {
        let said = self.ip("route get 198.51.100.1");
        said.split_once(" dev ").unwrap().1.split(' ').next().unwrap().to_owned()
    }

    pub(crate) fn interface(&self, link: &str) -> String {
        self.lab.interface("here", link).unwrap().name.clone()
    }

    fn wait_for_way(&self, link: &str) {
        let begun = Clock::now();
        while self.way() != self.interface(link) {
            assert!(begun.elapsed() < TIMEOUT, "{}", self.ip("route"));
            std::thread::sleep(Time::from_millis(20));
        }
    }

    /// Starts it and kills it as often as `HEADWAY_KILLS` says, each time after it has set routes, and waits
    /// until routes are as before.
    fn kill_often(&self, file: &str, before: &str) {
        let is_before = || self.routes() == before;
        let kills = std::env::var("HEADWAY_KILLS").map_or(2, |count| count.parse().unwrap());
        for kill in 0..kills {
            let mut on = self.start(file);
            let begun = Clock::now();
            while is_before() {
                assert!(begun.elapsed() < TIMEOUT, "{before}");
            }
            std::thread::sleep(Time::from_millis(kill * 618 % 1000));
            on.child.kill().unwrap();
            on.child.wait().unwrap();
            let begun = Clock::now();
            while !is_before() {
                assert!(begun.elapsed() < TIMEOUT, "after {kill} kills: {}", self.routes());
                std::thread::sleep(Time::from_millis(20));
            }
        }
    }

    pub(crate) fn down(mut self) {
        self.serve.kill().unwrap();
        self.serve.wait().unwrap();
        self.lab.down().unwrap();
    }
}

fn serve(lab: &Lab) -> Child {
    let mut command = lab.command("there", PROGRAM, ["serve", "--json"]).unwrap();
    let mut serve = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It is ready when it says where it listens.
    assert!(line(&mut BufReader::new(serve.stdout.take().unwrap())).contains("port"));
    serve
}

/// How long anything may take: a far end that was away is tried again after a minute at most.
const PATIENCE: Time = Time::from_secs(120);

/// Returns the next event, which may be the state, told every second.
fn event(on: &mut On) -> Value {
    let said: Value = serde_json::from_str(&line(&mut on.lines)).unwrap();
    if said["event"] != "state" {
        println!("{said}");
    }
    said
}

/// Returns the next event of this name about this path, and which reason if one is named.
pub(crate) fn next(on: &mut On, name: &str, path: &str, why: Option<&str>) -> Value {
    let begun = Clock::now();
    loop {
        let said = event(on);
        let is_why = why.is_none_or(|why| said["why"] == why);
        if said["event"] == name && said["path"] == path && is_why {
            return said;
        }
        assert!(begun.elapsed() < PATIENCE, "no {name} of {path} came; {said}");
    }
}

#[test]
fn once_measures_all_paths_and_prints_their_order() {
    let Some(mut stage) = Stage::up("select-once") else { return };
    let file = stage.file("");
    let is_right = |said: &Value| {
        let free = |place: usize| said["paths"][place]["free_bps"][0].as_f64();
        let is_first = said["chosen"] == "fast" && said["paths"][0]["name"] == "fast";
        is_first && free(0) > Some(20e6) && free(1) < Some(12e6)
    };
    // A machine with other work is less sure, and may be surer the next time.
    let measured = (0..3).any(|_| {
        let from = now();
        let output = stage.once(&file);
        let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        println!("{said}\n{}", text(&output.stderr));
        output.status.success() && is_right(&said) || was_late(&stage.lab, from)
    });
    assert!(measured, "the fast path is not first");
    // A path whose far end is away is named last with the reason; without any, the exit code says so.
    let text_of = std::fs::read_to_string(&file).unwrap().replace("10.77.0.2\"]", "10.77.0.2:9\"]");
    let text_of = format!("reverse = true\n{text_of}");
    let output = stage.once(&write(stage.folder.path(), "other.toml", &text_of));
    let said: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(said["chosen"], "fast", "{said}");
    assert!(said["paths"][1]["error"].as_str().unwrap().contains("cannot be reached"), "{said}");
    stage.serve.kill().unwrap();
    stage.serve.wait().unwrap();
    let output = stage.once(&file);
    assert_eq!(output.status.code(), Some(3), "{}{}", text(&output.stdout), text(&output.stderr));
    stage.lab.down().unwrap();
}

#[test]
fn the_hook_has_a_selector_take_the_better_path_and_leave_one_that_dies() {
    let Some(stage) = Stage::up("select-hook") else { return };
    let (mut selector, mut selected) = play(&stage.lab, "here", "selector 127.0.0.1:9090");
    let me = std::env::current_exe().unwrap();
    let hook = format!("[{:?}, \"select::a_role\", \"--exact\"]", me.to_str().unwrap());
    let file = stage.file(&format!("interval = \"2 s\"\nhook = {hook}\n"));
    let mut command = stage.lab.command("here", PROGRAM, ["select", &file, "--json", "--socket"]).unwrap();
    let mut child = command
        .arg(stage.path("socket"))
        .env(ROLE, "put 127.0.0.1:9090")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut on = On { lines: BufReader::new(child.stdout.take().unwrap()), child };
    assert_eq!(line(&mut selected), "PUT /proxies/select HTTP/1.1 slow");
    let better = next(&mut on, "decision", "fast", Some("better"));
    assert!(better["odds"].as_f64().unwrap() >= 0.9 && better["before"] == "slow", "{better}");
    assert_eq!(line(&mut selected), "PUT /proxies/select HTTP/1.1 fast");
    let status = ["select", "status", "--json", "--socket", &stage.path("socket")];
    let output = stage.lab.command("here", PROGRAM, status).unwrap().output().unwrap();
    let state: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        (&state["chosen"], &state["paths"][1]["is_chosen"]),
        (&"fast".into(), &true.into()),
        "{state}"
    );
    stage.ip(&format!("link set {} down", stage.interface("fast")));
    let left = next(&mut on, "decision", "slow", Some("left"));
    assert!(left["sentence"].as_str().unwrap().contains("it is down"), "{left}");
    assert_eq!(line(&mut selected), "PUT /proxies/select HTTP/1.1 slow");
    assert_eq!(on.end()["changes"], 2);
    assert!(!Path::new(&stage.path("socket")).exists());
    selector.kill().unwrap();
    selector.wait().unwrap();
    stage.down();
}

#[test]
fn a_far_end_that_is_away_is_left_within_an_interval_and_comes_back() {
    let Some(mut stage) = Stage::up("select-away") else { return };
    let file = stage.file("interval = \"4 s\"\n");
    let mut on = stage.start(&file);
    next(&mut on, "decision", "fast", Some("better"));
    // What is sent over the fast link is lost from now on, and no interface here shows it.
    stage.far("down");
    let begun = Clock::now();
    next(&mut on, "decision", "slow", Some("left"));
    println!("left after {:?}", begun.elapsed());
    stage.far("up");
    next(&mut on, "decision", "fast", Some("better"));
    // Without any far end it stays, and says so.
    stage.serve.kill().unwrap();
    stage.serve.wait().unwrap();
    let (begun, mut away) = (Clock::now(), BTreeSet::new());
    while away.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "only {away:?} are away");
        let said = event(&mut on);
        // In whatever order they are asked.
        let is_trouble = |sentence: &str| !sentence.ends_with("answers again");
        if said["event"] == "path" && said["sentence"].as_str().is_some_and(is_trouble) {
            away.insert(said["path"].to_string());
        }
    }
    stage.serve = serve(&stage.lab);
    on.end();
    stage.down();
}

#[test]
fn the_default_route_follows_the_choice_and_is_as_before_whatever_ends_it() {
    let Some(stage) = Stage::up("select-route") else { return };
    // The default route of the host goes over the slow link.
    stage.ip("route add default via 10.77.0.2");
    let before = stage.routes();
    let is_before = || stage.routes() == before;
    let file = stage.file("interval = \"2 s\"\nroute = true\n");
    let mut on = stage.start(&file);
    next(&mut on, "decision", "fast", Some("better"));
    stage.wait_for_way("fast");
    // Without its interface there is the default route.
    let fast = stage.interface("fast");
    stage.ip(&format!("link set {fast} down"));
    assert_eq!(stage.way(), stage.interface("slow"));
    // It looks at interfaces once a second, and would not notice one that is back before that.
    next(&mut on, "decision", "slow", Some("left"));
    stage.ip(&format!("link set {fast} up"));
    next(&mut on, "decision", "fast", Some("better"));
    stage.wait_for_way("fast");
    on.end();
    assert!(is_before(), "{}", stage.ip("route"));
    stage.kill_often(&file, &before);
    stage.down();
}

/// Returns the part of new connections that take the fast link.
fn part_on_fast(stage: &Stage) -> f64 {
    let (mut child, mut lines) = play(&stage.lab, "here", "connect");
    let counts: BTreeMap<String, f64> = serde_json::from_str(&line(&mut lines)).unwrap();
    child.wait().unwrap();
    println!("{counts:?}");
    counts.iter().filter(|(from, _)| from.starts_with("10.77.1.")).map(|(_, count)| count / 1_000.0).sum()
}

/// Waits until a path gets this part of new connections in percent, from `low` on.
fn wait_for_share(on: &mut On, path: &str, low: u64) -> f64 {
    loop {
        let said: Value = serde_json::from_str(&line(&mut on.lines)).unwrap();
        if let Some(part) = said["percent"][path].as_u64() {
            println!("{said}");
            if part >= low {
                return part as f64 / 100.0;
            }
        }
    }
}

#[test]
fn new_connections_are_spread_in_proportion_to_what_is_free_and_routes_are_restored() {
    let Some(stage) = Stage::up("select-balance") else { return };
    stage.ip("route add default via 10.77.0.2");
    let before = stage.routes();
    let file = stage.file("interval = \"2 s\"\nbalance = true\n");
    let mut on = stage.start(&file);
    // 40 of 50 Mb/s, once both are known; before, all take the one that is.
    let told = loop {
        let told = wait_for_share(&mut on, "fast", 1);
        if told < 1.0 {
            break told;
        }
    };
    assert!((0.72..=0.88).contains(&told), "{told}");
    let found = part_on_fast(&stage);
    assert!((found - told).abs() < 0.06, "{found} instead of {told}");
    // A path that goes down gets none, and some again when it is back.
    let fast = stage.interface("fast");
    stage.ip(&format!("link set {fast} down"));
    wait_for_share(&mut on, "slow", 100);
    assert_eq!((part_on_fast(&stage), stage.way()), (0.0, stage.interface("slow")));
    stage.ip(&format!("link set {fast} up"));
    wait_for_share(&mut on, "fast", 60);
    on.end();
    stage.kill_often(&file, &before);
    stage.down();
}

/// Both far ends have one address, behind a router each: only the next hop tells the paths apart.
#[test]
fn paths_may_differ_in_nothing_but_their_next_hop() {
    let Some(stage) = Stage::up("select-hop") else { return };
    stage.ip("route add default via 10.77.0.2");
    let add = ["addr", "add", "198.51.100.7/32", "dev", "lo"];
    assert!(stage.lab.command("there", "ip", add).unwrap().status().unwrap().success());
    let path = |name: &str, hop: &str| {
        format!("[[path]]\nname = \"{name}\"\nhosts = [\"198.51.100.7\"]\nnext-hop = \"{hop}\"\n")
    };
    let lines = format!("interval = \"2 s\"\n{}{}", path("slow", "10.77.0.2"), path("fast", "10.77.1.2"));
    let file = write(stage.folder.path(), "hops.toml", &lines);
    let listed = || ["-4 rule", "-4 route show table all"].map(|what| stage.ip(what));
    let before = listed();
    let mut on = stage.start(&file);
    // By default paths are compared by the time that a transfer takes.
    let sooner = next(&mut on, "decision", "fast", Some("sooner"));
    let time = |key: &str| sooner[key][0].as_f64().unwrap();
    assert!(time("time_ns") * 2.0 < time("time_before_ns"), "{sooner}");
    assert!(sooner["transfer_bytes"].as_u64().unwrap() > 5_000_000, "{sooner}");
    assert_ne!(listed(), before);
    on.child.kill().unwrap();
    on.child.wait().unwrap();
    let begun = Clock::now();
    while listed() != before {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", listed());
        std::thread::sleep(Time::from_millis(20));
    }
    stage.down();
}

/// A name of a network namespace, until this is dropped.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn paths_may_begin_in_another_network_namespace() {
    let Some(stage) = Stage::up("select-namespace") else { return };
    let inside = stage.lab.command("here", "sleep", ["600"]).unwrap().spawn();
    let mut inside = inside.unwrap();
    let named = Named(format!("headway-test-{}", inside.id()));
    let attach = ["netns", "attach", &named.0, &inside.id().to_string()];
    let attached = std::process::Command::new("ip").args(attach).output().unwrap();
    if attached.status.success() {
        let file = std::fs::read_to_string(stage.file("interval = \"2 s\"\n")).unwrap();
        let lines = file.replace("[[path]]", &format!("[[path]]\nnamespace = {:?}", named.0));
        let file = write(stage.folder.path(), "namespaces.toml", &lines);
        // Here, not in the namespace.
        let args = ["select", &file, "--socket", &stage.path("socket"), "--json"];
        let mut child =
            std::process::Command::new(PROGRAM).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut on = On { lines: BufReader::new(child.stdout.take().unwrap()), child };
        next(&mut on, "decision", "fast", Some("better"));
        stage.ip(&format!("link set {} down", stage.interface("fast")));
        let left = next(&mut on, "decision", "slow", Some("left"));
        assert!(left["sentence"].as_str().unwrap().contains("it is down"), "{left}");
        drop(named);
        let gone = next(&mut on, "path", "slow", None);
        assert!(gone["sentence"].as_str().unwrap().contains("cannot be entered"), "{gone}");
        on.end();
    } else {
        println!("SKIPPED: namespaces cannot be named here: {}", text(&attached.stderr));
    }
    inside.kill().unwrap();
    inside.wait().unwrap();
    stage.down();
}
