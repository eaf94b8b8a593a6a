//! Looks for what building the BPF programs and libbpf needs, before anything of it is built.

use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Programs, each in a Debian package of the same name, and the variable that may name another one.
const PROGRAMS: [(&str, Option<&str>); 3] =
    [("clang", Some("CLANG")), ("make", None), ("pkg-config", Some("PKG_CONFIG"))];
/// Headers that libbpf includes, and the packages of Debian.
const HEADERS: [(&str, &str); 2] = [("gelf.h", "libelf-dev"), ("zlib.h", "zlib1g-dev")];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in PROGRAMS.iter().filter_map(|(_, variable)| *variable) {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let mut packages = Vec::new();
    for (name, variable) in PROGRAMS {
        let other = variable.and_then(|variable| env::var(variable).ok());
        if !runs(other.as_deref().unwrap_or(name)) {
            packages.push(name);
        }
    }
    // For another machine the compiler is another one, which libbpf-sys knows better.
    if env::var("HOST").ok() == env::var("TARGET").ok() {
        packages.extend(HEADERS.iter().filter(|(header, _)| !exists(header)).map(|(_, package)| *package));
    }
    if !packages.is_empty() {
        eprintln!(
            "\nHeadway's congestion controllers for the kernel are BPF programs, and to build them something is missing: install it with \
             `sudo apt-get install {}`, or build without them with `cargo build --no-default-features`.\n",
            packages.join(" ")
        );
        std::process::exit(1);
    }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Whether the C compiler finds a header; without a compiler the next crate that needs one says so.
fn exists(header: &str) -> bool {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-E", "-x", "c", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return true };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that does not read has failed, which its status says.
        let _ = writeln!(input, "#include <{header}>");
    }
    child.wait().is_ok_and(|status| status.success())
}
