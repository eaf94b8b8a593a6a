//! The steps in which a choice begins and ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Result, bail};
use headway_select::Settings;

use super::Options;
use super::driver::Driver;
use super::file::File;
use super::hook::Hook;
use super::keeper::Keeper;
use super::ledger::{Ledger, Now};
use super::lock::Lock;
use super::mptcp::Endpoints;
use super::opener::Opener;
use super::route::{Router, Rules};
use super::socket::{SOCKET, Socket};
use super::state::since_1970;
use super::viewers::{Doors, Viewers};
use crate::life::Life;

/// A step in which a choice begins. Those that start processes come before those that start threads, and the
/// processes have what this one has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The lock of those who set routes and rules, and the rules that the file needs. Before
    /// anything is changed.
    Rules,
    /// The sockets that serve the state.
    Sockets,
    /// The file with what was sent before, and the process that writes it and removes the sockets.
    Keeper,
    /// The process that opens the sockets of paths.
    Opener,
    /// The process that runs hooks.
    Hook,
    /// The process that sets routes.
    Router,
    /// The process that sets endpoints of Multipath TCP.
    Endpoints,
    /// All rights, which are given up: from now on this process reads what far ends send.
    Privileges,
    /// The threads that ask paths.
    Driver,
    /// The thread that answers programs.
    Viewers,
}

/// The steps of a choice that goes on.
pub(super) const ALL: [Step; 10] = [
    Step::Rules,
    Step::Sockets,
    Step::Keeper,
    Step::Opener,
    Step::Hook,
    Step::Router,
    Step::Endpoints,
    Step::Privileges,
    Step::Driver,
    Step::Viewers,
];
/// The steps of one that measures all paths once.
pub(super) const ONCE: [Step; 4] = [Step::Rules, Step::Opener, Step::Privileges, Step::Driver];

/// A choice, as far as it has begun.
pub(super) struct Parts<'a> {
    file: &'a File,
    options: &'a Options,
    settings: Settings,
    /// Whether it sets routes and runs hooks.
    acts: bool,
    lock: Option<Lock>,
    pub(super) rules: Option<Rules<'a>>,
    pub(super) status: Option<Socket>,
    doors: Option<Doors>,
    pub(super) ledger: Option<Ledger>,
    /// Why what was sent before does not count, if so.
    pub(super) ignored: Option<String>,
    pub(super) keeper: Option<Keeper>,
    opener: Option<Arc<Opener>>,
    pub(super) hook: Option<Hook>,
    pub(super) router: Option<Router>,
    pub(super) endpoints: Option<Endpoints>,
    pub(super) driver: Option<Driver>,
    pub(super) viewers: Option<Viewers>,
}

impl<'a> Parts<'a> {
    /// Nothing yet. Only one that `acts` sets routes and runs hooks.
    pub(super) fn new(file: &'a File, options: &'a Options, settings: Settings, acts: bool) -> Parts<'a> {
        Parts {
            file,
            options,
            settings,
            acts,
            lock: None,
            rules: None,
            status: None,
            doors: None,
            ledger: None,
            ignored: None,
            keeper: None,
            opener: None,
            hook: None,
            router: None,
            endpoints: None,
            driver: None,
            viewers: None,
        }
    }

    /// Sets the rules that the file needs, as the only process that sets any in this network namespace, if it
    /// sets some. What changes nothing else may use those of another process.
    fn begin_rules(&mut self) -> Result<()> {
        let file = self.file;
        let sets_routes = self.acts && file.sets_routes();
        if !file.sets_rules() && !sets_routes {
            return Ok(());
        }
        match Lock::take()? {
            Ok(lock) => {
                self.lock = Some(lock);
                self.rules = file.sets_rules().then(|| Rules::start(&file.path)).transpose()?;
            }
            Err(holder) if !self.acts => self.rules = Some(Rules::borrow(&file.path, &holder)?),
            Err(holder) => bail!(
                "{holder} chooses already and sets the routes of this host; end it first, or look at it with `headway select status`"
            ),
        }
        Ok(())
    }

    fn begin_sockets(&mut self) -> Result<()> {
        let usual = nix::unistd::geteuid().is_root().then(|| SOCKET.as_ref());
        self.status = match (self.options.socket.as_deref(), usual) {
            // One that goes on beside this has it.
            (None, Some(usual)) if !self.acts => Socket::open(usual, "--socket").ok(),
            (named, usual) => named.or(usual).map(|path| Socket::open(path, "--socket")).transpose()?,
        };
        self.doors = Some(Doors::open(self.options)?);
        Ok(())
    }

    fn begin_keeper(&mut self) -> Result<()> {
        let state = self.file.state_file.as_deref();
        let (ledger, ignored) = state.map(Ledger::open).unzip();
        (self.ledger, self.ignored) = (ledger, ignored.flatten());
        let of_doors = self.doors.as_ref().and_then(Doors::path);
        let sockets = self.status.iter().map(Socket::path).chain(of_doors);
        let sockets: Vec<PathBuf> = sockets.map(Path::to_owned).collect();
        // What goes on beside this may keep the file.
        self.keeper = Some(Keeper::start(state.filter(|_| self.acts), &sockets)?);
        Ok(())
    }

    fn begin_driver(&mut self) -> Result<()> {
        let Some(opener) = &self.opener else { return Ok(()) };
        let connections = self.file.connections(self.options.token.as_ref());
        let mut driver = Driver::start(self.file, self.settings, opener, connections)?;
        if let Some(ledger) = &self.ledger {
            let now = Now { here: driver.now(), wall: since_1970(SystemTime::now()) };
            driver.restore(|name| ledger.spending(name, now));
        }
        self.ledger = self.ledger.take().filter(|_| self.acts);
        self.driver = Some(driver);
        Ok(())
    }

    fn begin_viewers(&mut self) -> Result<()> {
        if let (Some(doors), Some(driver)) = (self.doors.take(), &mut self.driver) {
            self.viewers = Some(Viewers::start(doors, &driver.state())?);
        }
        Ok(())
    }
}

