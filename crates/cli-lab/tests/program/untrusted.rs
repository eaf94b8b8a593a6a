//! Files, folders and names that others may have planted: none is believed, followed or waited for.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::labs::{PATH, down, name, up};
use crate::support::{PROGRAM, SIMULATED, headway, output, text, write};
use headway_lab::Process;
use serde_json::Value;

#[test]
fn a_folder_that_another_user_has_made_is_not_used() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can be two users");
        return;
    }
    let folder = tempfile::Builder::new().prefix("headway").tempdir_in("/tmp").unwrap();
    let name = name("planted");
    let Some(lab) = up(folder.path(), &name) else { return };
    let state = fs::read(lab.folder.join("state.json")).unwrap();
    down(&name);
    // A user ID that nobody else has, and a program of that user.
    let user = 2_000_000 + std::process::id();
    let mut victim = Command::new("sleep").arg("1000").uid(user).spawn().unwrap();
    // A lab as somebody else could have forged it: with that program as its daemon.
    let base = PathBuf::from(format!("/tmp/headway-{user}"));
    let planted = base.join("lab/planted");
    fs::create_dir_all(&planted).unwrap();
    let mut state: Value = serde_json::from_slice(&state).unwrap();
    state["daemon"] = serde_json::to_value(Process::of(victim.id() as i32)).unwrap();
    fs::write(planted.join("state.json"), state.to_string()).unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = write(folder.path(), "path.toml", PATH);
    let program = folder.path().join("headway");
    // Copied by another process: a child of a concurrent test could inherit our file open for writing, and
    // then nobody could execute it.
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).uid(user).gid(user).env_remove("XDG_RUNTIME_DIR").current_dir("/");
        output(&mut command)
    };
    let said = [&["lab", "down", "--all"][..], &["lab", "up", &file], &["lab", "status"]].map(as_user);
    let is_left = planted.join("state.json").exists();
    fs::remove_dir_all(&base).unwrap();
    let lives = victim.try_wait().unwrap().is_none();
    // It may have ended.
    let _ = victim.kill();
    victim.wait().unwrap();
    assert!(lives && is_left, "what somebody else has written was believed");
    for said in said {
        let sentence = text(&said.stderr);
        assert_eq!(said.status.code(), Some(1));
        assert!(
            sentence.contains("belongs to another user") && sentence.contains("XDG_RUNTIME_DIR"),
            "{sentence}"
        );
    }
}

#[test]
fn a_file_that_a_lab_reads_is_never_one_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("link");
    let Some(lab) = up(folder.path(), &name) else { return };
    let state = lab.folder.join("state.json");
    let elsewhere = folder.path().join("state.json");
    fs::rename(&state, &elsewhere).unwrap();
    symlink(&elsewhere, &state).unwrap();
    let refused = output(&mut headway(&["lab", "exec", "--name", &name, "client", "--", "true"]));
    fs::remove_file(&state).unwrap();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&state).unwrap();
    file.write_all(&fs::read(&elsewhere).unwrap()).unwrap();
    assert!(down(&name).status.success());
    assert!(!refused.status.success());
}

#[test]
fn results_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (results, secret) = (folder.path().join("results"), folder.path().join("secret"));
    let file = write(folder.path(), "sim.toml", SIMULATED);
    let run = || output(&mut headway(&["run", &file, "--on", "sim", "--output", results.to_str().unwrap()]));
    assert!(run().status.success());
    fs::write(&secret, "before").unwrap();
    fs::remove_file(results.join("flows.csv")).unwrap();
    symlink(&secret, results.join("flows.csv")).unwrap();
    fs::remove_file(results.join("report.html")).unwrap();
    symlink(folder.path().join("made"), results.join("report.html")).unwrap();
    let manifest = results.join("manifest.json");
    // What an attacker with write access could plant: a link among the files to be replaced.
    symlink(folder.path(), results.join("seed-1")).unwrap();
    let listed =
        fs::read_to_string(&manifest).unwrap().replace("\"links.csv\"", "\"links.csv\", \"seed-1/secret\"");
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, listed).unwrap();
    let again = run();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "before");
    assert!(!folder.path().join("made").exists());
    // A name that a spreadsheet would interpret as a formula.
    assert!(fs::read_to_string(results.join("flows.csv")).unwrap().contains("0,'=1+1,"));
}

#[test]
fn files_without_an_end_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    let link = SIMULATED.replace("rate = \"10 Mb/s\"", "trace = \"/dev/zero\"");
    let link = write(folder.path(), "link.toml", &link);
    let capture = "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"pcap\"\nfile = \"/dev/zero\"\n";
    let capture = write(folder.path(), "pcap.toml", &format!("{SIMULATED}{capture}"));
    let delays = write(folder.path(), "delay.toml", &format!("{PATH}delay-trace = \"/dev/zero\"\n"));
    for (arguments, kind) in [
        (&["run", pipe, "--on", "sim"][..], "pipe"),
        (&["lab", "up", pipe], "pipe"),
        (&["compare", pipe, "--on", "sim,lab"], "pipe"),
        (&["run", "/dev/zero", "--on", "sim"], "device"),
        (&["run", &link, "--on", "sim"], "device"),
        (&["run", &capture, "--on", "sim"], "device"),
        (&["lab", "up", &delays, "--name", "never"], "device"),
    ] {
        let refused = output(headway(arguments).current_dir(folder.path()));
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(&format!("it is a {kind}, not a regular file")), "{arguments:?}: {said}");
    }
}

#[test]
fn names_that_move_the_cursor_are_refused_or_shown_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "sim.toml", &format!("name = \"a\\u001b[2J\"\n{SIMULATED}"));
    let refused = output(&mut headway(&["run", &file, "--on", "sim"]));
    assert!(text(&refused.stderr).contains("sim.toml, line 1: `name`: must not contain control characters"));
    let lined = write(folder.path(), "two\nlines.toml", SIMULATED);
    let refused = output(headway(&["run", &lined, "--on", "sim"]).current_dir(folder.path()));
    assert!(text(&refused.stderr).contains("`name`: must not contain control characters"));
    let shown = output(&mut headway(&["lab", "down", "\u{1b}[31mred"]));
    assert!(text(&shown.stderr).contains("\\u{1b}[31mred"), "{:?}", text(&shown.stderr));
}
