//! Citations such as `rapid 2.9` name sections of `papers/rapid/spec.md`, and such as `rapid F15` or
//! `rapid B7` rows of its tables or experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAPERS: [&str; 5] = ["bass", "ls-aimd", "rapid", "wan", "xcp-rcp"];
/// Folders of the tree that cite, besides the pages in its root.
const CITING: [&str; 6] = ["bench", "crates", "docs", "fuzz", "papers", "scenarios"];
/// Endings of the files among them that are text.
const TEXT: [&str; 7] = ["c", "h", "md", "py", "rs", "sh", "toml"];
/// What may stand between the items of a citation, as in `rapid 2.12 to 2.14, F49 and F50`.
const BETWEEN: [&str; 5] = [", and ", ", ", " and ", " to ", "; "];
/// This file, whose examples name what does not exist.
const SELF: &str = "crates/input/tests/citations.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds all text files below `path`, without those of builds.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).expect("folders can be read") {
        let path = entry.expect("folders can be read").path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files);
        } else if path.is_file() && ending.is_some_and(|ending| TEXT.contains(&ending)) {
            files.push(path);
        }
    }
}

/// Returns all files that may cite.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in CITING {
        collect(&root().join(folder), &mut files);
    }
    for page in ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"] {
        files.push(root().join(page));
    }
    files.retain(|path| !path.ends_with(SELF));
    files
}

/// Returns what can be cited of a paper: sections of its specification, first words of table
/// rows, and experiments.
fn citable(paper: &str) -> BTreeSet<String> {
    let folder = root().join("papers").join(paper);
    let mut names = BTreeSet::new();
    let mut code = false;
    for line in fs::read_to_string(folder.join("spec.md")).expect("every paper has a specification").lines() {
        code ^= line.starts_with("```");
        if let Some(row) = line.strip_prefix("| ") {
            names.extend(row.split(' ').next().map(str::to_owned));
        } else if !code && line.starts_with('#') {
            names.extend(line.trim_start_matches('#').split_whitespace().next().map(str::to_owned));
        }
    }
    for entry in fs::read_dir(&folder).expect("folders can be read") {
        let name = entry.expect("folders can be read").file_name();
        names.insert(name.into_string().expect("names are text"));
    }
    names
}

/// Splits the item of a citation off the start of a text: `2.9`, `4`, `B.1`, `F15` or `E5a`, of at most three
/// digits a part. A number of three digits is no section, but that of a command.
fn item(text: &str) -> Option<(&str, &str)> {
    let letter = usize::from(text.starts_with(|character: char| character.is_ascii_uppercase()));
    let digits = text[letter..].find(|character: char| !character.is_ascii_digit() && character != '.');
    let mut end = digits.map_or(text.len(), |length| letter + length);
    if letter == 1 && text[end..].starts_with(['a', 'b']) {
        end += 1;
    }
    let item = text[..end].trim_end_matches('.');
    let rest = &text[item.len()..];
    let parts = item.trim_start_matches(|character: char| character.is_ascii_uppercase()).split('.');
    let number =
        parts.map(str::len).max() < Some(4) && item.contains(|character: char| character.is_ascii_digit());
    let is_section = item.parse::<u32>().ok().is_none_or(|chapter| chapter < 100);
    let ends = !rest.starts_with(|character: char| character.is_alphanumeric() || "-%/_".contains(character));
    (number && is_section && ends).then_some((item, rest))
}

/// Returns the items with which a text starts.
fn items(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some((name, rest)) = item(text) {
        found.push(name);
        match BETWEEN.iter().find_map(|between| rest.strip_prefix(between)) {
            Some(next) => text = next,
            None => break,
        }
    }
    found
}

/// Returns a text in one line, without what starts the lines of comments.
fn joined(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!', '*', '#']).trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the citations of a text as pairs of paper and item.
fn citations(text: &str) -> Vec<(&'static str, String)> {
    let text = joined(text);
    let mut found = Vec::new();
    for paper in PAPERS {
        for (start, name) in text.match_indices(&format!("{paper} ")) {
            let before = text[..start].chars().next_back();
            if before.is_none_or(|character| !character.is_alphanumeric() && !"-_/:.=".contains(character)) {
                found.extend(
                    items(&text[start + name.len()..]).iter().map(|item| (paper, (*item).to_owned())),
                );
            }
        }
    }
    found
}

/// Returns the items that stand alone in parentheses, as in `(2.9)` or `(F25, F42)`.
fn bare(text: &str) -> Vec<String> {
    let text = joined(text);
    let parts = text.split('(').skip(1).filter_map(|part| part.split_once(')'));
    let mut found = Vec::new();
    for (inside, _) in parts {
        let names = items(inside);
        let all = names.last().is_some_and(|last| inside.ends_with(last));
        if all && names.iter().all(|name| name.len() > 1 && (name.contains('.') || item(name).is_some())) {
            found.extend(
                names.iter().filter(|name| name.parse::<u32>().is_err()).map(|name| (*name).to_owned()),
            );
        }
    }
    found
}

/// Returns what a file cites. In a C header whose first comment cites a paper, items in
/// parentheses are of that paper.
fn cited(path: &Path) -> Vec<(&'static str, String)> {
    let text = fs::read_to_string(path).expect("sources are text");
    let mut found = citations(&text);
    let first = text.split("*/").find_map(|comment| citations(comment).first().map(|(paper, _)| *paper));
    if let (true, Some(paper)) = (path.extension().is_some_and(|ending| ending == "h"), first) {
        let comments = text.split("/*").skip(1).filter_map(|part| part.split_once("*/"));
        found.extend(comments.flat_map(|(comment, _)| bare(comment)).map(|item| (paper, item)));
    }
    found
}

#[test]
fn every_cited_section_exists() {
    let papers: BTreeMap<_, _> = PAPERS.iter().map(|paper| (*paper, citable(paper))).collect();
    let mut missing = Vec::new();
    let mut count = 0;
    for path in sources() {
        for (paper, item) in cited(&path) {
            count += 1;
            if !papers[paper].contains(&item) {
                missing.push(format!(
                    "{}: {paper} {item}",
                    path.strip_prefix(root()).unwrap_or(&path).display()
                ));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "{} citations name nothing in papers:\n{}",
        missing.len(),
        missing.join("\n")
    );
    assert!(count > 500, "only {count} citations found: does this test still read the tree?");
}

#[test]
fn citations_are_found_in_all_their_forms() {
    let found = |text: &str| citations(text).into_iter().map(|(_, item)| item).collect::<Vec<_>>().join(" ");
    assert_eq!(found("(rapid 2.12 to 2.14, F49 and F50)."), "2.12 2.14 F49 F50");
    assert_eq!(found("/// as in (xcp-rcp 2.1,\n/// 2.2)"), "2.1 2.2");
    assert_eq!(found("see rapid B.1, and wan 7."), "B.1 7");
    assert_eq!(found("of rapid 2.11, 2 %, E5a, and a rapid 10-fold"), "2.11 2");
    assert_eq!(found("headway repro rapid/B7"), "");
    assert_eq!(bare("kappa (2.9) of (F25, F42), with (x + 1.5) and (2)"), ["2.9", "F25", "F42"]);
}

#[test]
fn a_section_that_is_missing_is_noticed() {
    let sections = citable("rapid");
    assert!(sections.contains("2.9") && sections.contains("F15") && sections.contains("B7"));
    assert!(!sections.contains("9.9") && !sections.contains("F999"));
}
