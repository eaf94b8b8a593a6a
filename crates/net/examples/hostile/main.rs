//! Runs all kinds of hostile clients at once against `headway serve`, along with one
//! honest client per second.
//!
//! `make hostile MINUTES=60` (as root)
//!
//! Two servers (one of them with TLS and its log on a full disk) and the attackers share a network namespace
//! and communicate over loopback, from many networks of 127.0.0.0/8. The honest clients are `headway measure`
//! in another namespace, behind a link that the kernel shapes to 50 Mb/s in each direction: a path with a
//! known answer that does not depend on the speed of a processor. Two clients per second come over loopback
//! from networks that the servers have never seen. The attackers have the lowest scheduling priority and the
//! honest clients a higher one than the servers, as if they ran on hosts of their own. The program first
//! measures without attacks, and compares every answer under attack with the median of those: none may differ
//! by more than 10 %. It needs `ip`, `tc`, `ethtool` and `openssl`.

#[path = "../../tests/net/common/raw.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod raw;

mod attacks;
mod honest;
mod new;
mod path;
mod servers;

use honest::{Answer, Kind, measure};
use new::Newcomers;
use path::Path;
use servers::Servers;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// An error that is a sentence.
type Failure = Box<dyn std::error::Error>;

/// Measurements of each kind before the attacks.
const CALM: usize = 7;

/// Allowed relative difference between an answer under attack and the median of the calm ones.
const TOLERANCE: f64 = 0.1;

/// Allowed share of honest clients without an answer, of known and of new networks, and of those whose own
/// host could not pace evenly: that host is this machine, which plays all the roles.
const UNANSWERED: f64 = 0.02;
const DISTURBED: f64 = 0.2;

/// Time between the starts of two honest clients; one that takes longer delays the next.
const EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["attack", plain, tls] => attacks::run(plain, tls).map(|()| true),
        ["new", port] => new::run(port).map(|()| true),
        ["--minutes", minutes] => soak(minutes),
        _ => Err("usage: hostile --minutes N".into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hostile: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the test; returns whether all bounds held.
fn soak(minutes: &str) -> Result<bool, Failure> {
    let time = Duration::try_from_secs_f64(minutes.parse::<f64>()? * 60.0)?;
    let path = Path::make()?;
    let mut servers = Servers::start(&path)?;
    let calm: Vec<Answer> =
        (0..CALM * Kind::ALL.len()).map(|number| measure(&path, &servers, Kind::of(number))).collect();
    println!("calm");
    let medians = Kind::ALL.map(|kind| honest::summary(&calm, kind));
    let resources = servers.resources(&path)?;
    println!("  {resources}");

    let mut attackers = path
        .command(path::SERVERS, std::env::current_exe()?)
        .args(["attack", &servers.plain.port.to_string(), &servers.tls.port.to_string()])
        .stdin(Stdio::null())
        .spawn()?;
    let newcomers = Newcomers::start(&path, servers.plain.port)?;
    let start = Instant::now();
    let (mut answers, mut most) = (Vec::new(), resources);
    while start.elapsed() < time {
        let next = Instant::now() + EVERY;
        answers.push(measure(&path, &servers, Kind::of(answers.len())));
        most = most.max(servers.resources(&path)?);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let (new, kept_out) = newcomers.end()?;
    attackers.kill()?;
    attackers.wait()?;
    println!("under attack for {:.1} minutes", start.elapsed().as_secs_f64() / 60.0);
    for kind in Kind::ALL {
        honest::summary(&answers, kind);
    }
    println!("  at most: {most}");
    let log = servers.end(start.elapsed())?;
    println!("  {log}");
    println!("  {new} clients of networks that came for the first time: {kept_out} kept out");
    let welcome = new > 0 && kept_out as f64 / new as f64 <= UNANSWERED;
    Ok(judge(&answers, &medians) & welcome & most.hold() & log.holds())
}

/// Compares the honest answers with the calm ones, prints those that differ, and returns
/// whether all bounds held.
fn judge(answers: &[Answer], medians: &[f64; Kind::ALL.len()]) -> bool {
    let (mut wrong, mut wide) = (0, 0);
    for answer in answers {
        let Ok(mbps) = answer.mbps else { continue };
        let calm = medians[answer.kind as usize];
        // NaN, without a calm median, counts as off.
        if (mbps / calm - 1.0).abs() <= TOLERANCE {
            continue;
        }
        let (low, high) = answer.interval;
        let holds = low <= calm * (1.0 + TOLERANCE) && high >= calm * (1.0 - TOLERANCE);
        *if holds { &mut wide } else { &mut wrong } += 1;
        println!("  {:?}: {mbps:.1} Mb/s ({low:.1} to {high:.1}) where {calm:.1} was calm", answer.kind);
    }
    let all = answers.len();
    let disturbed = answers.iter().filter(|answer| answer.is_disturbed()).count();
    let unanswered = answers.iter().filter(|answer| answer.mbps.is_err()).count() - disturbed;
    println!(
        "  {all} honest clients: {wrong} answers wrong by more than 10 %, {wide} off by as much with an interval that says so, \
         {unanswered} without one, {disturbed} without one because their own host could not send evenly"
    );
    let share = |count: usize| count as f64 / all as f64;
    wrong + wide == 0 && share(unanswered) <= UNANSWERED && share(disturbed) <= DISTURBED
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}
