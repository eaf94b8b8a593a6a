//! Shows the state of a choice that goes on.

use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use headway_program::{out, print_line};
use headway_router::select::{SOCKET, State, ask};
use serde_json::json;

use super::StatusArgs;
use super::show::screen_lines;
use headway_program::screen::Screen;
use headway_program::service::signals;

/// Time between two looks of the live table.
const SHOWN: Duration = Duration::from_secs(1);

/// Asks a process for its state, and shows it: again and again on a terminal until a signal arrives, or once.
///
/// # Errors
/// When none answers.
pub(super) fn run(args: &StatusArgs, json: bool) -> Result<()> {
    let path = args.socket.as_deref().unwrap_or(Path::new(SOCKET));
    let state = ask(path)?;
    if json {
        print_line!("{}", json!(state));
        return out::check();
    }
    let screen = Screen::new(!args.once);
    let (state, away) = if screen.is_live() { follow(path, state, screen)? } else { (state, None) };
    screen_lines(&state.what, away.as_deref(), None).iter().for_each(|line| print_line!("{line}"));
    out::check()
}

/// Draws the state until a signal arrives, and returns the last one, with the reason if no
/// newer one can be had.
fn follow(path: &Path, mut state: State, mut screen: Screen) -> Result<(State, Option<String>)> {
    let mut away = None;
    let mut end = signals()?;
    end.set_read_timeout(Some(SHOWN))?;
    loop {
        screen.show(&screen_lines(&state.what, away.as_deref(), Some(screen.size())));
        match end.read(&mut [0]) {
            Ok(_) => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        // Whoever starts it again need not start this again.
        match ask(path) {
            Ok(newest) => (state, away) = (newest, None),
            Err(why) => away = Some(format!("{why:#}")),
        }
    }
    screen.clear();
    Ok((state, away))
}
