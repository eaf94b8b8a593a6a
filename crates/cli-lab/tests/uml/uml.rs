//! `headway uml` as users run it, with stand-ins for apt, make and other tools, so that nothing is downloaded
//! or compiled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PROGRAM, text};

/// Stand-ins that produce the files the real programs would produce, but at once.
const STAND_INS: &[(&str, &str)] = &[
    (
        "apt-get",
        r#"echo "apt-get $*" >> "$CALLS"
case "$*" in
*print-uris*) echo "'http://x/y' linux-source-6.12_6.12.99-1_all.deb 4 SHA256:0" ;;
*download*) echo deb > linux-source-6.12_6.12.99-1_all.deb ;;
esac"#,
    ),
    ("dpkg", r#"mkdir -p "$3""#),
    (
        "tar",
        "mkdir -p tree/arch/um tree/include tree/scripts/kconfig tree/net; echo : > tree/scripts/kconfig/merge_config.sh",
    ),
    ("patch", "exit ${PATCH_FAILS:-0}"),
    (
        "make",
        r#"case "$*" in
*allnoconfig*) ;;
*olddefconfig*) for o in UML_TIME_TRAVEL_SUPPORT VETH NET_SCH_TBF NET_SCH_NETEM HOSTFS MODULES; do
    [ "$o" = "$LACKS" ] || echo "CONFIG_$o=y"; done > .config ;;
*) echo "  CC      init/main.o"; echo make $$ >> "$CALLS"; sleep ${COMPILES:-0} & wait; echo kernel > linux ;;
esac"#,
    ),
    ("gcc", ""),
    ("flex", ""),
    ("bison", ""),
    ("bc", ""),
    ("xz", ""),
    ("gzip", ""),
    ("perl", ""),
    ("awk", ""),
];

/// A simulated machine with stand-ins and an empty cache.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir(machine.programs()).expect("a folder");
        for (name, script) in STAND_INS {
            let path = machine.programs().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
        }
        machine
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    fn kernels(&self) -> PathBuf {
        self.folder.path().join("cache/kernel")
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }

    fn uml(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("uml").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .env("HEADWAY_CACHE", self.folder.path().join("cache"))
            .env("CALLS", self.folder.path().join("calls"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.programs().display()));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.uml(args).output().expect("the binary runs")
    }

    /// Waits until the stand-in for make is compiling, and returns its PID.
    fn wait_for_make(&self) -> i32 {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let calls = self.calls();
            if let Some(id) = calls.lines().find_map(|line| line.strip_prefix("make ")) {
                return id.parse().expect("a process id");
            }
            assert!(Instant::now() < deadline, "make was not called: {calls}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn signal(id: u32, name: &str) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().expect("kill runs").success());
}

/// Whether a process exists and is not a zombie.
fn alive(id: i32) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns the names in the folder of kernels, except for lock and log.
fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "lock" && name != "build.log").collect()
}

