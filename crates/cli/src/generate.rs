//! `headway generate`: man pages and shell completions, from the definitions behind the help texts.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::Cli;
use crate::exit::Failed;
use crate::testbed;

/// Generates man pages or shell completions.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Writes a man page for every subcommand.
    Man {
        /// Folder for the pages; created if missing.
        dir: PathBuf,
    },
    /// Writes the completion file for a shell.
    Completions {
        /// Name of the shell.
        shell: Shell,
        /// Folder for the file; created if missing.
        dir: PathBuf,
    },
}

pub(crate) fn run(args: &GenerateArgs) -> Result<(), Failed> {
    match &args.what {
        What::Man { dir } => man(dir)?,
        What::Completions { shell, dir } => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_complete::generate_to(*shell, &mut Cli::command(), "headway", dir)
                .with_context(|| format!("cannot write into {}", dir.display()))?;
        }
    }
    Ok(())
}

fn man(dir: &Path) -> anyhow::Result<()> {
    let mut command = Cli::command();
    command.build();
    page(&command, "headway", dir)
}

/// Writes the page of `command` and those of its visible subcommands.
fn page(command: &clap::Command, name: &str, dir: &Path) -> anyhow::Result<()> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name)).title(name).render(&mut roff)?;
    testbed::write(&dir.join(format!("{name}.1")), &String::from_utf8(roff)?)?;
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in visible {
        page(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}
