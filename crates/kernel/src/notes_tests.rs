//! Random sequences of starts, ends, kills at any step, refusals by the kernel and changes by hand.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::controller::{Controller, LsOptions};

const NAMES: [&str; 3] = ["ours_a", "ours_b", "ours_c"];
const KERNELS: [&str; 2] = ["cubic", "reno"];
const NAMESPACES: u64 = 2;

/// A simulated host on which a program can be killed before any step.
struct Host {
    here: u64,
    defaults: BTreeMap<u64, String>,
    /// The defaults last set by somebody other than Headway.
    decided: BTreeMap<u64, String>,
    former_defaults: BTreeMap<u64, FormerDefault>,
    instances: BTreeMap<String, (Note, bool)>,
    /// Steps left until the program is killed.
    left: Cell<Option<u32>>,
    /// Whether the kernel refuses to change defaults.
    refuses: bool,
}

/// Any error will do: no one sees the errors of a killed program.
fn killed() -> Error {
    Error::NoBtf
}

impl Host {
    fn new() -> Host {
        let defaults: BTreeMap<u64, String> = (0..NAMESPACES).map(|at| (at, "cubic".to_owned())).collect();
        Host {
            here: 0,
            decided: defaults.clone(),
            defaults,
            former_defaults: BTreeMap::new(),
            instances: BTreeMap::new(),
            left: Cell::new(None),
            refuses: false,
        }
    }

