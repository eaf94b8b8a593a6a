//! Writes the state file, and removes sockets at the end, by a child process with the rights of
//! whoever has started this.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use headway_privileges::{Deputy, answer, framed, read_framed};

use super::ledger;

/// The process that writes.
#[derive(Debug)]
pub(super) struct Keeper {
    deputy: Deputy,
    /// Whether it writes, and has not said that it is done.
    is_asked: bool,
}

impl Keeper {
    /// Starts it for a state file, if there is one, and these sockets. This process must have one thread.
    ///
    /// # Errors
    /// When the system makes no process.
    pub(super) fn start(state: Option<&Path>, sockets: &[PathBuf]) -> Result<Keeper> {
        let deputy = Deputy::start_whole(|socket| {
            while let Some(text) = read_framed(&socket, ledger::LARGEST as usize) {
                let done = match (state, &text[..]) {
                    (Some(state), [_, ..]) => ledger::write(state, &text).map_err(|why| format!("{why:#}")),
                    _ => {
                        sockets.iter().for_each(|path| drop(std::fs::remove_file(path)));
                        Ok(())
                    }
                };
                if answer(&socket, &done).is_err() {
                    break;
                }
            }
        });
        Ok(Keeper { deputy: deputy.context("cannot start the process that writes files")?, is_asked: false })
    }

    /// Has the state file replaced by one with this text; does not wait for it.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        if self.is_asked {
            self.finish()?;
        }
        self.deputy.tell(&framed(text.as_bytes())).context("the process that writes files has ended")?;
        self.is_asked = true;
        Ok(())
    }

    /// Takes what came of the last write, if that is known.
    ///
    /// # Errors
    /// When it was in vain.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.is_asked && self.deputy.has_answered() { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.is_asked = false;
        let done = self.deputy.answer().context("the process that writes files has ended")?;
        done.map_err(anyhow::Error::msg)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.is_asked {
            let _ = self.finish();
        }
        let _ = self.deputy.ask(&framed(&[]));
    }
}
