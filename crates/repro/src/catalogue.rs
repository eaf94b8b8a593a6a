//! The catalogue of all experiments, built into the program.

use headway_units::nearest;

use crate::experiment::Experiment;

/// An experiment file that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("papers/{id}/experiment.toml: {error}")]
pub struct BadExperiment {
    id: String,
    error: Box<toml::de::Error>,
}

/// A name that matches neither an experiment nor a paper.
#[derive(Debug, thiserror::Error)]
pub enum UnknownExperiment {
    /// No experiment has this name; the second part is empty, or says which may have been meant.
    #[error("there is no experiment `{0}`{1}; `headway-bench repro --list` names them all")]
    Name(String, String),
    /// A built-in file is invalid.
    #[error(transparent)]
    File(#[from] BadExperiment),
}

macro_rules! files {
    ($($id:literal)*) => {
        &[$(($id, include_str!(concat!("../../../papers/", $id, "/experiment.toml")))),*]
    };
}

/// Name and text of every experiment file, in the order of the papers.
const FILES: &[(&str, &str)] = files![
    "rapid/G1" "rapid/G2" "rapid/G3" "rapid/G4" "rapid/G6"
    "rapid/B1" "rapid/B2" "rapid/B3" "rapid/B4" "rapid/B5" "rapid/B6" "rapid/B7" "rapid/B8" "rapid/B9" "rapid/B10"
    "rapid/B11" "rapid/B12" "rapid/B13" "rapid/A1" "rapid/A2" "rapid/A3" "rapid/A4" "rapid/R1"
    "rapid/M1" "rapid/M2" "rapid/M3" "rapid/M4" "rapid/M5" "rapid/M6" "rapid/M7" "rapid/M8" "rapid/M9" "rapid/M10"
    "rapid/R2" "rapid/R3" "rapid/R4" "rapid/R5" "rapid/R6" "rapid/R7" "rapid/R8" "rapid/R9" "rapid/R10"
    "ls-aimd/R1" "ls-aimd/R2" "ls-aimd/R3" "ls-aimd/C1" "ls-aimd/C2" "ls-aimd/C3"
    "ls-aimd/B1" "ls-aimd/B2"
    "bass/P1" "bass/P2" "bass/P3" "bass/P4" "bass/P5" "bass/P6" "bass/P7" "bass/P8" "bass/P9" "bass/P10"
    "bass/P11"
    "wan/E1" "wan/E2" "wan/T3.1" "wan/F3.7" "wan/T4.1" "wan/RWM" "wan/RWM-jitter" "wan/rivals" "wan/E10" "wan/E11" "wan/E12" "wan/E13" "wan/E14" "wan/E15" "wan/E16" "wan/E17" "wan/E18" "wan/E19" "wan/E20"
    "wan/E21" "wan/E22" "wan/E23" "wan/E24" "wan/E25"
    "xcp-rcp/E1" "xcp-rcp/E2" "xcp-rcp/E3" "xcp-rcp/E4" "xcp-rcp/E5" "xcp-rcp/E6" "xcp-rcp/E7" "xcp-rcp/E8"
    "xcp-rcp/E9" "xcp-rcp/E10" "xcp-rcp/E11" "xcp-rcp/E12" "xcp-rcp/E13" "xcp-rcp/E14" "xcp-rcp/E15" "xcp-rcp/E16"
    "xcp-rcp/H21" "xcp-rcp/F56" "xcp-rcp/O1" "xcp-rcp/O2" "xcp-rcp/O3" "xcp-rcp/O4" "xcp-rcp/O5" "xcp-rcp/W1"
    "xcp-rcp/C1"
    "xcp-rcp/E17" "xcp-rcp/E18" "xcp-rcp/E19" "xcp-rcp/E20" "xcp-rcp/E21"
];

/// Parses an experiment file.
///
/// # Errors
/// Describes the mistake, with file name, line and key.
pub fn parse(id: &str, text: &str) -> Result<Experiment, BadExperiment> {
    let bad = |error| BadExperiment { id: id.to_owned(), error: Box::new(error) };
    let experiment: Experiment = toml::from_str(text).map_err(bad)?;
    Ok(Experiment { id: id.to_owned(), ..experiment })
}

/// Returns all experiments.
///
/// # Errors
/// [`BadExperiment`] for the first file that cannot be parsed.
pub fn all() -> Result<Vec<Experiment>, BadExperiment> {
    FILES.iter().map(|(id, text)| parse(id, text)).collect()
}

/// Most names that are offered for a wrong one.
const OFFERED: usize = 6;

/// Returns which names may have been meant, as a question: those that begin as `name` does, the longer the
/// better, or else the one that is most like it. Empty if there are none.
fn meant(name: &str) -> String {
    let shared = |id: &str| {
        let letters = name.chars().zip(id.chars());
        letters.take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count()
    };
    let ids = || FILES.iter().map(|(id, _)| *id);
    let longest = ids().map(shared).max().unwrap_or(0);
    let mut found: Vec<&str> = ids().filter(|id| shared(id) == longest).collect();
    // Without the paper and the slash behind it, the beginning says nothing.
    if !name.get(..longest).is_some_and(|beginning| beginning.contains('/')) || found.len() > OFFERED {
        let papers = ids().filter_map(|id| id.split_once('/')).map(|(paper, _)| paper);
        found = nearest(name, papers.chain(ids())).into_iter().collect();
    }
    let quoted: Vec<String> = found.iter().map(|id| format!("`{id}`")).collect();
    match &quoted[..] {
        [] => String::new(),
        [only] => format!(" (did you mean {only}?)"),
        [first @ .., last] => format!(" (did you mean {} or {last}?)", first.join(", ")),
    }
}

/// Returns the experiments that `names` select, each once, in the order of the papers. Names are those of
/// experiments or papers, or `all`: `rapid/B7`, `bass`, `all`.
///
/// # Errors
/// [`UnknownExperiment`] for the first name that matches nothing.
pub fn select(names: &[String]) -> Result<Vec<Experiment>, UnknownExperiment> {
    let all = all()?;
    let means = |name: &str, id: &str| {
        name.eq_ignore_ascii_case("all")
            || id.eq_ignore_ascii_case(name)
            || id.split_once('/').is_some_and(|(paper, _)| paper.eq_ignore_ascii_case(name))
    };
    if let Some(name) = names.iter().find(|name| !all.iter().any(|e| means(name, &e.id))) {
        return Err(UnknownExperiment::Name(name.clone(), meant(name)));
    }
    Ok(all.into_iter().filter(|e| names.iter().any(|name| means(name, &e.id))).collect())
}

/// Returns the studies of one kind with the names of their experiments.
#[cfg(test)]
pub(crate) fn studies<S: serde::de::DeserializeOwned>(kind: &str) -> Vec<(&'static str, S)> {
    let study = |(id, text): &(&'static str, &str)| {
        let mut file: toml::Table = toml::from_str(text).expect("well-formed");
        let parameters = file["study"].as_table_mut()?.remove(kind)?;
        Some((*id, parameters.try_into().expect("as before")))
    };
    FILES.iter().filter_map(study).collect()
}

#[cfg(test)]
mod tests {
    use headway_worlds::Cancellation;

