//! The steps in which an edge begins and ends.

use anyhow::{Context as _, Result, bail};
use headway_capture::Live;
use headway_history::{SIZE, Store, Writer};
use headway_kernel::{EdgeInstance, EdgeInterface, EdgeOptions, EdgeSession};

use super::capture::Capture;
use super::page::{Page, Plan};
use super::peer::PeerSocket;
use super::policy::Rules;
use super::probing::Probing;
use super::shaper::Shaper;
use super::signals::SignalSocket;
use super::splitter::Splitter;
use super::watch::{Sources, Watch};
use super::{Options, default_route};
use crate::life::Life;

/// A step in which an edge begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The process that sets token buckets and the rule of routing. Before anything else is open,
    /// which it would have, too.
    Shaper,
    /// The process with the relay. After the one that removes the rule of routing when
    /// this process has ended.
    Splitter,
    /// The place of the only edge of this network namespace.
    Instance,
    /// What edges have left that were killed with their processes. Only whoever has the place may remove it.
    Remains,
    /// The sockets for signals and of the other edge, the history, and the reader of it for a page: they
    /// may be for root only.
    Files,
    /// The programs at the interface: connections that begin from now on are held.
    Programs,
    /// The rule of routing, and the relay in the programs: connections that begin from now on are split.
    Delivery,
    /// The capture.
    Capture,
    /// The privileges, which are given up.
    Privileges,
    /// The threads that capture, probe, show the page and write the history. Each has the privileges
    /// that this one has now.
    Threads,
}

/// The steps in their order.
pub(super) const BEGIN: [Step; 10] = [
    Step::Shaper,
    Step::Splitter,
    Step::Instance,
    Step::Remains,
    Step::Files,
    Step::Programs,
    Step::Delivery,
    Step::Capture,
    Step::Privileges,
    Step::Threads,
];

/// An edge, as far as it has begun.
pub(super) struct Edge<'a> {
    options: &'a Options,
    sides: [EdgeInterface; 2],
    pub(super) rules: Rules,
    splits: bool,
    pub(super) shaper: Option<Shaper>,
    pub(super) splitter: Option<Splitter>,
    instance: Option<EdgeInstance>,
    signals: Option<SignalSocket>,
    peer: Option<PeerSocket>,
    store: Option<Store>,
    plan: Option<Plan>,
    pub(super) programs: Option<EdgeSession>,
    live: Option<Live>,
    pub(super) watch: Option<Watch>,
    pub(super) page: Option<Page>,
    pub(super) history: Option<Writer>,
}

impl Edge<'_> {
    /// Looks at what is wanted, and changes nothing yet.
    pub(super) fn new(options: &Options) -> Result<Edge<'_>> {
        let rules = Rules::open(options.policy.as_deref())?;
        let sides = [EdgeInterface::find(&options.lan)?, EdgeInterface::find(&options.wan)?];
        if sides[0] == sides[1] {
            bail!("`--lan` and `--wan` are the same interface; an edge is between two");
        }
        if let Some(sentence) = default_route::contradiction(&options.lan, &options.wan) {
            tracing::warn!("{sentence}");
        }
        if options.rates.is_none() && !rules.policy.follows_rtt() {
            bail!("without `--rate` the rate is found by RTTs; say it, or leave out `follow-rtt = false`");
        }
        if options.peer.is_some() && (options.rates.is_none() || !rules.policy.follows_rtt()) {
            bail!(
                "`--peer` needs `--rate`, and a policy with `follow-rtt = true` that does not share by number"
            );
        }
        let splits = rules.policy.splits() && !options.dry_run;
        Ok(Edge {
            options,
            sides,
            rules,
            splits,
            shaper: None,
            splitter: None,
            instance: None,
            signals: None,
            peer: None,
            store: None,
            plan: None,
            programs: None,
            live: None,
            watch: None,
            page: None,
            history: None,
        })
    }

    fn attach(&self) -> Result<EdgeSession> {
        let Edge { options, rules: Rules { policy, .. }, .. } = self;
        let programs = EdgeOptions {
            dry_run: options.dry_run,
            connections: options.connections,
            splits: self.splits,
            ..EdgeOptions::of(policy)
        };
        Ok(EdgeSession::start(self.sides.clone(), &programs, policy, policy.capacity(options.rates))?)
    }

    /// Has packets of split connections come to the relay, if there is one.
    fn deliver(&mut self) -> Result<()> {
        let (Some(shaper), Some(splitter)) = (&self.shaper, &self.splitter) else { return Ok(()) };
        shaper.deliver().context("cannot set the rule of routing for connections that are split")?;
        if let Some(programs) = &mut self.programs {
            programs.split_by(&self.rules.policy, splitter.ports())?;
        }
        Ok(())
    }

    /// Starts the threads.
    fn start(&mut self) -> Result<()> {
        let options = self.options;
        let sources = Sources {
            capture: self.live.take().map(Capture::start).transpose()?,
            signals: self.signals.take(),
            peer: self.peer.take(),
            probing: Probing::start(&options.probe)?.map(|probing| (probing, options.probe_budget)),
        };
        let between = [&*options.lan, &options.wan];
        self.watch = Some(Watch::new(between, options.dry_run, (&self.rules.policy, options.rates), sources));
        self.page = self.plan.take().map(Plan::start).transpose()?;
        self.history = self.store.take().map(Writer::start).transpose()?;
        Ok(())
    }
}

