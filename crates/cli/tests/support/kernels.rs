//! Runs on kernels in virtual time.
//!
//! Where no kernel has been built, which takes minutes, the tests that need one say so and pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::PROGRAM;

/// Whether a kernel has been built; says so if not.
pub fn has_kernel() -> bool {
    is_there(&[])
}

/// Whether a kernel with debug checks has been built; says so if not.
pub fn has_debug_kernel() -> bool {
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
pub struct Try {
    pub folder: TempDir,
}

impl Try {
    pub fn new(scenario: &str) -> Try {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.toml"), scenario).unwrap();
        Try { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, output: &str, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("run").arg(self.path("x.toml")).args(["--on", "uml", "--output"]).arg(self.path(output));
        command.args(args);
        command
    }

    pub fn run(&self, output: &str, args: &[&str]) -> Output {
        self.command(output, args).output().unwrap()
    }

    /// Returns the summary of a run that must succeed.
    pub fn summary(&self, args: &[&str]) -> Value {
        let output = self.run("out", args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&std::fs::read(self.path("out/summary.json")).unwrap()).unwrap()
    }
}

/// Returns every result file by name, except for the manifest.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.file_name().unwrap() != "manifest.json");
    files.map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())).collect()
}

/// Two flows over a bottleneck with RED, with Poisson cross traffic.
pub const MIXED: &str = r#"
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
