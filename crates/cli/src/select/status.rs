//! A Unix socket that tells the state of a choice to whoever connects, and the command that asks it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use headway_program::{out, print_line};
use serde_json::Value;

use super::StatusArgs;
use super::show::screen_lines;
use super::socket::Socket;
use crate::lab::signals;
use crate::screen::Screen;

/// Where root's is, unless another place is named.
pub(super) const SOCKET: &str = "/run/headway/select.sock";
/// Most viewers that are answered at a time, ten times a second.
const MOST: usize = 16;
/// Most bytes of a state: 64 paths have some 30 kB.
const LARGEST: u64 = 1 << 20;
/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks of the live table.
const SHOWN: Duration = Duration::from_secs(1);

/// Tells the state to all who have connected since; one who does not read gets what has room.
pub(super) fn answer(socket: &Socket, mut state: impl FnMut() -> Value) {
    for _ in 0..MOST {
        let Ok((mut viewer, _)) = socket.listener().accept() else { return };
        if viewer.set_nonblocking(true).is_ok() {
            let _ = viewer.write_all(format!("{}\n", state()).as_bytes());
        }
    }
}

/// Asks a process for its state, and shows it: again and again on a terminal until a signal arrives, or once.
///
/// # Errors
/// When none answers.
pub(super) fn run(args: &StatusArgs, json: bool) -> Result<()> {
    let path = args.socket.as_deref().unwrap_or(Path::new(SOCKET));
    let state = ask(path)?;
    if json {
        print_line!("{state}");
        return out::check();
    }
    let screen = Screen::new(!args.once);
    let state = if screen.is_live() { follow(path, state, screen)? } else { state };
    screen_lines(&state, None).iter().for_each(|line| print_line!("{line}"));
    out::check()
}

/// Draws the state until a signal arrives, and returns the last one.
fn follow(path: &Path, mut state: Value, mut screen: Screen) -> Result<Value> {
    let mut end = signals()?;
    end.set_read_timeout(Some(SHOWN))?;
    loop {
        screen.show(&screen_lines(&state, Some(screen.size())));
        match end.read(&mut [0]) {
            Ok(_) => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        // Whoever starts it again need not start this again.
        match ask(path) {
            Ok(newest) => state = newest,
            Err(why) => state["away"] = format!("{why:#}").into(),
        }
    }
    screen.clear();
    Ok(state)
}

fn ask(path: &Path) -> Result<Value> {
    let none =
        || format!("no `headway select` answers at {}; start it, or name its --socket", path.display());
    let stream = UnixStream::connect(path).with_context(none)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text).with_context(none)?;
    serde_json::from_str(&text).with_context(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_connects_gets_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("select.sock");
        let socket = Socket::open(&path, "--socket").unwrap();
        let mut viewer = UnixStream::connect(&path).unwrap();
        answer(&socket, || serde_json::json!({ "chosen": "a" }));
        let mut said = String::new();
        viewer.read_to_string(&mut said).unwrap();
        assert_eq!(said, "{\"chosen\":\"a\"}\n");
    }
}
