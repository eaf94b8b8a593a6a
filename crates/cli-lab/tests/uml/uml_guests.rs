//! How guests end: by themselves, by what their kernel finds, and with the program that runs them.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::kernels::{MIXED, Try, has_debug_kernel, has_kernel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

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
        ("panic(\"on purpose\");", "Kernel panic - not syncing: on purpose", "5 s"),
        ("*(volatile int *)8 = 1;", "ernel panic", "5 s"),
        ("for (;;) cpu_relax();", "virtual time stood", "5 s"),
        // To fill all memory takes seconds on a busy machine.
        ("for (;;) if (!kmalloc(4096, GFP_KERNEL | __GFP_NOFAIL)) break;", "deadlocked on memory", "60 s"),
    ];
    for (body, words, timeout) in trials {
        let run = Try::new(MIXED);
        let folder = module(&run, body);
        let output = run.run("out", &["--stall-timeout", timeout, "--module", folder.to_str().unwrap()]);
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

/// Starts a run that does not end; returns it, its program, and what the working directories
/// of its guest contain.
fn begun() -> (Try, Child, String) {
    let run = Try::new(&MIXED.replace("2 s", "20000 s"));
    let child = run.command("out", &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let guest = format!("running-{}-", child.id());
    let begin = Instant::now();
    // A kernel that is just starting has a child, stopped for a moment, that nothing would end.
    while processes(&guest).is_empty() || begin.elapsed() < Duration::from_secs(2) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no guest has started");
        std::thread::sleep(Duration::from_millis(20));
    }
    (run, child, guest)
}

#[test]
fn ctrl_c_leaves_a_partial_result_and_no_process() {
    if !has_kernel() {
        return;
    }
    let (run, mut child, guest) = begun();
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
    let (_run, mut child, guest) = begun();
    let begin = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    while !processes(&guest).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the guest goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