    use super::*;
    use crate::{Context, Error, Outcome, Size};

    /// Returns the experiments, shrunk to hardly any streams.
    fn tiny() -> Vec<Experiment> {
        fn shrink(value: &mut toml::Value) {
            let Some(table) = value.as_table_mut() else {
                return value.as_array_mut().into_iter().flatten().for_each(shrink);
            };
            if let Some(quick) = table.get_mut("quick") {
                let count = quick.as_integer().expect("a number");
                *quick = toml::Value::Integer((count / 40).max(1));
            }
            // Half a minute of transfers is enough.
            if table.get("end").is_some_and(|end| end.as_str() == Some("300 s")) {
                table.insert("end".to_owned(), "30 s".into());
            }
            table.iter_mut().for_each(|(_, value)| shrink(value));
        }
        let tiny = |(id, text): &(&str, &str)| {
            let mut value: toml::Value = toml::from_str(text).expect("well-formed");
            shrink(&mut value);
            parse(id, &toml::to_string(&value).expect("well-formed")).expect("as before")
        };
        FILES.iter().map(tiny).collect()
    }

    fn outcome(experiment: &Experiment, jobs: usize) -> Outcome {
        let stop = Cancellation::default();
        let context = Context::new(Size::Quick, 1, jobs, &stop);
        crate::run(experiment, &context).expect("nobody interrupts")
    }

