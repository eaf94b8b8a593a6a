//! Reads and validates scenario files.

use std::path::Path;

use headway_core::Mistake;
use headway_traffic::Traffic;

use crate::change::{self, Change};
use crate::error::Error;
use crate::model::Scenario;

const OF_LAB: &str = "is a file of a lab: `headway lab up` and `headway lab run` take it. A scenario of `headway run` has a \
                      `duration`, `[[link]]`s and `[[flow]]`s or `[[traffic]]`";

/// Whether this text, which is no scenario, describes a lab.
fn is_of_lab(text: &str) -> bool {
    let Ok(table) = toml::from_str::<toml::Table>(text) else { return false };
    let links = table.get("link").and_then(toml::Value::as_array);
    let has_sides = |link: &toml::Value| link.get("forward").is_some();
    let keys = ["forward", "reverse", "cross"].iter().any(|key| table.contains_key(*key));
    !table.contains_key("duration") && (keys || links.is_some_and(|links| links.iter().any(has_sides)))
}

impl Scenario {
    /// Reads a scenario file, applies the changes and checks everything that can be checked before a run.
    ///
    /// # Errors
    /// Names the file with line and key, or the offending change.
    pub fn load(path: &Path, changes: &[Change]) -> Result<Scenario, Error> {
        let text =
            headway_input::text(path, headway_input::SCENARIO).map_err(|e| Error::file("read", path, e))?;
        Scenario::parse(&text, path, changes)
    }

    /// Parses a scenario from text; resolves the files it names against the folder of `path`.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn parse(text: &str, path: &Path, changes: &[Change]) -> Result<Scenario, Error> {
        let mut scenario: Scenario = toml::from_str(text).map_err(|e| match is_of_lab(text) {
            true => Mistake::at(text, path, None, OF_LAB),
            false => Mistake::at(text, path, e.span(), e.message()),
        })?;
        if !changes.is_empty() {
            scenario = change::apply(text, changes)?;
        }
        scenario.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        if scenario.name.is_empty() {
            scenario.name =
                path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        }
        scenario.load_traces().map_err(|mistake| change::attribute(mistake, changes, text, path))?;
        scenario.load_captures().map_err(|mistake| change::attribute(mistake, changes, text, path))?;
        scenario.check().map_err(|mistake| change::attribute(mistake, changes, text, path))?;
        scenario.load_capacities().map_err(|mistake| change::attribute(mistake, changes, text, path))?;
        Ok(scenario)
    }

    fn load_traces(&mut self) -> Result<(), Mistake> {
        for (index, link) in self.link.iter_mut().enumerate() {
            let traces = [
                (format!("link[{index}].delay-trace"), link.delay_trace.as_mut()),
                (
                    format!("link[{index}].reverse.delay-trace"),
                    link.reverse.as_mut().and_then(|wire| wire.delay_trace.as_mut()),
                ),
            ];
            for (key, trace) in traces {
                trace.map_or(Ok(()), |trace| trace.load(&self.folder, &key))?;
            }
        }
        Ok(())
    }

    fn load_capacities(&mut self) -> Result<(), Mistake> {
        let links = self.link.iter_mut().enumerate();
        let traces = links.filter_map(|(index, link)| Some((index, link.trace.as_mut()?)));
        traces
            .into_iter()
            .try_for_each(|(index, trace)| trace.load(&self.folder, &format!("link[{index}].trace")))
    }

    fn load_captures(&mut self) -> Result<(), Mistake> {
        for (index, spec) in self.traffic.iter_mut().enumerate() {
            if let Traffic::Pcap { file, .. } = &mut spec.traffic {
                let key = format!("traffic[{index}].file");
                file.load(&self.folder).map_err(|error| Mistake::new(&key, &error.to_string()))?;
            }
        }
        Ok(())
    }
}