impl Life for Parts<'_> {
    type Step = Step;

    const END: &'static [Step] = &[
        // At once, so that the default route holds again.
        Step::Router,
        Step::Endpoints,
        Step::Driver,
        Step::Opener,
        Step::Hook,
        Step::Viewers,
        Step::Sockets,
        // After all that uses its sockets.
        Step::Keeper,
        // When another choice may begin, nothing of this one is left.
        Step::Rules,
    ];

    fn begin(&mut self, step: Step) -> Result<()> {
        let Parts { file, acts, .. } = *self;
        match step {
            Step::Rules => self.begin_rules()?,
            Step::Sockets => self.begin_sockets()?,
            Step::Keeper => self.begin_keeper()?,
            Step::Opener => self.opener = Some(Opener::start(&file.path)?),
            Step::Hook => {
                let (limit, retry) = (file.hook_timeout.to_std(), file.interval.to_std());
                let wanted = acts && !file.hook.is_empty();
                self.hook = wanted.then(|| Hook::start(&file.hook, limit, retry)).transpose()?;
            }
            Step::Router => {
                let wanted = acts && (file.route || file.balance);
                self.router = wanted.then(|| Router::start(&file.path, file.balance)).transpose()?;
            }
            Step::Endpoints => {
                let wanted = acts && file.mptcp;
                self.endpoints = wanted.then(|| Endpoints::start(&file.path)).transpose()?;
            }
            Step::Privileges => headway_privileges::drop_all_but_talk()?,
            Step::Driver => self.begin_driver()?,
            Step::Viewers => self.begin_viewers()?,
        }
        Ok(())
    }

    fn end(&mut self, step: Step) {
        match step {
            Step::Rules => {
                self.rules = None;
                self.lock = None;
            }
            Step::Sockets => (self.status, self.doors) = (None, None),
            Step::Keeper => self.keeper = None,
            Step::Opener => self.opener = None,
            Step::Hook => self.hook = None,
            Step::Router => self.router = None,
            Step::Endpoints => self.endpoints = None,
            Step::Driver => self.driver = None,
            Step::Viewers => self.viewers = None,
            Step::Privileges => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Living;
    use crate::life::testing::{after_each, enter_namespace, ip, told, wait};

    const NAME: &str = "select::steps::tests::after_each_step_nothing_is_left_whether_it_ends_or_is_killed";

    /// One path needs a rule, and the other one has its interface.
    fn file(folder: &Path) -> File {
        let state = folder.join("sent");
        let text = format!(
            "route = true\nhook = [\"/bin/true\"]\nstate-file = {state:?}\n\
             [[path]]\nname = \"one\"\nhosts = [\"192.0.2.7\"]\nnext-hop = \"10.9.1.2\"\n\
             [[path]]\nname = \"two\"\nhosts = [\"192.0.2.7\"]\ninterface = \"two\"\n"
        );
        File::parse(&text, Path::new("paths.toml")).unwrap()
    }

    /// What a choice has changed in this network namespace: whether there are rules and routes, and a socket,
    /// and whether no other one may set routes.
    fn changed(folder: &Path) -> [bool; 4] {
        [
            ip("rule show").contains("0x48770000"),
            !ip("route show proto 126").is_empty(),
            folder.join("state").exists(),
            Lock::take().unwrap().is_err(),
        ]
    }

    #[test]
    fn after_each_step_nothing_is_left_whether_it_ends_or_is_killed() {
        if let Some((steps, folder)) = told() {
            let options = Options { socket: Some(folder.join("state")), ..Options::default() };
            let file = file(&folder);
            let parts = Parts::new(&file, &options, file.settings(), true);
            let parts = Living::begin(parts, &ALL[..steps]).unwrap();
            parts.0.router.iter().for_each(|router| router.take(&[1, 0]).unwrap());
            return wait();
        }
        if !enter_namespace() {
            return;
        }
        for name in ["one", "two"] {
            ip(&format!("link add {name} type veth peer name {name}-far"));
            ip(&format!("link set {name}-far up"));
            ip(&format!("link set {name} up"));
        }
        ip("address add 10.9.1.1/24 dev one");
        let folder = tempfile::tempdir().unwrap();
        after_each(NAME, ALL.len(), folder.path(), |steps, ended| {
            let has_begun = |step| ALL[..steps].contains(&step);
            let is_there = |step| ended.is_none() && has_begun(step);
            let mut expected = [Step::Rules, Step::Router, Step::Sockets, Step::Rules].map(is_there);
            // One that was killed leaves its socket, which the next one replaces.
            expected[2] |= ended == Some(true) && has_begun(Step::Sockets);
            assert_eq!(changed(folder.path()), expected, "after {steps} steps; killed: {ended:?}");
        });
    }
}
