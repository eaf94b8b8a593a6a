//! The hooks of docs/examples, run by `headway select` beside programs that stand for
//! those that they are for.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::labs::marked_if;
use crate::support::{PROGRAM, TIMEOUT, output, text, write};

/// Stands for `uci`: a file has a line KEY=VALUE for each option and section.
const UCI: &str = r#"#!/bin/sh
[ "$1" = -q ] && shift
case $1 in
get) sed -n "s/^$2=//p" "$FAKES/config" | grep . ;;
set) sed -i "s/^${2%%=*}=.*/$2/" "$FAKES/config" ;;
*) exit 2 ;;
esac
"#;

/// Stands for `mwan3`: a restart takes the policy that is there.
const MWAN3: &str = r#"#!/bin/sh
[ "$*" = restart ] || exit 2
grep '^mwan3.default_rule.use_policy=' "$FAKES/config" >>"$FAKES/restarted"
"#;

/// Stands for a program of scion-apps.
const NETCAT: &str = r#"#!/bin/sh
printf '%s|' "$@"
"#;

const CONFIG: &str = "mwan3.one_first=policy\nmwan3.two_first=policy\nmwan3.default_rule=rule\n\
                      mwan3.default_rule.use_policy=balanced\n";

/// A folder with programs that stand for others.
struct Fakes(tempfile::TempDir);

impl Fakes {
    fn new(programs: &[(&str, &str)]) -> Fakes {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let path = write(folder.path(), name, script);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Fakes(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Has a command find these programs before all others.
    fn before<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("FAKES", self.0.path()).stdin(Stdio::null())
    }

    /// Runs `headway select`, which chooses the path `one`, with a hook until that has done its work.
    fn select(&self, hook: &[&str], is_done: impl Fn() -> bool) {
        let hook = format!("hook = [\"{}\"]\n", hook.join("\", \""));
        let path = |name: &str| format!("[[path]]\nname = \"{name}\"\nhosts = [\"127.0.0.1:9\"]\n");
        let file = write(self.0.path(), "paths.toml", &format!("{hook}{}{}", path("one"), path("two")));
        let mut command = Command::new(PROGRAM);
        command.args(["select", &file, "--socket", self.path("socket").to_str().unwrap()]);
        let mut child = self.before(&mut command).stdout(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !is_done() {
            assert!(begun.elapsed() < TIMEOUT, "the hook does nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Runs a hook as for a change to this path.
    fn run(&self, hook: &[&str], new: &str) -> Output {
        let mut command = Command::new(hook[0]);
        output(self.before(command.args(&hook[1..]).env("HEADWAY_NEW", new)))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn mwan3_takes_the_policy_of_the_chosen_path() {
    let fakes = Fakes::new(&[("uci", UCI), ("mwan3", MWAN3), ("config", CONFIG)]);
    let hook = example("mwan3.sh");
    fakes.select(&[&hook], || fakes.read("restarted").contains("=one_first"));
    assert!(fakes.run(&[&hook], "two").status.success());
    let restarted: Vec<String> = fakes.read("restarted").lines().map(str::to_owned).collect();
    assert_eq!(restarted.last().unwrap(), "mwan3.default_rule.use_policy=two_first");
    // What mwan3 does not know changes nothing.
    for (arguments, new) in [(&[][..], "three"), (&["another"], "one")] {
        let failed = fakes.run(&[&[&hook[..]], arguments].concat(), new);
        assert!(!failed.status.success() && text(&failed.stderr).contains("lacks the policy"), "{failed:?}");
    }
    assert_eq!(fakes.read("restarted").lines().count(), restarted.len());
}

#[test]
fn programs_of_scion_read_the_hops_of_the_chosen_path() {
    let hops = ["1-ff00:0:110#0 1-ff00:0:120#2,1 1-ff00:0:133#0", "1-ff00:0:110#0 0* 1-ff00:0:133#0"];
    let paths = format!("# a comment\none {}\ntwo   {}\n", hops[0], hops[1]);
    let fakes = Fakes::new(&[("scion-netcat", NETCAT), ("scion.paths", &paths)]);
    let [paths, sequence] = ["scion.paths", "scion.sequence"].map(|name| fakes.path(name));
    let [hook, paths, sequence] =
        [example("scion.sh"), paths.to_str().unwrap().to_owned(), sequence.to_str().unwrap().to_owned()];
    let hook = [&hook[..], &paths, &sequence];
    // As the page has it.
    let connect = format!("scion-netcat --sequence \"$(cat {sequence})\" 1-ff00:0:133,192.0.2.7 9000");
    let connected = || text(&output(fakes.before(Command::new("sh").args(["-c", &connect]))).stdout);
    fakes.select(&hook, || !fakes.read("scion.sequence").is_empty());
    assert_eq!(connected(), format!("--sequence|{}|1-ff00:0:133,192.0.2.7|9000|", hops[0]));
    assert!(fakes.run(&hook, "two").status.success());
    assert_eq!(connected(), format!("--sequence|{}|1-ff00:0:133,192.0.2.7|9000|", hops[1]));
    let failed = fakes.run(&hook, "three");
    assert!(!failed.status.success() && text(&failed.stderr).contains("has no hops of three"), "{failed:?}");
    assert_eq!(fakes.read("scion.sequence").trim_end(), hops[1]);
}

#[test]
fn the_selector_of_sing_box_takes_the_chosen_path() {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("SKIPPED: there is no curl");
    }
    let fakes = Fakes::new(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let head: Vec<String> =
            (&mut reader).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        (head[0].clone(), text(&body))
    });
    let hook = example("sing-box.sh");
    fakes.select(&[&hook, "mine", &address], || answering.is_finished());
    let (request, body) = answering.join().unwrap();
    assert_eq!((&request[..], &body[..]), ("PUT /proxies/mine HTTP/1.1", r#"{"name":"one"}"#));
}

/// Its grandchild has a session of its own, and its parent does not wait for it.
const STUBBORN: &str = r#"#!/bin/sh
trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 1; done' &)
echo $$ >>"$FAKES/began"
while :; do sleep 1; done
"#;

#[test]
fn what_a_hook_has_started_ends_with_a_program_that_is_killed_and_before_the_next_one_begins() {
    let fakes = Fakes::new(&[("stubborn", STUBBORN)]);
    let path = |name: &str| format!("[[path]]\nname = \"{name}\"\nhosts = [\"127.0.0.1:9\"]\n");
    let hook = format!("hook = [{:?}]\nhook-timeout = \"300 s\"\n", fakes.path("stubborn"));
    let file = write(fakes.0.path(), "paths.toml", &format!("{hook}{}{}", path("one"), path("two")));
    let socket = fakes.path("socket");
    let mut before: Vec<headway_lab::Process> = Vec::new();
    for round in 1..=3 {
        let mark = format!("HEADWAY_ROUND={}-{round}", std::process::id());
        let mut command = Command::new(PROGRAM);
        command.args(["select", &file, "--socket", socket.to_str().unwrap()]);
        let (key, value) = mark.split_once('=').unwrap();
        let mut child = fakes.before(&mut command).env(key, value).stdout(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while fakes.read("began").lines().count() < round {
            assert!(begun.elapsed() < TIMEOUT, "the hook does not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(before.iter().all(|process| process.wait_gone(Duration::ZERO)), "{before:?} go on");
        let program = child.id() as i32;
        before = marked_if(&mark, |pid| pid != program);
        assert!(before.len() >= 3, "{before:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(before.iter().all(|process| process.wait_gone(TIMEOUT)), "{before:?} go on");
}
