//! Runs with windows of samples: those that models are trained on, and those that they are tested on.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::rc::Rc;

use headway_dataset::dumbbell::{Dumbbell, Ran};
use headway_dataset::windows::{Observed, Plan, Run, Watched, Window};
use headway_dataset::{Part, WindowTable};
use headway_estimate::measure::Method;
use headway_estimate::sabes::Windows;
use headway_sim::measurement::Measured;
use headway_units::{Duration, Rate};
use headway_worlds::World;

use crate::context::Error;
use crate::emulated::{self, Emulated};
use crate::job::Job;
use crate::recording::Recording;
use crate::statistics::{quantile, sorted};

/// Windows of the guarded rules (wan 2.12).
const PERIOD: Duration = Duration::from_ms(200);

/// An answer: the cell and run of its window, the flow, and the absolute error in percent of the capacity.
pub(super) struct Scored {
    pub(super) cell: String,
    pub(super) run: u32,
    pub(super) flow: u32,
    pub(super) error: f64,
}

/// Answers of one answerer, and of how many windows.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) scored: Vec<Scored>,
    pub(super) windows: u64,
}

/// The runs of one kind of data that are tests.
#[derive(Default)]
pub(super) struct Tests<'a> {
    pub(super) runs: Vec<(Run<'a>, Observed)>,
    pub(super) guarded: Answers,
    /// Measurements of a tool that probed at the same time: beside what the flows leave, too.
    pub(super) tool: Answers,
    pub(super) tool_beside_flows: Answers,
    /// What the tap of the first run saw.
    pub(super) first: Option<(Watched, Recording)>,
    /// Of all sliding windows, the windows are one in so many.
    pub(super) one_in: u64,
}

/// Makes the runs, and remembers those in real time.
pub(super) struct Runs<'a> {
    job: &'a Job<'a>,
    /// The method of a tool that probes the path during tests, where they are simulated.
    tool: Option<Method>,
    /// Runs in real time with what they ran: data that differ in their windows only share them. `None` of a
    /// run that the machine disturbed in every attempt.
    emulated: Vec<(String, Option<Rc<Emulated>>)>,
    /// Attempts that the machine disturbed.
    void: usize,
}

/// What a table of data is for.
#[derive(Clone, Copy)]
pub(super) struct Purpose {
    pub(super) trains: bool,
    pub(super) tests: bool,
    /// Whether what the tap of a run saw is kept.
    pub(super) keeps: bool,
}

impl<'a> Runs<'a> {
    pub(super) fn new(job: &'a Job<'a>, tool: Option<Method>) -> Runs<'a> {
        Runs { job, tool, emulated: Vec::new(), void: 0 }
    }

    /// Returns how many attempts of runs in real time the machine disturbed, and how many runs are left out
    /// for it; `None` in the simulator.
    pub(super) fn disturbed(&self) -> Option<(usize, usize)> {
        let left_out = self.emulated.iter().filter(|(_, run)| run.is_none()).count();
        (self.job.world == World::Lab).then_some((self.void, left_out))
    }

    /// Makes the runs of a plan: writes the windows of those for training into a table, and returns the
    /// others, and the median share of the capacity that was available in training, not a number without any.
    pub(super) fn make<'p>(
        &mut self,
        plan: &'p Plan,
        table: &Path,
        purpose: Purpose,
    ) -> Result<(Tests<'p>, f64), Error> {
        let failed = |error: &dyn std::error::Error| Error::Training(error.to_string());
        let file = File::create(table).map_err(|error| failed(&error))?;
        let mut out = WindowTable::new(BufWriter::new(file)).map_err(|error| failed(&error))?;
        let mut tests = Tests { one_in: plan.keep_every, ..Tests::default() };
        let mut shares = Vec::new();
        for run in plan.runs() {
            self.job.check()?;
            if run.part == Part::Test {
                if purpose.tests {
                    self.test(&mut tests, run, purpose.keeps)?;
                }
                continue;
            }
            if !purpose.trains {
                continue;
            }
            for window in &run.observe().windows {
                shares.push(window.available.bps_f64() / run.path.capacity.bps_f64());
                out.write(&run, window).map_err(|error| failed(&error))?;
            }
        }
        out.finish().map_err(|error| failed(&error))?;
        if purpose.tests && tests.runs.is_empty() {
            return Err(Error::Disturbed { run: self.job.experiment.id.clone() });
        }
        Ok((tests, quantile(&sorted(shares), 0.5)))
    }

    /// Carries a test out.
    fn test<'p>(&mut self, tests: &mut Tests<'p>, run: Run<'p>, keeps: bool) -> Result<(), Error> {
        let keeps = keeps && tests.first.is_none();
        if self.job.world == World::Lab {
            let Some(found) = self.emulate(&run)? else { return Ok(()) };
            tests.add(run, &found.watched, &[]);
            if keeps {
                tests.first = Some((found.watched.clone(), found.recording.clone()));
            }
            return Ok(());
        }
        let dumbbell = Dumbbell { probing: self.tool, ..run.dumbbell() };
        let Ran { seen, truth, measured } = dumbbell.run(run.seed());
        let watched = Watched::new(seen.into_iter().map(|taps| taps.into_iter().flatten().collect()), truth);
        tests.add(run, &watched, &measured);
        if keeps {
            let recording = Recording::of(&watched);
            tests.first = Some((watched, recording));
        }
        Ok(())
    }

    /// Carries a run out in real time, or returns what it showed before.
    fn emulate(&mut self, run: &Run<'_>) -> Result<Option<Rc<Emulated>>, Error> {
        let dumbbell = run.dumbbell();
        let key = format!("{} {dumbbell:?}", run.number);
        if let Some((_, known)) = self.emulated.iter().find(|(known, _)| *known == key) {
            return Ok(known.clone());
        }
        let name = format!("{} {}, run {}", self.job.experiment.id, cell(run), run.number);
        let (found, void) = emulated::watch(self.job, &dumbbell, run.seed(), &name)?;
        let found = found.map(Rc::new);
        self.void += void;
        self.emulated.push((key, found.clone()));
        Ok(found)
    }
}

