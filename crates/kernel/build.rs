//! Compiles the BPF programs that this crate embeds; without the feature `bpf` there are none.

use std::env;
use std::path::Path;
use std::process::Command;

/// The controllers, the receiver of TCP Rapid, the middlebox, what fills gaps, and segments of a fixed
/// gap; then, for tests and examples, what happens to ACKs, a moved departure, a link, and a controller
/// that stalls connections.
const SOURCES: [&str; 15] = [
    "bpf/ls_reno",
    "bpf/ls_dctcp",
    "bpf/hw_reno",
    "bpf/hw_dctcp",
    "bpf/xcp",
    "bpf/rcp",
    "bpf/rapid",
    "bpf/stamps",
    "bpf/edge",
    "bpf/gaps",
    "bpf/pace",
    "tests/bpf/acks",
    "tests/bpf/departure",
    "tests/bpf/link",
    "tests/bpf/zero",
];

fn main() {
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=tests/bpf");
    println!("cargo:rerun-if-changed=../arithmetic/c");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    for source in SOURCES {
        if let Err(sentence) = compile(&clang, Path::new(source)) {
            eprintln!("\n{sentence}\n");
            std::process::exit(1);
        }
    }
}

fn compile(clang: &str, source: &Path) -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|_| format!("cargo did not set {name}"));
    let name = source.file_name().unwrap_or_default();
    let object = Path::new(&variable("OUT_DIR")?).join(name).with_extension("bpf.o");
    let source = source.with_extension("bpf.c");
    let status = Command::new(clang)
        .args(["--target=bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra"])
        // The kernel takes types in BTF only; DWARF, which is a third of the object, goes
        // to a file beside it.
        .arg("-gsplit-dwarf")
        // BPF_PROG declares all arguments of an operation; hardly any operation uses them all.
        .arg("-Wno-unused-parameter")
        .args(["-I", &variable("DEP_BPF_INCLUDE")?, "-I", "bpf", "-I", "../arithmetic/c"])
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            Err(format!("`{clang}` cannot compile {}; Headway needs clang 14 or later.", source.display()))
        }
        Err(error) => Err(format!(
            "Headway's programs for the kernel are BPF and need clang, but `{clang}` cannot be run ({error}). \
             Install it with `sudo apt-get install clang` or `make setup`, name another one in the variable CLANG, \
             or build without them: `--no-default-features`."
        )),
    }
}
