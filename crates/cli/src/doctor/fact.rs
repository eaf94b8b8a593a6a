//! A fact about this host, and what follows for commands.

use serde::Serialize;

/// How a fact affects a command, from bad to worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Grade {
    /// Whether the command works could not be tried.
    Untried,
    /// The command works with limits.
    Limits,
    /// The command does not work.
    Fails,
}

impl Grade {
    /// What a command with this worst effect does.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Grade::Untried => "not tried",
            Grade::Limits => "works with limits",
            Grade::Fails => "does not work",
        }
    }
}

/// What follows of a fact for some commands.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effect {
    pub(super) commands: Vec<&'static str>,
    pub(super) grade: Grade,
    /// Why, as the end of a sentence about a command.
    pub(super) reason: String,
    /// What to do about it.
    pub(super) remedy: String,
}

/// A fact, with its name and what was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) found: String,
    pub(super) effects: Vec<Effect>,
}

impl Fact {
    /// A fact of which nothing follows so far.
    pub(super) fn new(name: &'static str, found: impl Into<String>) -> Fact {
        Fact { name, found: found.into(), effects: Vec::new() }
    }

    /// Adds what follows for these commands.
    pub(super) fn with(
        mut self,
        grade: Grade,
        commands: &[&'static str],
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fact {
        let (reason, remedy) = (reason.into(), remedy.into());
        self.effects.push(Effect { commands: commands.to_vec(), grade, reason, remedy });
        self
    }

    /// Leaves out effects on commands that nobody asked about.
    pub(super) fn about(mut self, asked: impl Fn(&str) -> bool) -> Fact {
        for effect in &mut self.effects {
            effect.commands.retain(|command| asked(command));
        }
        self.effects.retain(|effect| !effect.commands.is_empty());
        self
    }
}
