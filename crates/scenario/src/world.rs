//! The worlds in which a scenario can run, and what each of them has: the one table from which refusals come,
//! and the last column of `docs/scenario-keys.md`.

use std::str::FromStr;

use headway_traffic::channel::EcnField;
use headway_units::{Bytes, ConfigError, Duration};

use crate::model::{EcnMode, FlowSpec, LinkSpec, Scenario, Wire};

/// A world in which a scenario can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum World {
    /// The simulator.
    Sim,
    /// The TCP stack of Linux in virtual time.
    Uml,
    /// This host's TCP over an emulated path, in real time.
    Lab,
}

impl World {
    /// All worlds.
    pub const ALL: [World; 3] = [World::Sim, World::Uml, World::Lab];

    /// Returns the name on the command line and in results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    const fn place(self) -> &'static str {
        match self {
            World::Sim => "the simulator",
            World::Uml => "`--on uml`",
            World::Lab => "the lab",
        }
    }

    /// Rejects what this world does not have; `of` is the table in the file.
    fn check<T>(self, of: &str, rows: &[Row<T>], used: &T) -> Result<(), ConfigError> {
        rows.iter().filter(|row| !row.is_in(self)).try_for_each(|row| match (row.used)(used) {
            None => Ok(()),
            Some(key) => Err(ConfigError::new(&format!("{of}{key}"), &row.refusal(self))),
        })
    }
}

/// The error of a text that names no world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `sim`, `uml` or `lab`")]
pub struct UnknownWorld(String);

impl FromStr for World {
    type Err = UnknownWorld;

    fn from_str(text: &str) -> Result<World, UnknownWorld> {
        let world = World::ALL.into_iter().find(|world| world.name().eq_ignore_ascii_case(text.trim()));
        world.ok_or_else(|| UnknownWorld(text.to_owned()))
    }
}

impl Scenario {
    /// Rejects what a world does not have. What it has in part is left to that world, but for
    /// the ranges of a lab.
    ///
    /// # Errors
    /// Names the key, and the worlds that have it.
    pub fn check_world(&self, world: World) -> Result<(), ConfigError> {
        world.check("", WHOLE, self)?;
        for (index, link) in self.link.iter().enumerate() {
            let of = format!("link[{index}].");
            world.check(&of, LINK_OF_PATHS, link)?;
            world.check(&of, LINK, link)?;
        }
        let mut flows = self.flow.iter().enumerate();
        flows.try_for_each(|(index, flow)| world.check(&format!("flow[{index}]."), FLOW, flow))?;
        if world == World::Lab { self.check_lab() } else { Ok(()) }
    }
}

impl LinkSpec {
    /// Rejects keys that do nothing on a path of a `[[select]]`; `index` is the link's place in the file.
    pub(crate) fn check_path(&self, index: usize) -> Result<(), ConfigError> {
        let refused = |link: &LinkSpec| LINK.iter().find_map(|row| (row.used)(link)).map(str::to_owned);
        let of_reverse = || Some(format!("reverse.{}", refused(&self.reversed()?)?));
        refused(self).or_else(of_reverse).map_or(Ok(()), |key| {
            let rule = format!("cannot be on a path of a [[select]]; a link there has {}", keys_of_paths());
            Err(ConfigError::new(&format!("link[{index}].{key}"), &rule))
        })
    }

    /// Returns the link with the wire of its `reverse` direction, if it is given.
    fn reversed(&self) -> Option<LinkSpec> {
        let Wire { delay_trace, loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering } =
            self.reverse.clone()?;
        let link = self.clone();
        Some(LinkSpec { delay_trace, loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering, ..link })
    }
}

/// Returns the keys of links that paths of a `[[select]]` have, as the documentation writes them.
pub(crate) fn keys_of_paths() -> String {
    let rows: Vec<&str> = LINK_OF_PATHS.iter().map(|row| row.keys).collect();
    rows.join(", ")
}

/// Full packets of everybody on paths of a `[[select]]` are as large.
const MTU: u32 = 1500;

/// Rejects a scenario with keys that mean nothing to its `[[select]]`.
pub(crate) fn check_whole(scenario: &Scenario) -> Result<(), ConfigError> {
    let Scenario {
        name: _,
        seed: _,
        duration: _,
        warmup,
        interval: _,
        mtu,
        nodes: _,
        link: _,
        // These four are refused by the `[[select]]` itself.
        flow: _,
        traffic: _,
        measure: _,
        program: _,
        select: _,
        change,
        middlebox,
        host,
        delays,
        header_protocol,
        header_port,
        header_option,
        warnings: _,
        text: _,
        path: _,
        folder: _,
        files: _,
    } = scenario;
    let key = first(&[
        ("warmup", *warmup > Duration::ZERO),
        ("mtu", *mtu != MTU),
        ("change[0]", !change.is_empty()),
        ("middlebox[0]", !middlebox.is_empty()),
        ("host", !host.is_empty()),
        ("delays", *delays),
        ("header-protocol", *header_protocol != headway_queue::explicit::PROTOCOL),
        ("header-port", header_port.is_some()),
        ("header-option", *header_option != headway_queue::explicit::OPTION_KIND),
    ]);
    key.map_or(Ok(()), |key| Err(ConfigError::new(key, "cannot be combined with [[select]]")))
}