#[test]
fn a_kernel_is_built_once_kept_and_cleaned_away() {
    let machine = Machine::new();
    let none = machine.run(&["path"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("headway uml build"));

    let built = machine.run(&["build", "--json"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    assert!(text(&built.stderr).contains("compiling"));
    let json: serde_json::Value = serde_json::from_slice(&built.stdout).expect("JSON");
    assert_eq!((json["version"].as_str(), json["cached"].as_bool()), (Some("6.12.99-1"), Some(false)));
    let binary = json["binary"].as_str().expect("a path");
    assert_eq!(fs::read_to_string(binary).expect("the kernel"), "kernel\n");
    let folder = Path::new(json["folder"].as_str().expect("a path"));
    assert!(folder.join("tree/include").is_dir() && !folder.join("tree/net").exists());
    assert_eq!(entries(&machine.kernels()).len(), 1);

    let calls = machine.calls();
    let again = machine.run(&["build", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(json["cached"].as_bool(), Some(true));
    assert_eq!(machine.calls(), calls);
    assert_eq!(text(&machine.run(&["path"]).stdout).trim(), binary);
    assert!(!machine.run(&["path", "--debug"]).status.success());

    assert!(machine.run(&["build", "--force"]).status.success());
    assert!(machine.calls().len() > calls.len());
    assert_eq!(entries(&machine.kernels()).len(), 1);
    assert!(text(&machine.run(&["clean"]).stdout).starts_with("Removed 1 kernel,"));
    assert!(!machine.run(&["path"]).status.success());
}

#[test]
fn an_interrupted_build_ends_its_children_and_leaves_nothing() {
    let machine = Machine::new();
    let build = machine.uml(&["build", "--json"]).env("COMPILES", "60").spawn().expect("the binary runs");
    let make = machine.wait_for_make();
    signal(build.id(), "-INT");
    let output = build.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stdout).contains("interrupted"));
    assert!(!alive(make));
    assert_eq!(entries(&machine.kernels()), [""; 0]);
    assert!(!machine.run(&["path"]).status.success());
}

#[test]
fn a_killed_build_is_not_taken_for_a_kernel_and_the_next_one_tidies_up() {
    let machine = Machine::new();
    let mut build = machine.uml(&["build"]).env("COMPILES", "60").spawn().expect("the binary runs");
    let make = machine.wait_for_make();
    signal(build.id(), "-KILL");
    build.wait().expect("it ends");
    let deadline = Instant::now() + Duration::from_secs(5);
    while alive(make) {
        assert!(Instant::now() < deadline, "make goes on without us");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(entries(&machine.kernels()).len(), 1);
    assert!(!machine.run(&["path"]).status.success());
    assert!(machine.run(&["build"]).status.success());
    let left = entries(&machine.kernels());
    assert!(left.len() == 1 && left[0].starts_with("6.12.99-1-"), "{left:?}");
}

#[test]
fn of_two_builds_the_second_waits_and_finds_the_kernel() {
    let machine = Machine::new();
    let first = machine.uml(&["build"]).env("COMPILES", "2").spawn().expect("the binary runs");
    machine.wait_for_make();
    let busy = machine.run(&["clean"]);
    assert!(text(&busy.stderr).contains("being built"), "{}", text(&busy.stderr));
    let second = machine.run(&["build"]);
    assert!(second.status.success() && text(&second.stderr).contains("waiting for another build"));
    assert!(first.wait_with_output().expect("it ends").status.success());
    assert_eq!(machine.calls().lines().filter(|line| line.starts_with("make ")).count(), 1);
}

#[test]
fn what_goes_wrong_is_said_in_a_sentence() {
    let machine = Machine::new();
    let said = |key: &str, value: &str| {
        let output = machine.uml(&["build"]).env(key, value).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(entries(&machine.kernels()), [""; 0]);
        text(&output.stderr)
    };
    let patch = said("PATCH_FAILS", "1");
    assert!(patch.contains("our patch does not apply to kernel 6.12.99-1"), "{patch}");
    let option = said("LACKS", "VETH");
    assert!(option.contains("kernel 6.12.99-1 does not support the required options VETH"), "{option}");
    fs::remove_file(machine.programs().join("bison")).expect("a stand-in");
    fs::remove_file(machine.programs().join("flex")).expect("a stand-in");
    let tools = machine.programs().display().to_string();
    let missing = said("PATH", &tools);
    assert!(missing.contains("flex, bison and sed are missing"), "{missing}");
    assert!(missing.contains("apt-get install --no-install-recommends flex bison sed"), "{missing}");
}

#[test]
fn package_lists_that_do_not_know_the_package_are_refreshed_privately() {
    let machine = Machine::new();
    let apt = machine.programs().join("apt-get");
    let script = fs::read_to_string(&apt).expect("a stand-in");
    let ignorant = script.replace(
        "case",
        "case \"$*\" in *update*) exit 100 ;; *-c*apt.conf*) ;; *) echo E: unknown; exit 100 ;; esac\ncase",
    );
    fs::write(&apt, ignorant).expect("our own file");
    let built = machine.run(&["build"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let calls = machine.calls();
    assert!(calls.contains("apt.conf update"), "{calls}");

    fs::write(&apt, "#!/bin/sh\necho 'E: Unable to locate package'; exit 100\n").expect("our own file");
    let failed = machine.run(&["build", "--force"]);
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("apt cannot fetch linux-source-6.12 (E: Unable to locate package)"), "{said}");
    assert!(machine.run(&["path"]).status.success());
}