    fn step(&self) -> Result<(), Error> {
        match self.left.get() {
            Some(0) => Err(killed()),
            Some(left) => {
                self.left.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Runs a program in a namespace and kills it after `steps` steps; returns its result
    /// unless it was killed.
    fn program<T>(
        &mut self,
        here: u64,
        steps: Option<u32>,
        work: impl FnOnce(&mut Host) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        self.here = here;
        self.left.set(steps);
        let result = work(self);
        let survived = self.left.take() != Some(0);
        survived.then_some(result)
    }

    fn start(&mut self, name: &str, here: u64, default: bool, steps: Option<u32>) {
        let mut note = note(name);
        let result = self.program(here, steps, |host| start(host, &mut note, default));
        if !matches!(result, Some(Ok(())))
            && let Some((other, alive)) = self.instances.get_mut(name)
            && other.pid == note.pid
        {
            *alive = false;
        }
    }

    /// Ends an instance as a signal does; with `steps`, kills it after that many steps of its end.
    fn end(&mut self, name: &str, steps: Option<u32>) {
        let Some((note, true)) = self.instances.get(name).cloned() else { return };
        let here = note.default.as_ref().map_or(0, |own| own.namespace.cookie);
        self.program(here, steps, |host| end(host, &note));
        if let Some((_, alive)) = self.instances.get_mut(name) {
            *alive = false;
        }
    }

    /// `headway cc stop` in one namespace where no instance is alive.
    fn clean(&mut self, here: u64, steps: Option<u32>) {
        self.program(here, steps, |host| {
            remove_killed(host, |_| true)?;
            let left = left_behind(host)?;
            if left.iter().any(|former| former.namespace.cookie == here) {
                restore(host, &[])
            } else {
                Ok(())
            }
        });
    }

    /// Checks that wherever the default is one of ours, the former one is known.
    fn check(&self) -> Result<(), TestCaseError> {
        for (at, current) in &self.defaults {
            if !NAMES.contains(&current.as_str()) {
                prop_assert_eq!(current, &self.decided[at]);
                continue;
            }
            let former =
                self.former_defaults.get(at).map(|former| (&former.former, former.names.contains(current)));
            prop_assert_eq!(former, Some((&self.decided[at], true)), "the default of {} was {}", at, current);
        }
        Ok(())
    }
}

fn note(name: &str) -> Note {
    thread_local!(static LAST: Cell<u32> = const { Cell::new(0) });
    LAST.set(LAST.get().wrapping_add(1));
    Note {
        pid: LAST.get(),
        controller: Controller::LsReno,
        name: name.to_owned(),
        options: LsOptions::default(),
        ends: None,
        rapid: None,
        stamps: None,
        default: None,
        namespace: None,
        counters_map: 0,
        programs: Vec::new(),
        registered: None,
    }
}

impl Store for Host {
    fn here(&self) -> Result<Namespace, Error> {
        self.step()?;
        Ok(Namespace { number: self.here, cookie: self.here })
    }

    fn current(&self) -> Result<String, Error> {
        self.step()?;
        Ok(self.defaults[&self.here].clone())
    }

    fn set(&mut self, name: &str) -> Result<(), Error> {
        self.step()?;
        if self.refuses {
            return Err(Error::Forbidden);
        }
        self.defaults.insert(self.here, name.to_owned());
        Ok(())
    }

    fn former_defaults(&self) -> Result<Vec<FormerDefault>, Error> {
        self.step()?;
        Ok(self.former_defaults.values().cloned().collect())
    }

    fn store(&mut self, former: &FormerDefault) -> Result<(), Error> {
        self.step()?;
        self.former_defaults.insert(former.namespace.cookie, former.clone());
        Ok(())
    }

    fn remove(&mut self, namespace: Namespace) -> Result<(), Error> {
        self.step()?;
        self.former_defaults.remove(&namespace.cookie);
        Ok(())
    }

    fn instances(&self) -> Result<Vec<(Note, bool)>, Error> {
        self.step()?;
        Ok(self.instances.values().cloned().collect())
    }

    fn announce(&mut self, note: &Note) -> Result<(), Error> {
        self.step()?;
        let before = self.instances.insert(note.name.clone(), (note.clone(), true));
        assert!(before.is_none_or(|(_, alive)| !alive), "{} is on twice", note.name);
        Ok(())
    }

    fn withdraw(&mut self, name: &str) -> Result<(), Error> {
        self.step()?;
        self.instances.remove(name);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Event {
    Start { name: usize, here: u64, default: bool, steps: Option<u32> },
    End { name: usize, steps: Option<u32> },
    Kill { name: usize },
    Clean { here: u64, steps: Option<u32> },
    ByHand { here: u64, to: usize },
    Refuse { refuses: bool },
}

fn event() -> impl Strategy<Value = Event> {
    let name = 0..NAMES.len();
    let here = 0..NAMESPACES;
    // The longest operation takes 16 steps.
    let steps = prop_oneof![Just(None), (0u32..18).prop_map(Some)];
    prop_oneof![
        8 => (name.clone(), here.clone(), prop::bool::weighted(0.8), steps.clone())
            .prop_map(|(name, here, default, steps)| Event::Start { name, here, default, steps }),
        4 => (name.clone(), steps.clone()).prop_map(|(name, steps)| Event::End { name, steps }),
        4 => name.prop_map(|name| Event::Kill { name }),
        2 => (here.clone(), steps).prop_map(|(here, steps)| Event::Clean { here, steps }),
        1 => (here, 0..KERNELS.len()).prop_map(|(here, to)| Event::ByHand { here, to }),
        1 => prop::bool::ANY.prop_map(|refuses| Event::Refuse { refuses }),
    ]
}

fn apply(host: &mut Host, event: &Event) {
    match *event {
        Event::Start { name, here, default, steps } => host.start(NAMES[name], here, default, steps),
        Event::End { name, steps } => host.end(NAMES[name], steps),
        Event::Kill { name } => host.end(NAMES[name], Some(0)),
        Event::Clean { here, steps } => host.clean(here, steps),
        Event::ByHand { here, to } => {
            host.defaults.insert(here, KERNELS[to].to_owned());
            host.decided.insert(here, KERNELS[to].to_owned());
        }
        Event::Refuse { refuses } => host.refuses = refuses,
    }
}

proptest! {
    // 10^6 events in all.
    #![proptest_config(ProptestConfig { cases: 5_000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_default_is_ever_lost(events in prop::collection::vec(event(), 200)) {
        let mut host = Host::new();
        for event in &events {
            apply(&mut host, event);
            host.check()?;
        }
        host.refuses = false;
        for name in NAMES {
            host.end(name, None);
        }
        for here in 0..NAMESPACES {
            host.clean(here, None);
        }
        prop_assert_eq!(&host.defaults, &host.decided);
        prop_assert!(host.former_defaults.values().all(|former| !former.names.contains(&host.defaults[&former.namespace.cookie])));
        prop_assert!(host.instances.is_empty());
    }
}

#[test]
fn a_restore_that_fails_is_not_forgotten() {
    let mut host = Host::new();
    host.start("ours_a", 0, true, None);
    host.refuses = true;
    host.end("ours_a", None);
    assert!(host.instances.is_empty());
    assert_eq!(host.former_defaults[&0].former, "cubic");
    host.refuses = false;
    host.clean(0, None);
    assert_eq!((host.defaults[&0].as_str(), host.former_defaults.len()), ("cubic", 0));
}

#[test]
fn what_is_noted_of_a_namespace_goes_with_it() {
    let mut host = Host::new();
    host.start("ours_a", 0, true, None);
    host.start("ours_b", 1, true, None);
    host.start("ours_c", 1, false, None);
    for name in ["ours_a", "ours_b"] {
        host.end(name, Some(0));
    }
    let known =
        |host: &Host| (host.instances.keys().cloned().collect::<Vec<_>>(), host.former_defaults.len());
    // The kernel unloads a controller a moment after the last namespace has gone that has it as its default.
    remove_gone(&mut host, |namespace| namespace.cookie == 1, |_| true).unwrap();
    assert_eq!(known(&host), (["ours_a", "ours_b", "ours_c"].map(str::to_owned).to_vec(), 1));
    remove_gone(&mut host, |namespace| namespace.cookie == 1, |_| false).unwrap();
    assert_eq!(known(&host), (["ours_a", "ours_c"].map(str::to_owned).to_vec(), 1));
}

#[test]
fn a_start_keeps_the_notes_of_other_killed_programs() {
    let mut host = Host::new();
    host.start("ours_a", 0, false, None);
    host.end("ours_a", Some(0));
    host.start("ours_b", 0, false, None);
    let names: Vec<&str> = host.instances.keys().map(String::as_str).collect();
    assert_eq!(names, ["ours_a", "ours_b"]);
    host.start("ours_a", 0, false, None);
    assert!(host.instances["ours_a"].1);
}
