//! The file with the paths, and how to choose among them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use headway_input::toml_keys::Document;
use headway_net::{ConnectOptions, DEFAULT_PORT, Host, Token, Via};
use headway_select::{Settings, Strategy, Wishes};
use headway_telemetry::mptcp;
use headway_telemetry::preferred::NextHop;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration};
use serde::Deserialize;

use super::namespace::Namespace;

/// Most bytes of a file: 64 paths have some ten thousand.
const LARGEST: u64 = 1 << 20;
/// Most paths: each has a thread and a connection. The selector compares all with one.
pub(super) const MOST_PATHS: usize = 64;
/// The mark of the first path that is named by its next hop, and the number of its table; those of others
/// follow. Anybody else is unlikely to use it.
const MARKS: u32 = 0x4877_0000;
/// Most far ends of a path, which are tried one after the other.
const MOST_HOSTS: usize = 8;
/// Longest name of a path in bytes: it is in every line and in the environment of hooks.
const LONGEST_NAME: usize = 64;
/// Longest name of an interface in bytes (`IFNAMSIZ`).
const LONGEST_INTERFACE: usize = 15;
/// The shortest interval: within one, a far end that is away must have had the time to answer twice.
const SHORTEST_INTERVAL: Duration = Duration::from_ms(2_000);
/// The longest interval, after which nothing would be noticed within an hour.
const LONGEST_INTERVAL: Duration = Duration::from_ms(3_600_000);
/// The smallest transfer that anybody compares paths for.
const LEAST_TRANSFER: Bytes = Bytes::new(1_000);
/// The least quota of an interface in 30 days: less is used up by measuring.
const LEAST_QUOTA: Bytes = Bytes::new(100_000_000);
/// Least bytes an hour: opening a connection takes some 20 kB.
const LEAST_BYTES: Bytes = Bytes::new(500_000);

/// What a user says.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    strategy: Strategy,
    transfer: Option<Bytes>,
    latency_floor: Duration,
    tolerance: f64,
    pub(super) interval: Duration,
    max_bytes_per_hour: Bytes,
    max_bytes_per_month: Option<Bytes>,
    /// Whether what the far ends send counts, and not what is sent to them.
    pub(super) reverse: bool,
    token_file: Option<PathBuf>,
    /// Where is kept what was sent, so that budgets hold over restarts.
    pub(super) state_file: Option<PathBuf>,
    /// A program and its arguments, which are run when another path is chosen.
    pub(super) hook: Vec<String>,
    pub(super) hook_timeout: Duration,
    /// Whether packets without a more specific route take the chosen path.
    pub(super) route: bool,
    /// Whether connections without a more specific route are spread over all paths.
    pub(super) balance: bool,
    /// Whether paths are endpoints of Multipath TCP, whose connections use those that are worth it.
    pub(super) mptcp: bool,
    pub(super) path: Vec<PathEntry>,
}

impl Default for File {
    fn default() -> File {
        let Settings { strategy, latency_floor, tolerance, interval, .. } = Settings::default();
        File {
            strategy,
            transfer: None,
            latency_floor,
            tolerance,
            interval,
            max_bytes_per_hour: Settings::default().max_bytes_per_hour,
            max_bytes_per_month: None,
            reverse: false,
            token_file: None,
            state_file: None,
            hook: Vec::new(),
            hook_timeout: Duration::from_ms(10_000),
            route: false,
            balance: false,
            mptcp: false,
            path: Vec::new(),
        }
    }
}

