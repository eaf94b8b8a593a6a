//! The paths that methods are judged on: drawn from a seed, or given as files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use headway_queue::QueueSpec;
use headway_scenario::{Change, LinkSpec, Scenario};
use headway_units::{Bytes, Duration};

use super::SimulatedArgs;
use super::class::{CLASSES, Class};
use headway_worlds::Output;
use headway_worlds::draw::Draw;

/// Separates the class and the number in the name of a path.
const NUMBER: &str = " #";

/// A path that a method is judged on.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) class: String,
    pub(super) scenario: Scenario,
}

/// The text of a drawn path, and the name of its file.
struct Drawn {
    class: &'static str,
    /// For example `narrow-then-tight-03.toml`.
    file: String,
    text: String,
}

/// Returns all requested paths, class by class.
pub(super) fn subjects(args: &SimulatedArgs) -> anyhow::Result<Vec<Subject>> {
    if args.paths.is_empty() {
        let drawn = draw(args);
        return drawn.into_iter().map(|path| Subject::drawn(&path, &args.set)).collect();
    }
    let mut subjects = Vec::new();
    for path in &args.paths {
        for file in files(path)? {
            subjects.push(Subject::load(&file, &args.set)?);
        }
    }
    // Answers of the same method must be adjacent.
    subjects.sort_by_key(|subject| subject.scenario.measure[0].method.clone());
    Ok(subjects)
}

/// Writes the drawn paths as files to a folder and returns their number.
pub(super) fn write(args: &SimulatedArgs, folder: &Path) -> anyhow::Result<usize> {
    let (drawn, output) = (draw(args), Output::make(folder)?);
    for path in &drawn {
        output.write(&path.file, &path.text)?;
    }
    Ok(drawn.len())
}

fn draw(args: &SimulatedArgs) -> Vec<Drawn> {
    let (seed, places) = (args.seed, args.paths_per_class as usize);
    let wanted =
        |class: &Class| args.classes.is_empty() || args.classes.iter().any(|name| name == class.name);
    let classes = (0..CLASSES.len()).filter(|number| wanted(&CLASSES[*number]));
    let path = |number, place| drawn(number, seed, (place, places), args.answers);
    classes.flat_map(|number| (0..places).map(move |place| path(number, place))).collect()
}

/// Draws path `place` of `places` of the class with this number.
fn drawn(number: usize, seed: u32, (place, places): (usize, usize), answers: u32) -> Drawn {
    let class = &CLASSES[number];
    let path = (class.path)(&mut Draw::new(seed.into(), number, place, places));
    let name = format!("{}{NUMBER}{}", class.name, place + 1);
    // Every path has its own seed, so that no two have the same traffic.
    let own = (u64::from(seed) << 30) + ((number as u64) << 20) + place as u64;
    Drawn {
        class: class.name,
        file: format!("{}-{:02}.toml", class.name, place + 1),
        text: path.text(&name, own, answers),
    }
}

/// Draws a path of a class for one answer.
///
/// # Errors
/// If there is no such class, and what is wrong with the path.
#[cfg(feature = "sensitivity")]
pub(in crate::accuracy) fn drawn_path(class: &str, seed: u32) -> anyhow::Result<Scenario> {
    let number = CLASSES.iter().position(|known| known.name == class);
    let number = number.with_context(|| format!("there is no class `{class}`"))?;
    Ok(Subject::drawn(&drawn(number, seed, (0, 1), 1), &[])?.scenario)
}

/// Returns the file itself, or all scenarios in a folder.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = || format!("cannot read {}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let file = entry.with_context(cannot)?.path();
        if file.extension().is_some_and(|kind| kind == "toml") {
            files.push(file);
        }
    }
    if files.is_empty() {
        bail!("there is no scenario (.toml) in {}", path.display());
    }
    files.sort();
    Ok(files)
}

impl Subject {
    fn drawn(drawn: &Drawn, set: &[Change]) -> anyhow::Result<Subject> {
        let scenario = Scenario::parse(&drawn.text, Path::new(&drawn.file), set)?;
        Ok(Subject { class: drawn.class.to_owned(), scenario })
    }

    fn load(file: &Path, set: &[Change]) -> anyhow::Result<Subject> {
        let scenario = Scenario::load(file, set)?;
        ensure!(
            scenario.measure.len() == 1,
            "{} has {} [[measure]] instead of one",
            file.display(),
            scenario.measure.len()
        );
        let class = scenario.name.split_once(NUMBER).map_or(scenario.name.as_str(), |(class, _)| class);
        Ok(Subject { class: class.to_owned(), scenario })
    }

    /// Returns the scenario with measurements back to back, unless it specifies an interval.
    pub(super) fn repeated(&self) -> Scenario {
        let mut scenario = self.scenario.clone();
        for measure in &mut scenario.measure {
            measure.every.get_or_insert(Duration::from_ms(1));
        }
        scenario
    }

    /// Returns the scenario without measurements if losses can only be compared with it: TCP that loses
    /// packets sends others later, and what a queue drops on departure depends on more than its length.
    pub(super) fn unmeasured(&self) -> Option<Scenario> {
        let drops_later = |link: &LinkSpec| matches!(link.queue, Some(QueueSpec::Codel(_)));
        let mut scenario = self.scenario.clone();
        if scenario.flow.is_empty() && !scenario.link.iter().any(drops_later) {
            return None;
        }
        // The links remain watched.
        scenario.measure.iter_mut().for_each(|measure| measure.start = scenario.duration);
        Some(scenario)
    }

    /// Returns the size of the smallest buffer on the path, in full-size packets.
    pub(super) fn least_buffer(&self) -> u64 {
        let scenario = &self.scenario;
        let packet = Bytes::new(u64::from(scenario.mtu)) + headway_units::WIRE_OVERHEAD;
        let room = |link: &LinkSpec| {
            Some(link.buffer_at(link.highest_rate()?).bytes(scenario.mtu).get() / packet.get())
        };
        scenario.link.iter().filter_map(room).min().unwrap_or(u64::MAX)
    }
}
