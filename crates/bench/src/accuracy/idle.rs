//! CPU usage of idle programs.

use std::time::Duration as Span;

use headway_program::exit::Failed;
use headway_program::print_line;
use headway_runs::testbed::{self, Testbed};
use headway_units::Rate;

/// Interval between the two measurements of the client: short enough that its session stays open in between.
const IDLE_INTERVAL: &str = "14 s";

/// How long the idle programs are observed.
const WATCHED: Span = Span::from_secs(5);

/// Prints the CPU usage of `serve` and `measure` while a session is open but nothing is sent.
pub(super) fn run() -> Result<(), Failed> {
    let path = testbed::symmetric(Rate::from_mbps(100.0), None);
    let testbed = Testbed::new(super::headway()?, &testbed::spec(path, Vec::new(), 1), "idle")?;
    let mut client = testbed
        .measure_command(&["--interval", IDLE_INTERVAL, "--count", "2"])?
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    // After its first result the client only waits.
    let mut first = String::new();
    if let Some(stdout) = client.stdout.as_mut() {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut first)?;
    }
    let programs = [("serve", testbed.server_id()), ("measure", client.id())];
    let before = programs.map(|(_, id)| cpu_time(id));
    std::thread::sleep(WATCHED);
    for ((name, id), before) in programs.iter().zip(before) {
        let used = cpu_time(*id).zip(before).map(|(after, before)| after.saturating_sub(before));
        match used {
            Some(used) => {
                let share = used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
                print_line!("{name:8} {share:5.2} % of one core between streams (target: under 5 %)");
            }
            None => print_line!("{name:8} ended early"),
        }
    }
    client.kill()?;
    client.wait()?;
    Ok(())
}

/// Returns the CPU time of a process, from /proc.
fn cpu_time(id: u32) -> Option<Span> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain spaces; user and system time are the 12th and 13th field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Span::from_secs_f64(ticks as f64 / per_second as f64))
}