    #[test]
    fn wrong_names_are_answered_with_those_that_may_be_meant() {
        let error = |name: &str| select(&[name.to_owned()]).expect_err("no such name").to_string();
        let list = "`headway-bench repro --list` names them all";
        assert_eq!(
            error("rapid/G99"),
            format!(
                "there is no experiment `rapid/G99` (did you mean `rapid/G1`, `rapid/G2`, `rapid/G3`, `rapid/G4` or `rapid/G6`?); {list}"
            )
        );
        assert!(error("LS-AIMD/C7").contains("(did you mean `ls-aimd/C1`, `ls-aimd/C2` or `ls-aimd/C3`?)"));
        assert!(error("rapit").contains("(did you mean `rapid`?)"), "{}", error("rapit"));
        assert_eq!(error("zzz"), format!("there is no experiment `zzz`; {list}"));
    }

    #[test]
    fn every_file_reads_and_every_claim_is_about_a_number_that_is_measured() {
        assert_eq!(all().expect("all files read").len(), FILES.len());
        for experiment in tiny() {
            let stop = Cancellation::default();
            let outcome = match crate::run(&experiment, &Context::new(Size::Quick, 1, 2, &stop)) {
                Err(reason @ Error::NoTraining { .. }) => {
                    println!("SKIPPED {}: {reason}", experiment.id);
                    continue;
                }
                outcome => outcome.expect("nobody interrupts"),
            };
            assert!(!outcome.checks.is_empty(), "{}", experiment.id);
            for check in &outcome.checks {
                // Few streams may leave a number undefined; its name is known nevertheless.
                let names = check.claim.measure.split(" minus ").flat_map(|name| name.split(" over "));
                for name in names.map(|name| name.strip_prefix("null of ").unwrap_or(name)) {
                    assert!(outcome.measures.contains_key(name), "{}: `{name}`", experiment.id);
                }
                assert!(check.claim.at_least.is_some() || check.claim.at_most.is_some());
            }
            assert!(outcome.figure.svg().expect("drawable").contains("<svg"), "{}", experiment.id);
            assert!(outcome.table.rows.iter().all(|row| row.len() == outcome.table.columns.len()));
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let chosen = ["rapid/B3", "rapid/B9", "rapid/R1", "rapid/R6", "bass/P5", "rapid/G4"];
        for experiment in tiny().iter().filter(|experiment| chosen.contains(&experiment.id.as_str())) {
            let json = |jobs| serde_json::to_string(&outcome(experiment, jobs)).expect("numbers");
            assert_eq!(json(1), json(3), "{}", experiment.id);
        }
    }

    #[test]
    fn names_select_experiments_and_papers_once() {
        let ids = |names: &[&str]| -> Vec<String> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            select(&names).expect("known names").into_iter().map(|experiment| experiment.id).collect()
        };
        assert_eq!(ids(&["bass/P7", "rapid/G4", "bass/p7"]), ["rapid/G4", "bass/P7"]);
        assert_eq!(ids(&["bass", "bass/P1"]).len(), 11);
        assert_eq!(ids(&["all"]).len(), FILES.len());
        let error = select(&["rapid/Z9".to_owned()]).expect_err("there is none");
        assert!(error.to_string().contains("rapid/Z9"));
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_key() {
        let text = FILES[0].1.replace("title =", "titel =");
        let error = parse("rapid/G1", &text).expect_err("an unknown key").to_string();
        assert!(error.contains("papers/rapid/G1/experiment.toml") && error.contains("titel"), "{error}");
        assert!(error.contains("line 1"), "{error}");
    }
}
