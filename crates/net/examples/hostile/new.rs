//! Honest clients of networks that the server has never seen, one after the other.

use super::raw::Raw;
use super::{Failure, path};
use headway_net::protocol::Message;
use headway_units::Duration as Gap;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Between two of them.
const EVERY: Duration = Duration::from_millis(500);

/// What a client prints that got its stream, and one that did not.
const ANSWERED: u8 = b'a';
const KEPT_OUT: u8 = b'k';

/// Comes from one network after the other until the process is killed.
pub(crate) fn run(port: &str) -> Result<(), Failure> {
    let port = port.parse()?;
    // Dies with the program that started it, however that ends.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    std::panic::set_hook(Box::new(|_| {}));
    for number in 0u16.. {
        let [high, low] = number.to_be_bytes();
        let source = Ipv4Addr::new(127, 128 + high, low, 1);
        let answered = catch_unwind(AssertUnwindSafe(|| measures(source, port))).unwrap_or(false);
        let mut output = std::io::stdout();
        output.write_all(&[if answered { ANSWERED } else { KEPT_OUT }])?;
        // Without a line end, the killed process would take what it has not written with it.
        output.flush()?;
        std::thread::sleep(EVERY);
    }
    Ok(())
}

/// Opens a session and asks for a stream; returns whether it came.
fn measures(source: Ipv4Addr, port: u16) -> bool {
    let mut raw = Raw::open_from(source, port);
    matches!(raw.ask_reverse(0, 50, Gap::from_ms(1)), Message::Ready { .. })
        && matches!(raw.hear(), Some(Message::Sent(_)))
}

/// The process in which they run.
pub(crate) struct Newcomers(Child);

impl Newcomers {
    /// Starts them in the servers' namespace, with priority over the attackers.
    pub(crate) fn start(path: &path::Path, port: u16) -> Result<Newcomers, Failure> {
        let mut command = path.command(path::SERVERS, std::env::current_exe()?);
        command.args(["new", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Newcomers(command.spawn()?))
    }

    /// Ends them; returns how many there were and how many were kept out.
    pub(crate) fn end(mut self) -> Result<(usize, usize), Failure> {
        self.0.kill()?;
        let mut outcomes = Vec::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_end(&mut outcomes)?;
        }
        self.0.wait()?;
        Ok((outcomes.len(), outcomes.iter().filter(|outcome| **outcome == KEPT_OUT).count()))
    }
}