/// A path among which is chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PathEntry {
    pub(super) name: String,
    /// Where `headway serve` runs, the first of which is asked that answers.
    hosts: Vec<String>,
    pub(super) source: Option<IpAddr>,
    pub(super) interface: Option<String>,
    mark: Option<u32>,
    pub(super) next_hop: Option<IpAddr>,
    pub(super) namespace: Option<Namespace>,
    /// Whether it is used first, until it is full.
    #[serde(default)]
    preferred: bool,
    /// The most that its interface may carry in 30 days.
    quota: Option<Bytes>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or has a mistake, of which line and key are named.
    pub fn read(path: &Path) -> Result<File> {
        let name = path.display();
        let text = headway_input::text(path, LARGEST);
        let text = text.map_err(|error| anyhow::anyhow!("cannot read {name}: {error}"))?;
        Ok(File::parse(&text, path)?)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Names line and key of what is unknown, missing or wrong.
    pub(super) fn parse(text: &str, path: &Path) -> Result<File, ConfigError> {
        let document = Document::parse(text, path)?;
        let file: File = document.read()?;
        file.check().map_err(|mistake| document.locate(mistake))?;
        Ok(file)
    }

    fn check(&self) -> Result<(), ConfigError> {
        check("tolerance", (0.0..=1.0).contains(&self.tolerance), "must be 0 to 1")?;
        let rule = format!("must be {SHORTEST_INTERVAL} to {LONGEST_INTERVAL}");
        check("interval", (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&self.interval), &rule)?;
        let is_right = self.transfer.is_none_or(|size| size >= LEAST_TRANSFER);
        check("transfer", is_right, &format!("must be {LEAST_TRANSFER} or more"))?;
        check("latency-floor", self.latency_floor > Duration::ZERO, "must be more than 0")?;
        let rule = format!("must be {LEAST_BYTES} or more");
        check("max-bytes-per-hour", self.max_bytes_per_hour >= LEAST_BYTES, &rule)?;
        let month = self.max_bytes_per_month.is_none_or(|month| month >= self.max_bytes_per_hour);
        check("max-bytes-per-month", month, "must be `max-bytes-per-hour` or more")?;
        let is_named = self.hook.first().is_none_or(|program| !program.is_empty());
        check("hook", is_named, "must begin with the name of a program")?;
        let range = Duration::from_ms(100)..=Duration::from_ms(300_000);
        check("hook-timeout", range.contains(&self.hook_timeout), "must be 100 ms to 300 s")?;
        self.check_paths()
    }

    fn check_paths(&self) -> Result<(), ConfigError> {
        let count = self.path.len();
        let sets_routes = self.route || self.balance;
        check("balance", !(self.route && self.balance), "cannot be beside `route = true`; leave one out")?;
        check("path", count > 0, "there must be one at least, as `[[path]]`")?;
        check("path", count <= MOST_PATHS, &format!("there are {count}, and at most {MOST_PATHS}"))?;
        let most = usize::from(mptcp::MOST);
        check("mptcp", !self.mptcp || count <= most, &format!("is for {most} paths at most"))?;
        for (index, path) in self.path.iter().enumerate() {
            path.check(&format!("path[{index}]"))?;
            let is_new = self.path[..index].iter().all(|other| other.name != path.name);
            check(&format!("path[{index}].name"), is_new, "another path has this name")?;
            let leads = path.next_hop.is_some() || path.interface.is_some();
            let rule = "`route` and `balance` need the `next-hop` of each path, or its `interface`";
            check(&format!("path[{index}]"), leads || !sets_routes, rule)?;
            let is_here = path.namespace.is_none();
            let rule = "`route` and `balance` set routes of this network namespace only";
            check(&format!("path[{index}].namespace"), is_here || !sets_routes, rule)?;
            let has_address = path.interface.is_some() || path.source.is_some();
            let rule = "`mptcp` needs the `interface` or the `source` of each path";
            check(&format!("path[{index}]"), has_address && is_here || !self.mptcp, rule)?;
            let is_spread = self.balance && path.wishes() != Wishes::default();
            let rule = "`preferred` and `quota` are about the chosen path, and `balance` spreads over all; leave one out";
            check(&format!("path[{index}]"), !is_spread, rule)?;
            let is_alike = path.is_v4() == self.path[0].is_v4();
            let rule = "is of another version of IP than that of the first path";
            check(&format!("path[{index}].next-hop"), is_alike || !sets_routes, rule)?;
        }
        Ok(())
    }

    /// Returns the names of the paths, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.path.iter().map(|path| path.name.as_str())
    }

    /// Returns what the selector gets.
    pub fn settings(&self) -> Settings {
        Settings {
            strategy: self.strategy,
            transfer: self.transfer,
            latency_floor: self.latency_floor,
            tolerance: self.tolerance,
            interval: self.interval,
            max_bytes_per_hour: self.max_bytes_per_hour,
            max_bytes_per_month: self.max_bytes_per_month,
            ..Settings::default()
        }
    }

    /// Whether packets take some path only by a rule of routing that it sets.
    pub(super) fn sets_rules(&self) -> bool {
        self.path.iter().enumerate().any(|(number, path)| path.next_hop_mark(number).is_some())
    }

    /// Whether it sets what one process at a time may set, besides rules.
    pub(super) fn sets_routes(&self) -> bool {
        self.route || self.balance || self.mptcp
    }

    /// Returns the file with the token of the far ends, if it is in one.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// Returns how to connect to the far ends of each path, which know this token.
    pub(super) fn connections(&self, token: Option<&Token>) -> Vec<Vec<ConnectOptions>> {
        let of_path = |(number, path): (usize, &PathEntry)| {
            let hosts = path.hosts.iter().filter_map(|host| host.parse::<Host>().ok());
            let options = hosts.map(|host| ConnectOptions {
                port: host.port.unwrap_or(DEFAULT_PORT),
                token: token.cloned(),
                via: path.via(number),
                ..ConnectOptions::new(host.name)
            });
            options.collect()
        };
        self.path.iter().enumerate().map(of_path).collect()
    }
}

