//! Writes the man pages and completions of all programs into a folder, from the definitions behind their help
//! texts: `cargo run -p headway-manual -- FOLDER`. `headway` passes commands on, so it completes those of all.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap_complete::Shell;

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("name a folder for the files")?);
    let mut command = command();
    command.build();
    man(&command, "headway", &folder.join("man1"))?;
    let programs = [command, headway_cli_router::command(), headway_cli_lab::command()];
    programs.into_iter().try_for_each(|program| completions(program, &folder))
}

/// Writes the completions of a program, each under the name by which its shell finds it.
fn completions(mut command: clap::Command, folder: &Path) -> Result<()> {
    let name = command.get_name().to_owned();
    for (shell, file) in
        [(Shell::Bash, name.clone()), (Shell::Zsh, format!("_{name}")), (Shell::Fish, format!("{name}.fish"))]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut text);
        write(&folder.join(shell.to_string()).join(file), &text)?;
    }
    Ok(())
}

/// Returns `headway` with the commands of all programs, as users type them.
fn command() -> clap::Command {
    let others = [headway_cli_router::command(), headway_cli_lab::command()];
    others.iter().fold(headway::command(), |all, one| {
        one.get_subcommands().fold(all, |all, sub| all.subcommand(with_siblings(sub.clone(), one.get_name())))
    })
}

/// Names the other commands of `program` in the page of the command that shares its name with it:
/// `headway-lab.1` is the page of both.
fn with_siblings(command: clap::Command, program: &str) -> clap::Command {
    let page = |name: &str| format!("headway-{name}");
    let family = headway_program::family::ALL.iter().find(|one| one.name == program);
    let Some(family) = family.filter(|_| page(command.get_name()) == program) else { return command };
    let others = family.commands.iter().map(|(name, _)| *name).filter(|name| *name != command.get_name());
    let pages: Vec<String> = others.map(|name| format!("{}(1)", page(name))).collect();
    let own = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let all = format!("The program {program} has other commands, too: {}.", pages.join(", "));
    command.after_long_help(own.map_or(all.clone(), |own| format!("{own}\n\n{all}")))
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
#[path = "../../cli/tests/support/documented.rs"]
mod documented;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_its_options_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        man(&command(), "headway", folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("headway-measure.1")).unwrap();
        assert!(page.contains("tls\\-fingerprint") && page.contains("130"), "{page}");
        for program in headway_program::family::ALL {
            for (name, _) in program.commands {
                assert!(folder.path().join(format!("headway-{name}.1")).exists(), "{name}");
            }
        }
        assert!(folder.path().join("headway-lab-up.1").exists());
        let page = std::fs::read_to_string(folder.path().join("headway-router.1")).unwrap();
        assert!(page.contains("headway\\-edge(1)"), "{page}");
        for (program, own, other) in [
            (command(), "--budget", "no such"),
            (command(), "--lan", "no such"),
            (headway_cli_router::command(), "--lan", "--pairs"),
            (headway_cli_lab::command(), "--dilate", "--lan"),
        ] {
            let file = folder.path().join("bash").join(program.get_name());
            completions(program, folder.path()).unwrap();
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains(own) && !text.contains(other), "{text}");
        }
    }

    #[test]
    fn all_programs_know_the_commands() {
        let own = [headway::command(), headway_cli_router::command(), headway_cli_lab::command()];
        for (program, own) in headway_program::family::ALL.into_iter().zip(own) {
            let about = |one: &clap::Command| one.get_about().map(ToString::to_string).unwrap_or_default();
            let own = own.get_subcommands().map(|one| (one.get_name().to_owned(), about(one)));
            let known = program.commands.iter().map(|&(name, about)| (name.to_owned(), about.to_owned()));
            assert_eq!(own.collect::<Vec<_>>(), known.collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_command_of_the_documentation_parses() {
        let found = documented::commands("headway");
        assert!(found.iter().filter(|command| command.is_whole).count() > 80, "the pages have been found");
        let mistake = |documented| documented::mistake(&command(), documented);
        let mistakes: Vec<String> = found.iter().filter_map(mistake).collect();
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }
}
