//! The commands that the pages of the documentation show.

#![allow(unreachable_pub, reason = "also compiled into a program, for its own test")]
#![allow(dead_code, reason = "each test needs a part")]
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::path::{Path, PathBuf};

/// A command of a page.
pub struct Documented {
    /// The page and the command, for messages.
    pub place: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Whether it stands in a block of code, as users would copy it, and not within a sentence.
    pub is_whole: bool,
}

/// Returns the folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the commands of a program in `README.md` and `docs`.
pub fn commands(program: &str) -> Vec<Documented> {
    let docs = std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|is| is == "md"));
    let mut found = Vec::new();
    for page in pages.chain([repository().join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        // Every second part is a block of code, which begins with its language.
        for (index, part) in text.split("```").enumerate() {
            let shown: Vec<&str> = match part.split_once('\n') {
                Some(("sh", lines)) if index % 2 == 1 => lines.lines().collect(),
                Some(("console", lines)) if index % 2 == 1 => {
                    lines.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
                }
                _ if index % 2 == 1 => continue,
                _ => {
                    part.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2)).collect()
                }
            };
            for shown in shown {
                let words = shlex::split(shown).into_iter().flatten().skip_while(|word| word == "sudo");
                // What a shell takes for itself is no argument.
                let words = words.take_while(|word| !["|", "&", "&&", ">", ";", "..."].contains(&&**word));
                let words: Vec<String> = words.map(|word| word.trim_end_matches(';').to_owned()).collect();
                if words.len() > 1 && words[0] == program {
                    found.push(Documented {
                        place: format!("{name}: {shown}"),
                        words,
                        is_whole: index % 2 == 1,
                    });
                }
            }
        }
    }
    found
}

/// Returns what is wrong with a command: one of a block must parse, one in a sentence name subcommands and
/// options that exist.
pub fn mistake(command: &clap::Command, documented: &Documented) -> Option<String> {
    let Documented { place, words, is_whole } = documented;
    if *is_whole {
        let error = command.clone().try_get_matches_from(words).err();
        return error.map(|error| format!("{place}\n{error}"));
    }
    let mut here = command;
    let mut options: Vec<&clap::Arg> = command.get_arguments().collect();
    for word in words[1..].iter().take_while(|word| *word != "--") {
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap();
            let is_it =
                |arg: &&clap::Arg| arg.get_long_and_visible_aliases().unwrap_or_default().contains(&name);
            if !options.iter().any(is_it) && !["help", "version"].contains(&name) {
                return Some(format!("{place}: there is no --{name}"));
            }
        } else if let Some(sub) = here.find_subcommand(word) {
            here = sub;
            options.extend(sub.get_arguments());
        } else if here.is_subcommand_required_set()
            && word.starts_with(|first: char| first.is_ascii_lowercase())
        {
            return Some(format!("{place}: there is no {word}"));
        }
    }
    None
}