impl Life for Edge<'_> {
    type Step = Step;

    const END: &'static [Step] = &[
        // While the programs bring the relay what belongs to it, and before the shaper, to whose process
        // it has a socket, too.
        Step::Splitter,
        Step::Programs,
        // The page before the history: both have the file open, and the last to close it tidies it up.
        Step::Threads,
        Step::Files,
        Step::Shaper,
        // When another edge may begin, nothing of this one is left.
        Step::Instance,
    ];

    fn begin(&mut self, step: Step) -> Result<()> {
        let Edge { options, sides: [lan, wan], rules: Rules { policy, .. }, .. } = self;
        match step {
            Step::Shaper => {
                let wanted = policy.shape && !options.dry_run || self.splits;
                self.shaper = Some(Shaper::start([lan, wan], wanted)?);
            }
            Step::Splitter => self.splitter = self.splits.then(Splitter::start).transpose()?,
            Step::Instance => self.instance = Some(EdgeInstance::begin(lan, wan)?),
            Step::Remains => {
                Shaper::remove_left([lan, wan])?;
                Splitter::remove_left()?;
            }
            Step::Files => {
                self.signals = options.signals.as_deref().map(SignalSocket::open).transpose()?;
                let peer = options.peer.clone();
                self.peer = peer.map(|(address, key)| PeerSocket::open(address, key)).transpose()?;
                self.store = options.history.as_deref().map(|path| Store::open(path, SIZE)).transpose()?;
                self.plan = Some(Plan::new(options)?);
            }
            Step::Programs => self.programs = Some(self.attach()?),
            Step::Delivery => self.deliver()?,
            Step::Capture => {
                let live = Live::open(&options.lan);
                let told = |refused: &_| tracing::warn!("{refused}; what limits connections is not known");
                self.live = live.inspect_err(told).ok();
            }
            Step::Privileges => headway_privileges::drop_all_but_maps()?,
            Step::Threads => self.start()?,
        }
        Ok(())
    }

    fn end(&mut self, step: Step) {
        match step {
            Step::Splitter => self.splitter = None,
            Step::Programs => self.programs = None,
            Step::Threads => {
                (self.watch, self.page) = (None, None);
                self.history = None;
            }
            Step::Files => {
                (self.signals, self.peer, self.store) = (None, None, None);
                self.plan = None;
            }
            Step::Shaper => self.shaper = None,
            Step::Instance => self.instance = None,
            Step::Remains | Step::Delivery | Step::Capture | Step::Privileges => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headway_telemetry::qdisc::Queues;
    use headway_units::{Bytes, Rate};

    use super::*;
    use crate::edge::shaper::HANDLE;
    use crate::edge::splitter::DELIVERY;
    use crate::life::Living;
    use crate::life::testing::{after_each, enter_namespace, ip, told, wait};

    const NAME: &str = "edge::steps::tests::after_each_step_nothing_is_left_whether_it_ends_or_is_killed";

    fn options(folder: &Path) -> Options {
        Options {
            lan: "lan".to_owned(),
            wan: "wan".to_owned(),
            rates: Some([Rate::from_bps(10_000_000); 2]),
            policy: Some(folder.join("policy.toml")),
            dry_run: false,
            page: None,
            history: Some(folder.join("history")),
            signals: Some(folder.join("signals")),
            probe: Vec::new(),
            probe_budget: Bytes::new(50_000_000),
            peer: None,
            connections: 64,
        }
    }

    /// Returns how many programs see what arrives at an interface of this network namespace.
    fn programs(interface: &EdgeInterface) -> u32 {
        let (mut ids, mut count) = ([0; 64], 64);
        let (index, kind) = (interface.index as i32, libbpf_sys::BPF_TCX_INGRESS);
        let none = std::ptr::null_mut();
        // SAFETY: no more numbers are written than there is room for, and how many there are.
        let done =
            unsafe { libbpf_sys::bpf_prog_query(index, kind, 0, none, ids.as_mut_ptr(), &raw mut count) };
        assert_eq!(done, 0);
        count
    }

    /// What an edge has changed in this network namespace: whether there are programs, the rule of routing,
    /// and token buckets, and whether no other edge may begin.
    fn changed(sides: &[EdgeInterface; 2]) -> [bool; 4] {
        let mut queues = Queues::open().unwrap();
        let mut is_held =
            |side: &EdgeInterface| queues.root(side.index).unwrap().is_some_and(|root| root.handle == HANDLE);
        [
            programs(&sides[0]) > 0,
            ip("rule show").contains(&format!("lookup {}", DELIVERY.table)),
            is_held(&sides[0]) || is_held(&sides[1]),
            EdgeInstance::begin(&sides[0], &sides[1]).is_err(),
        ]
    }

    #[test]
    fn after_each_step_nothing_is_left_whether_it_ends_or_is_killed() {
        if let Some((steps, folder)) = told() {
            let options = options(&folder);
            let edge = Living::begin(Edge::new(&options).unwrap(), &BEGIN[..steps]).unwrap();
            edge.0.shaper.iter().for_each(|shaper| shaper.set_both(Rate::from_bps(10_000_000)));
            return wait();
        }
        if !enter_namespace() {
            return;
        }
        for name in ["lan", "wan"] {
            ip(&format!("link add {name} type veth peer name {name}-far"));
            ip(&format!("link set {name} up"));
        }
        let folder = tempfile::tempdir().unwrap();
        let policy = "shape = true\n[[class]]\nname = \"all\"\nshare = 1.0\nsplit = \"always\"\n";
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let sides = ["lan", "wan"].map(|name| EdgeInterface::find(name).unwrap());
        after_each(NAME, BEGIN.len(), folder.path(), |steps, ended| {
            let is_there = |step| ended.is_none() && BEGIN[..steps].contains(&step);
            let expected = [Step::Programs, Step::Delivery, Step::Shaper, Step::Instance].map(is_there);
            assert_eq!(changed(&sides), expected, "after {steps} steps; killed: {ended:?}");
        });
    }
}