impl<'a> Tests<'a> {
    /// Adds what a tap saw of a run, and what a tool measured meanwhile.
    fn add(&mut self, run: Run<'a>, watched: &Watched, measured: &[Measured]) {
        self.guard(&run, watched);
        measured.iter().for_each(|measured| self.measure(&run, watched, measured));
        let observed = run.windows(watched);
        self.runs.push((run, observed));
    }

    /// Adds what the guarded rules answer.
    fn guard(&mut self, run: &Run<'_>, watched: &Watched) {
        let (estimates, windows) = watched.guarded(Windows::Tumbling(PERIOD));
        self.guarded.windows += windows;
        let score = |estimate| scored(run, 0, watched.truth(estimate), estimate.rate);
        self.guarded.scored.extend(estimates.iter().map(score));
    }

    /// Adds what a tool answers: beside the cross traffic, as published, and beside all that it met.
    fn measure(&mut self, run: &Run<'_>, watched: &Watched, measured: &Measured) {
        let answer = measured.answer.available.as_ref().ok();
        let truths = [
            Some(watched.truth_between(measured.sampled_from, measured.end)),
            measured.truth.map(|truth| truth.free),
        ];
        for (answers, truth) in [&mut self.tool, &mut self.tool_beside_flows].into_iter().zip(truths) {
            answers.windows += 1;
            let pair = answer.zip(truth);
            answers.scored.extend(pair.map(|(answer, truth)| scored(run, 0, truth, answer.rate)));
        }
    }

    /// Returns how much an answer to a window counts towards the number of answers in a run.
    pub(super) fn per_run(&self) -> f64 {
        self.one_in as f64 / self.runs.len().max(1) as f64
    }

    /// Scores the answers of a function to all windows, in b/s.
    pub(super) fn answers(&self, mut answer: impl FnMut(&Run<'_>, &Window) -> Option<f64>) -> Answers {
        let mut answers = Answers::default();
        for (run, observed) in &self.runs {
            answers.windows += observed.windows.len() as u64;
            for window in &observed.windows {
                let Some(rate) = answer(run, window) else { continue };
                answers.scored.push(scored(run, window.flow, window.available, Rate::from_bps_f64(rate)));
            }
        }
        answers
    }
}

fn scored(run: &Run<'_>, flow: u32, truth: Rate, answer: Rate) -> Scored {
    let away = (answer.bps_f64() - truth.bps_f64()).abs();
    Scored { cell: cell(run), run: run.number, flow, error: 100.0 * away / run.path.capacity.bps_f64() }
}

/// Returns the name of a load and an RTT, after the kind of cross traffic where it is not the usual one.
fn cell(run: &Run<'_>) -> String {
    let pattern = run.path.pattern.name().map_or_else(String::new, |name| format!("{name} "));
    format!("{pattern}{:.0}/{:.0}", run.load * 100.0, run.rtt.ms())
}
