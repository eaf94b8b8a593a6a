//! Writes the man pages of `headway` and its completions for shells into a folder, from the definitions behind its help
//! texts: `cargo run --example manual -- FOLDER`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap_complete::Shell;

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("name a folder for the files")?);
    let mut command = headway::command();
    command.build();
    man(&command, "headway", &folder.join("man1"))?;
    // Each under the name by which its shell finds it.
    for (shell, file) in [(Shell::Bash, "headway"), (Shell::Zsh, "_headway"), (Shell::Fish, "headway.fish")] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "headway", &mut text);
        write(&folder.join(shell.to_string()).join(file), &text)?;
    }
    Ok(())
}

/// Writes the page of `command` and those of its visible subcommands.
fn man(command: &clap::Command, name: &str, folder: &Path) -> Result<()> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name)).title(name).render(&mut roff)?;
    write(&folder.join(format!("{name}.1")), &roff)?;
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in visible {
        man(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(())
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    std::fs::write(file, text).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_its_options_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        man(&headway::command(), "headway", folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("headway-measure.1")).unwrap();
        assert!(page.contains("tls\\-fingerprint") && page.contains("130"), "{page}");
        assert!(folder.path().join("headway-lab-up.1").exists());
        let mut text = Vec::new();
        clap_complete::generate(Shell::Bash, &mut headway::command(), "headway", &mut text);
        assert!(String::from_utf8(text).unwrap().contains("--budget"));
    }
}
