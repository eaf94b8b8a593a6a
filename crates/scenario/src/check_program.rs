//! Validates the programs of a scenario before a run.

use std::collections::HashSet;

use headway_control::Kind;
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration};

use crate::model::{ProgramSpec, Scenario};
use crate::route::Topology;

/// Each program is a process with its own memory.
const MAX_PROGRAMS: usize = 64;
/// Every node gets a route to every other node.
const MAX_NODES: usize = 256;
/// Longest label of a host name (RFC 1035).
const MAX_NAME_LENGTH: usize = 63;

/// Checks all programs, and that nodes can serve as their hosts.
pub(crate) fn check_programs(topology: &Topology, scenario: &Scenario) -> Result<(), ConfigError> {
    if scenario.program.is_empty() {
        return Ok(());
    }
    check("program", scenario.program.len() <= MAX_PROGRAMS, "there must be at most 64 programs")?;
    let few = topology.node_count() <= MAX_NODES;
    check("program", few, "networks with programs have at most 256 nodes")?;
    check_names(scenario)?;
    for (index, program) in scenario.program.iter().enumerate() {
        check_program(topology, scenario, &format!("program[{index}]"), program)?;
        let other = scenario.program[..index].iter().position(|other| {
            other.at == program.at
                && other.controller.is_some()
                && program.controller.is_some()
                && other.controller != program.controller
        });
        let rule = format!(
            "differs from that of `program[{}]` at the same node, which has one for all programs",
            other.unwrap_or_default()
        );
        check(&format!("program[{index}].controller"), other.is_none(), &rule)?;
    }
    Ok(())
}

/// Programs address nodes by name, so the names must be valid host names.
fn check_names(scenario: &Scenario) -> Result<(), ConfigError> {
    let ends = scenario.link.iter().flat_map(|link| [&link.from, &link.to]);
    let names: HashSet<&String> = scenario.nodes.iter().chain(ends).collect();
    let mut names: Vec<&String> = names.into_iter().collect();
    names.sort();
    let mut known = HashSet::new();
    for name in names {
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let right = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.len() <= MAX_NAME_LENGTH
            && name.bytes().all(usual)
            && !name.eq_ignore_ascii_case("localhost");
        let rule = format!(
            "`{name}` cannot be the name of a host, which programs need: a letter, \
             then letters, digits, _ . and -, at most 63 in all, and not `localhost`"
        );
        check("nodes", right, &rule)?;
        let rule = format!("`{name}` differs from another node only in case");
        check("nodes", known.insert(name.to_ascii_lowercase()), &rule)?;
    }
    Ok(())
}

fn check_program(
    topology: &Topology,
    scenario: &Scenario,
    table: &str,
    program: &ProgramSpec,
) -> Result<(), ConfigError> {
    let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
    check("at", topology.has(&program.at), &format!("`{}` is not one of the nodes", program.at))?;
    check("command", !program.command.trim().is_empty(), "must not be empty")?;
    check("command", !program.command.contains('\0'), "must not contain a NUL character")?;
    check("start", program.start >= Duration::ZERO, "must not be negative")?;
    check("start", program.start < scenario.duration, "must be earlier than the end of the run")?;
    check("stop", program.stop.is_none_or(|stop| stop > program.start), "must be later than `start`")?;
    let kind = program.controller.as_ref().and_then(|controller| controller.known());
    let fixed = matches!(kind, Some(Kind::FixedWindow(_) | Kind::FixedRate(_)));
    check("controller", !fixed, "must not be a fixed window or rate; those are for flows only")?;
    let explicit = kind.is_some_and(|kind| kind.is_explicit());
    check("controller", !explicit, "must not be `xcp` or `rcp`; those are for flows only")?;
    let rapid = matches!(kind, Some(Kind::Rapid(_)));
    check("controller", !rapid, "must not be `rapid`; that is for flows only")?;
    let on_linux = kind.is_none_or(|kind| kind.is_on_linux());
    check("controller", on_linux, "must be one that Linux has: programs do not run in the simulator")
}