impl PathEntry {
    fn check(&self, key: &str) -> Result<(), ConfigError> {
        let is_name = (1..=LONGEST_NAME).contains(&self.name.len()) && !self.name.contains(char::is_control);
        let rule = format!("must have 1 to {LONGEST_NAME} bytes, and no control characters");
        check(&format!("{key}.name"), is_name, &rule)?;
        let rule = format!("must name 1 to {MOST_HOSTS} hosts");
        check(&format!("{key}.hosts"), (1..=MOST_HOSTS).contains(&self.hosts.len()), &rule)?;
        for host in &self.hosts {
            let mistake = |why: String| ConfigError::new(&format!("{key}.hosts"), &why);
            host.parse::<Host>().map_err(mistake)?;
        }
        let is_interface = |name: &String| {
            (1..=LONGEST_INTERFACE).contains(&name.len())
                && !name.contains(['/', '\0'])
                && !name.contains(' ')
        };
        let is_right = self.interface.as_ref().is_none_or(is_interface);
        check(&format!("{key}.interface"), is_right, "is no name of an interface")?;
        let is_right = self.quota.is_none_or(|quota| quota >= LEAST_QUOTA && self.interface.is_some());
        let rule =
            format!("must be {LEAST_QUOTA} or more, and needs the `interface` whose bytes are counted");
        check(&format!("{key}.quota"), is_right, &rule)?;
        check(&format!("{key}.mark"), self.mark != Some(0), "must be more than 0: packets have 0 anyway")?;
        let is_name = self.namespace.as_ref().is_none_or(Namespace::is_valid);
        check(
            &format!("{key}.namespace"),
            is_name,
            "is no name of a network namespace, as `ip netns` lists them",
        )
    }

    /// Returns what the user wishes of it.
    pub(super) const fn wishes(&self) -> Wishes {
        Wishes { preferred: self.preferred, quota: self.quota }
    }

    /// Returns the mark of packets that only their next hop tells from those of other paths; `number`
    /// is that of the path.
    pub(super) fn next_hop_mark(&self, number: usize) -> Option<u32> {
        let is_told_otherwise = self.interface.is_some()
            || self.source.is_some()
            || self.mark.is_some()
            || self.namespace.is_some();
        (self.next_hop.is_some() && !is_told_otherwise).then_some(MARKS + number as u32)
    }

    /// Whether its next hop is one of IPv4; an interface without one leads to hosts of IPv4.
    fn is_v4(&self) -> bool {
        self.next_hop.is_none_or(|hop| hop.is_ipv4())
    }

    /// Returns how packets take it; `number` is that of the path.
    pub(super) fn via(&self, number: usize) -> Via {
        let mark = self.mark.or_else(|| self.next_hop_mark(number));
        Via { source: self.source, interface: self.interface.clone(), mark }
    }

