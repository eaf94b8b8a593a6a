//! Reads and validates scenario files.

use std::path::{Path, PathBuf};

use headway_traffic::Traffic;
use headway_traffic::channel::{CapacityTrace, DelayTrace};
use headway_units::{ConfigError, Duration};

use crate::change::{self, Change};
use crate::error::Error;
use crate::file::File;
use crate::model::{LinkSpec, Scenario};

/// The time for which random rates of a network without a run are drawn; the last one stays.
pub(crate) const DAY: Duration = Duration::from_ms(86_400_000);
/// Interval of the truth of a network without a run, unless its file gives one.
pub(crate) const INTERVAL: Duration = Duration::from_ms(10);

impl Scenario {
    /// Reads a scenario file, applies the changes and checks everything that can be checked before a run.
    ///
    /// # Errors
    /// Names the file with line and key, or the offending change.
    pub fn load(path: &Path, changes: &[Change]) -> Result<Scenario, Error> {
        Scenario::parse(&text_of(path)?, path, changes)
    }

    /// Parses a scenario from text; resolves the files it names against the folder of `path`.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn parse(text: &str, path: &Path, changes: &[Change]) -> Result<Scenario, Error> {
        let file = File::parse(text, path)?;
        let mut scenario = file.read()?;
        if !changes.is_empty() {
            let read = |text: &str| File::parse(text, path)?.read();
            scenario = change::apply_with(text, changes, read)?;
        }
        scenario.finish(&file, changes, Scenario::check)?;
        Ok(scenario)
    }

    /// Reads the network of a scenario file, whether anything is to run on it or not.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn load_network(path: &Path) -> Result<Scenario, Error> {
        Scenario::parse_network(&text_of(path)?, path)
    }

    /// Parses a network from text, as [`Scenario::load_network`] does.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn parse_network(text: &str, path: &Path) -> Result<Scenario, Error> {
        let file = File::parse(text, path)?;
        let mut scenario = file.read()?;
        // What flows would send says what its NICs must hold up.
        scenario.check_lab_nics().map_err(|mistake| file.locate(mistake))?;
        scenario.flow.clear();
        scenario.measure.clear();
        scenario.select.clear();
        scenario.program.clear();
        scenario.change.clear();
        // There are no flows to be of its classes.
        scenario.middlebox.iter_mut().for_each(|middlebox| middlebox.class.clear());
        if !file.has("interval") {
            scenario.interval = INTERVAL;
        }
        if scenario.duration == Duration::ZERO {
            scenario.duration = DAY;
        }
        scenario.finish(&file, &[], Scenario::check_network)?;
        scenario.middlebox.clear();
        Ok(scenario)
    }

    /// Returns a mistake in a value of this scenario, which names a key, with its place in the file.
    pub fn locate(&self, mistake: ConfigError) -> ConfigError {
        match File::parse(&self.text, &self.path) {
            Ok(file) if !self.text.is_empty() => file.locate(mistake),
            _ => mistake,
        }
    }

    /// Reads the files that the scenario names, and checks it.
    fn finish(
        &mut self,
        file: &File<'_>,
        changes: &[Change],
        check: impl FnOnce(&Scenario) -> Result<(), ConfigError>,
    ) -> Result<(), Error> {
        let path = file.path;
        (self.text, self.path) = (file.text.to_owned(), path.to_owned());
        self.warnings.clone_from(&file.warnings);
        self.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        if self.name.is_empty() {
            self.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        }
        self.files = self.named_files();
        let checked =
            self.load_traces().and_then(|()| self.load_captures()).and_then(|()| self.load_models());
        let checked = checked.and_then(|()| self.load_policies());
        let checked = checked.and_then(|()| check(self));
        let loaded = checked.and_then(|()| self.load_capacities());
        loaded.map_err(|mistake| change::attribute(mistake, changes, file))
    }

    /// Returns the files that are not read yet.
    fn named_files(&self) -> Vec<PathBuf> {
        let of_link = |link: &LinkSpec| {
            let delays =
                [link.delay_trace.as_ref(), link.reverse.as_ref().and_then(|wire| wire.delay_trace.as_ref())];
            let delays = delays.into_iter().flatten().filter_map(DelayTrace::unread).map(Path::to_owned);
            let capacities = link.trace.iter().filter_map(CapacityTrace::unread).map(Path::to_owned);
            delays.chain(capacities).collect::<Vec<_>>()
        };
        let captures = self.traffic.iter().filter_map(|spec| match &spec.traffic {
            Traffic::Pcap { file, .. } => Some(file.path().to_owned()),
            _ => None,
        });
        let models =
            self.measure.iter().map(|spec| &spec.model).chain(self.flow.iter().map(|spec| &spec.model));
        let models = models.flatten().map(|model| model.path().to_owned());
        let policies = self.middlebox.iter().filter_map(|spec| spec.policy.unread()).map(Path::to_owned);
        self.link.iter().flat_map(of_link).chain(captures).chain(models).chain(policies).collect()
    }

    fn load_traces(&mut self) -> Result<(), ConfigError> {
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

    fn load_capacities(&mut self) -> Result<(), ConfigError> {
        let links = self.link.iter_mut().enumerate();
        let traces = links.filter_map(|(index, link)| Some((index, link.trace.as_mut()?)));
        traces
            .into_iter()
            .try_for_each(|(index, trace)| trace.load(&self.folder, &format!("link[{index}].trace")))
    }

    fn load_models(&mut self) -> Result<(), ConfigError> {
        let measurements = self.measure.iter_mut().map(|spec| &mut spec.model);
        let flows = self.flow.iter_mut().map(|spec| &mut spec.model);
        let named = measurements.enumerate().map(|(index, model)| (format!("measure[{index}].model"), model));
        let named =
            named.chain(flows.enumerate().map(|(index, model)| (format!("flow[{index}].model"), model)));
        for (key, model) in named {
            if let Some(model) = model {
                model.load(&self.folder, &key)?;
            }
        }
        Ok(())
    }

    fn load_policies(&mut self) -> Result<(), ConfigError> {
        let mut policies = self.middlebox.iter_mut().map(|spec| &mut spec.policy).enumerate();
        policies
            .try_for_each(|(index, policy)| policy.load(&self.folder, &format!("middlebox[{index}].policy")))
    }

    fn load_captures(&mut self) -> Result<(), ConfigError> {
        for (index, spec) in self.traffic.iter_mut().enumerate() {
            if let Traffic::Pcap { file, .. } = &mut spec.traffic {
                let key = format!("traffic[{index}].file");
                file.load(&self.folder).map_err(|error| ConfigError::new(&key, &error.to_string()))?;
                self.warnings.extend(file.left_out().iter().map(|what| format!("{key}: left out: {what}")));
            }
        }
        Ok(())
    }
}

fn text_of(path: &Path) -> Result<String, Error> {
    headway_input::text(path, headway_input::SCENARIO).map_err(|error| Error::file("read", path, error))
}