/// Keys, and which worlds have them.
struct Row<T> {
    /// The keys, as the documentation writes them.
    #[cfg_attr(not(test), allow(dead_code, reason = "a test compares it with the documentation"))]
    keys: &'static str,
    /// What the simulator, the lab and the kernel's world have; a text that begins with "no" means that the
    /// world refuses the keys, and what follows "no: " is what to do there.
    has: [&'static str; 3],
    /// Returns the first of the keys that is in use.
    used: fn(&T) -> Option<&'static str>,
}

impl<T> Row<T> {
    fn has(&self, world: World) -> &'static str {
        let [sim, lab, uml] = self.has;
        match world {
            World::Sim => sim,
            World::Lab => lab,
            World::Uml => uml,
        }
    }

    fn is_in(&self, world: World) -> bool {
        !self.has(world).starts_with("no")
    }

    fn refusal(&self, world: World) -> String {
        let others = World::ALL.into_iter().filter(|other| self.is_in(*other));
        let others: Vec<String> = others.map(|other| format!("`--on {other}`")).collect();
        let verb = if others.len() == 1 { "has" } else { "have" };
        let instead = self.has(world).strip_prefix("no: ").map_or(String::new(), |hint| format!("; {hint}"));
        format!("is not in {}; {} {verb} it{instead}", world.place(), others.join(" and "))
    }
}