    /// Returns where routes over it lead.
    ///
    /// # Errors
    /// When its interface is gone.
    pub(super) fn hop(&self) -> std::io::Result<NextHop> {
        let number = |name: &String| nix::net::if_::if_nametoindex(name.as_str());
        Ok(NextHop { gateway: self.next_hop, interface: self.interface.as_ref().map(number).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[path]]\nname = \"cable\"\nhosts = [\"192.0.2.7\"]\ninterface = \"eth0\"\n\
                       [[path]]\nname = \"lte\"\nhosts = [\"[2001:db8::7]:5000\", \"a.example\"]\nmark = 7\n";

    fn parse(text: &str) -> Result<File, ConfigError> {
        File::parse(text, Path::new("paths.toml"))
    }

    #[test]
    fn paths_have_their_ends_and_the_rest_is_as_usual() {
        let file = parse(TWO).unwrap();
        assert_eq!(file.settings(), Settings::default());
        let connections = file.connections(None);
        assert_eq!((connections[1][0].port, connections[1][1].port), (5000, DEFAULT_PORT));
        assert_eq!(connections[0][0].via.interface.as_deref(), Some("eth0"));
        assert_eq!(connections[1][1].via.mark, Some(7));
        let file = parse(&TWO.replace("mark = 7", "next-hop = \"2001:db8::1\"")).unwrap();
        assert_eq!(file.connections(None)[1][0].via.mark, Some(MARKS + 1), "a next hop alone has a rule");
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_key() {
        for (text, line, words) in [
            ("tolerance = 2.0\n".to_owned() + TWO, 1, "`tolerance`"),
            ("interval = \"1 s\"\n".to_owned() + TWO, 1, "must be 2"),
            ("strategie = \"latency\"\n".to_owned() + TWO, 1, "did you mean `strategy`"),
            ("hook = [\"\"]\n".to_owned() + TWO, 1, "`hook`"),
            ("route = true\n".to_owned() + TWO, 6, "`next-hop` of each path"),
            ("balance = true\n".to_owned() + TWO, 6, "`next-hop` of each path"),
            ("mptcp = true\n".to_owned() + TWO, 6, "`interface` or the `source`"),
            ("route = true\nbalance = true\n".to_owned() + TWO, 2, "leave one out"),
            (TWO.replace("\"lte\"", "\"cable\""), 6, "another path has this name"),
            (TWO.replace("192.0.2.7", "192.0.2.7:0"), 3, "is not a port"),
            (TWO.replace("eth0", "a/b"), 4, "`path[0].interface`"),
            (TWO.replace("mark = 7", "mark = 0"), 8, "`path[1].mark`"),
            ("transfer = \"10 B\"\n".to_owned() + TWO, 1, "`transfer`"),
            (
                format!("balance = true\n{TWO}next-hop = \"2001:db8::1\"\npreferred = true")
                    .replace("eth0\"", "eth0\"\nnext-hop = \"2001:db8::2\""),
                7,
                "leave one out",
            ),
            (TWO.replace("mark = 7", "quota = \"50 GB\""), 8, "needs the `interface`"),
            (TWO.replace("eth0\"", "eth0\"\nquota = \"1 MB\""), 5, "must be 100.00 MB or more"),
            (TWO.replace("mark", "mrak"), 8, "did you mean `mark`"),
            (TWO.replace("mark = 7", "namespace = \"../a\""), 8, "`path[1].namespace`"),
            (
                format!("balance = true\n{TWO}next-hop = \"192.0.2.1\"\nnamespace = \"a\""),
                11,
                "of this network namespace",
            ),
        ] {
            let said = parse(&text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("paths.toml, line {line}")) && said.contains(words), "{said}");
        }
        assert!(parse("").unwrap_err().to_string().contains("there must be one at least"));
    }

    #[test]
    fn no_mutated_file_makes_it_panic() {
        let whole = format!("strategy = \"latency\"\nhook = [\"a\"]\ntolerance = 0.5\n{TWO}");
        let mut state: u64 = 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..1_000 {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = random(128) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\"[]={}.0-\n"[random(10)]),
                }
            }
            if let Ok(file) = parse(&String::from_utf8_lossy(&bytes)) {
                file.connections(None);
            }
        }
    }
}
