//! Prints what was found: a line for each fact with what follows, and a table of the commands.

use headway_program::{out, print_line};
use serde::Serialize;

use super::fact::{Effect, Fact, Grade};
use headway_program::build::stamped;

/// Columns of the names of facts and commands, and of what commands do.
const NAME: usize = 13;
const WORD: usize = 18;

/// A command, and whether it works.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    command: &'static str,
    /// The worst effect of a fact; `None` if it works.
    pub(super) grade: Option<Grade>,
    /// Why, the worst first.
    reasons: Vec<String>,
}

/// Returns a row for each of these commands.
pub(super) fn rows(facts: &[Fact], commands: impl Iterator<Item = &'static str>) -> Vec<Row> {
    commands.map(|command| row(facts, command)).collect()
}

fn row(facts: &[Fact], command: &'static str) -> Row {
    let effects = facts.iter().flat_map(|fact| &fact.effects);
    let mut effects: Vec<&Effect> = effects.filter(|effect| effect.commands.contains(&command)).collect();
    effects.sort_by_key(|effect| std::cmp::Reverse(effect.grade));
    let grade = effects.first().map(|effect| effect.grade);
    // Limits do not matter to what does not work.
    let worst = effects.iter().filter(|effect| grade != Some(Grade::Fails) || effect.grade == Grade::Fails);
    let mut reasons: Vec<String> = worst.map(|effect| effect.reason.clone()).collect();
    reasons.dedup();
    Row { command, grade, reasons }
}

/// Prints both as one object.
pub(super) fn json(facts: &[Fact], rows: &[Row]) {
    #[derive(Serialize)]
    struct Report<'a> {
        r#type: &'static str,
        facts: &'a [Fact],
        commands: &'a [Row],
    }
    let report = stamped(Report { r#type: "doctor", facts, commands: rows });
    out::document(&serde_json::to_string(&report).unwrap_or_default());
}

/// Prints both for people.
pub(super) fn text(facts: &[Fact], rows: &[Row]) {
    for Fact { name, found, effects } in facts {
        print_line!("{name:<NAME$} {found}");
        for Effect { commands, reason, remedy, .. } in effects {
            print_line!("{:<NAME$}   {}: {reason}; {remedy}", "", commands.join(", "));
        }
    }
    print_line!();
    for Row { command, grade, reasons } in rows {
        let word = grade.map_or("works", Grade::word);
        print_line!("{}", format!("{command:<NAME$} {word:<WORD$} {}", reasons.join("; ")).trim_end());
    }
}