/// Returns the first key of which the second part is true.
fn first(keys: &[(&'static str, bool)]) -> Option<&'static str> {
    keys.iter().find(|(_, used)| *used).map(|(key, _)| *key)
}

/// Makes the lines of a table: keys, what the simulator, the lab and the kernel's world have, and when which
/// of the keys is in use.
macro_rules! rows {
    ($type:ty, $of:ident; $($keys:literal, $has:expr $(, $key:literal if $used:expr)*;)+) => {
        &[$(Row::<$type> {
            keys: $keys,
            has: $has,
            used: |$of| {
                let _ = $of;
                first(&[$(($key, $used)),*])
            },
        }),+]
    };
}

/// Keys of links that paths of a `[[select]]` have, too.
const LINK_OF_PATHS: &[Row<LinkSpec>] = rows! { LinkSpec, link;
    "`rate`, `delay`, `buffer`, `loss`, `duplex`", ["yes", "yes", "yes"];
    "`burst`, `peak-rate`", ["yes", "yes", "yes, not before an explicit router"];
    "`rates`, `reverse`", ["yes", "yes", "no"],
        "rates" if link.rates.is_some(),
        "reverse" if link.reverse.is_some();
    "`jitter`, `reordering`", ["yes", "yes", "uniform jitter"];
    "`queue`", ["yes", "yes", "[some](uml.md#what-the-kernels-world-has)"];
};

/// Keys of links that paths of a `[[select]]` do not have.
const LINK: &[Row<LinkSpec>] = rows! { LinkSpec, link;
    "`redrawn`, `trace`, `outages`, `loss-bursts`, `delay-trace`, `police`, `duplicate`, `corrupt`, `ecn`",
        ["yes", "yes", "no"],
        "redrawn" if link.redrawn.is_some(),
        "trace" if link.trace.is_some(),
        "outages" if link.outages.is_some(),
        "loss-bursts" if link.loss_bursts.is_some(),
        "delay-trace" if link.delay_trace.is_some(),
        "police" if link.police.is_some(),
        "duplicate" if link.duplicate > 0.0,
        "corrupt" if link.corrupt > 0.0,
        "ecn" if link.ecn != EcnField::Keep;
    "`kernel-queue`", ["no", "no", "yes"], "kernel-queue" if link.kernel_queue.is_some();
    "`ack-filter`", ["yes", "no", "no: `kernel-queue = \"cake unlimited ack-filter\"` does it there"],
        "ack-filter" if link.ack_filter;
    "`line`", ["no", "yes", "no"], "line" if link.line.is_some();
    "`spray`", ["yes", "no", "no"], "spray" if link.spray;
    "`wifi`", ["yes", "no", "no"], "wifi" if link.wifi.is_some();
};

const FLOW: &[Row<FlowSpec>] = rows! { FlowSpec, flow;
    "`mtu`, `arrivals`, `ecn = \"ect1\"`, `ack-every` above 2", ["yes", "no", "no"],
        "mtu" if flow.mtu.is_some(),
        "arrivals" if flow.arrivals.is_some(),
        "ecn" if flow.ecn == EcnMode::Ect1,
        "ack-every" if flow.ack_every > 2;
    "`sack`, `rack`", ["no", "no", "yes"], "sack" if !flow.sack, "rack" if !flow.rack;
    "`hystart`", ["yes", "no", "yes"], "hystart" if !flow.hystart;
    "`prr`", ["yes", "no", "no"], "prr" if !flow.prr;
    "`model`", ["yes", "no", "no"], "model" if flow.model.is_some();
    "`chunk`, `pause`", ["yes", "yes", "no"], "chunk" if flow.chunk.is_some();
    "`pacing`", ["yes", "with `gaps = \"byte-clock\"`", "yes"];
    "`application-rate`, `read-rate`, `initial-window`, `ack-timeout`, a `receive-buffer` below 64 MB",
        ["yes", "no", "yes"],
        "application-rate" if flow.application_rate.is_some(),
        "read-rate" if flow.read_rate.is_some(),
        "initial-window" if flow.initial_window != 10,
        "ack-timeout" if flow.ack_timeout != Duration::from_ms(40),
        "receive-buffer" if flow.receive_buffer < Bytes::new(64_000_000);
};

const WHOLE: &[Row<Scenario>] = rows! { Scenario, scenario;
    "`[[traffic]]`", ["all models", "all models, over one link with a rate", "all models"];
    "`[[measure]]`", ["yes", "no: `headway measure` measures there", "no"],
        "measure[0]" if !scenario.measure.is_empty();
    "`[[select]]`", ["yes, without other flows and traffic", "the same, as root", "no"],
        "select[0]" if !scenario.select.is_empty();
    "`[[program]]`", ["no", "yes", "yes"], "program[0]" if !scenario.program.is_empty();
    "`[[change]]`", ["yes", "yes", "no"], "change[0]" if !scenario.change.is_empty();
    "`[[middlebox]]`",
        ["yes", "at a router with one link to the hosts", "at a router with one link to the hosts"];
    "`[[middlebox]]`: `peer`", ["yes", "no", "no"],
        "middlebox[0].peer" if scenario.middlebox.iter().any(|middlebox| middlebox.peer.is_some());
    "`[[middlebox]]`: a `policy` with `literal` or `follow-available`", ["yes", "no", "no"],
        "middlebox[0].policy" if scenario.middlebox.iter().any(|middlebox| {
            let policy = middlebox.policy(scenario);
            policy.literal || policy.follow_available
        });
    "`[host.NODE]`", ["yes", "where the NIC holds up all that arrives", "kind `fixed`"];
};

/// Returns all lines, each with the table that its keys are of, the keys, and what the simulator, the lab and
/// the kernel's world have; an empty table where the keys name it.
#[cfg(test)]
pub(crate) fn documented() -> Vec<(&'static str, &'static str, [&'static str; 3])> {
    let link = LINK_OF_PATHS.iter().chain(LINK).map(|row| ("`[[link]]`", row.keys, row.has));
    let flow = FLOW.iter().map(|row| ("`[[flow]]`", row.keys, row.has));
    link.chain(flow).chain(WHOLE.iter().map(|row| ("", row.keys, row.has))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_in_the_same_world() {
        let text = "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mb/s\"\nack-filter = true\n\
                    [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";
        let scenario = Scenario::parse(text, std::path::Path::new("x.toml"), &[]).expect("a scenario");
        let error = scenario.check_world(World::Uml).expect_err("not in the kernel").to_string();
        assert!(
            error
                .ends_with("`--on sim` has it; `kernel-queue = \"cake unlimited ack-filter\"` does it there"),
            "{error}"
        );
    }

    #[test]
    fn every_refusal_names_a_world_that_has_the_keys() {
        let somewhere = |is_in: &dyn Fn(World) -> bool| World::ALL.into_iter().any(is_in);
        assert!(LINK_OF_PATHS.iter().chain(LINK).all(|row| somewhere(&|world| row.is_in(world))));
        assert!(FLOW.iter().all(|row| somewhere(&|world| row.is_in(world))));
        assert!(WHOLE.iter().all(|row| somewhere(&|world| row.is_in(world))));
        assert_eq!(LINK[0].refusal(World::Uml), "is not in `--on uml`; `--on sim` and `--on lab` have it");
    }
}
