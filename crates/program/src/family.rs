//! Which of the programs has which command. Users type `headway COMMAND`; for the command of another program
//! that one is started.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;
use clap::builder::Styles;

use crate::exit::{Code, Failed};

/// A program, which is also the name of its Debian package.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// What its commands are for, as the heading of their list.
    pub purpose: &'static str,
    /// Its commands, and what each does, as in their own help.
    pub commands: &'static [(&'static str, &'static str)],
}

/// Measures.
pub const HEADWAY: Program = Program {
    name: "headway",
    purpose: "Measurements",
    commands: &[
        ("measure", "Measures the available bandwidth of the path to HOST, where `headway serve` must run"),
        ("path", "Finds the narrow link of the path to HOST, where `headway serve` must run"),
        ("serve", "Answers measurements of other hosts"),
        ("estimate", "Runs estimators over recorded streams, and scores them where the truth is known"),
        ("passive", "Reports what is free on the paths of TCP connections, without sending a byte"),
        ("doctor", "Says what this host can do, and which commands work here"),
        ("flows", "Shows the TCP connections of this host live: rate, windows, RTT and buffers"),
    ],
};

/// Works on routers and gateways.
pub const ROUTER: Program = Program {
    name: "headway-router",
    purpose: "Routers, choice of paths and congestion controllers",
    commands: &[
        (
            "router",
            "Forwards between two interfaces through an emulated link, such as a router of XCP or RCP",
        ),
        ("cc", "Runs congestion controllers on this kernel; when the program ends, the kernel is as before"),
        ("edge", "Shares an access link without a queue, by clamping receive windows"),
        ("select", "Chooses among paths by how long transfers take over them, or by what they have free"),
        (
            "proxy",
            "Ends the connections of clients, and opens others to one target in their place (split TCP)",
        ),
    ],
};

/// Simulates and emulates.
pub const LAB: Program = Program {
    name: "headway-lab",
    purpose: "Simulated and emulated networks",
    commands: &[
        ("demo", "Measures an emulated path with every method while its cross traffic changes"),
        ("dataset", "Makes streams or windows with the truth, for training and scoring estimators"),
        ("run", "Runs a scenario: a network, its flows and its traffic, described by a TOML file"),
        ("sweep", "Runs a scenario once for each combination of values, with every seed"),
        ("compare", "Runs a scenario in several worlds, or with several controllers, and compares them"),
        ("lab", "Manages emulated paths with known available bandwidth"),
        ("uml", "Builds and caches the Linux kernel whose network stack runs in virtual time"),
    ],
};

/// All programs with commands that users type after `headway`.
pub const ALL: [&Program; 3] = [&HEADWAY, &ROUTER, &LAB];

impl Program {
    /// Returns the name under which this program was started: `headway` if that has passed a command on.
    pub fn called(&self) -> &'static str {
        let typed = std::env::args_os().next().unwrap_or_default();
        let named = |one: &&&Program| Path::new(&typed).file_name() == Some(OsStr::new(one.name));
        ALL.iter().find(named).map_or(self.name, |one| one.name)
    }

    /// Returns the other program whose command, or help on it, was asked for; `None` if this
    /// one is to see to it.
    pub fn other(&self) -> Option<&'static Program> {
        self.other_of(std::env::args_os().skip(1))
    }

    fn other_of(&self, arguments: impl Iterator<Item = OsString>) -> Option<&'static Program> {
        let mut words = arguments.skip_while(|word| word == "--json");
        let command = words.next().and_then(|word| if word == "help" { words.next() } else { Some(word) })?;
        let has = |one: &Program| one.commands.iter().any(|(name, _)| command == *name);
        ALL.into_iter().find(|one| one.name != self.name && has(one))
    }

    /// Returns its file in the folder of the program that runs.
    fn beside(&self) -> Option<PathBuf> {
        let own = std::env::current_exe().ok()?;
        Some(own.with_file_name(self.name)).filter(|file| file.is_file())
    }

    /// Returns its file there or in the folders of PATH, if it is installed.
    pub fn file(&self) -> Option<PathBuf> {
        self.beside().or_else(|| find(self.name))
    }

    /// Becomes this program, from the folder of the one that runs or from those in PATH, with the same
    /// arguments and the name that was typed. Returns only if it cannot.
    pub fn start(&self) -> Failed {
        let mut arguments = std::env::args_os();
        let typed = arguments.next().unwrap_or_else(|| self.name.into());
        let program = self.beside().unwrap_or_else(|| PathBuf::from(self.name));
        let error = Command::new(&program).arg0(typed).args(arguments).exec();
        if error.kind() == ErrorKind::NotFound {
            let name = self.name;
            let mut commands = self.commands.iter().map(|(command, _)| *command);
            let command = commands.find(|command| std::env::args_os().any(|word| word == *command));
            let reason = anyhow!(
                "`{}` is a command of {name}, which is not installed here; install the Debian package {name}",
                command.unwrap_or_default()
            );
            return Failed::new(Code::Other, reason);
        }
        Failed::new(
            Code::Other,
            anyhow::Error::new(error).context(format!("cannot start {}", program.display())),
        )
    }

    /// Returns a template for the help of this program that lists the commands of the others, too.
    pub fn help_with_all(&self) -> String {
        let styles = Styles::styled();
        let header = styles.get_header();
        let mut text = format!(
            "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{header}{}:{header:#}\n{{subcommands}}\n\n",
            self.purpose
        );
        for other in ALL.into_iter().filter(|one| one.name != self.name) {
            let list =
                clap::Command::new(other.name).disable_help_subcommand(true).help_template("{subcommands}");
            let commands = other.commands.iter().map(|(name, about)| clap::Command::new(*name).about(*about));
            let list = list.subcommands(commands).render_help();
            let _ = write!(
                text,
                "{header}{} ({}):{header:#}\n{}\n\n",
                other.purpose,
                other.name,
                list.ansi().to_string().trim_end()
            );
        }
        text + &format!("{header}Options:{header:#}\n{{options}}{{after-help}}")
    }
}

/// Returns the file of a command in the folders of PATH and, because an ordinary user's may lack them, those of
/// system programs.
pub fn find(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut files = std::env::split_paths(&path).chain(system).map(|folder| folder.join(command));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_or_help_on_it_belongs_to_one_program() {
        let of = |line: &str| HEADWAY.other_of(line.split_whitespace().map(OsString::from));
        assert_eq!(of("edge --lan eth0"), Some(&ROUTER));
        assert_eq!(of("--json select status"), Some(&ROUTER));
        assert_eq!(of("help lab up"), Some(&LAB));
        for own in ["measure run", "", "--help edge", "help", "nothing", "serve --bind edge"] {
            assert_eq!(of(own), None, "{own}");
        }
        let mut all: Vec<&str> = ALL.iter().flat_map(|one| one.commands).map(|(name, _)| *name).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0] != two[1]), "{all:?}");
    }
}
