//! Flows of TCP Rapid: the module `headway_rapid` schedules their departures, and microsecond timestamps tell
//! when their segments arrived.

use std::path::{Path, PathBuf};

use headway_control::RapidParameters;
use headway_host::gap::Mechanism;
use headway_host::nic::AckStamp;
use headway_scenario::{FlowSpec, Scenario};
use headway_units::{ConfigError, Rate};

use crate::plan::PlannedNode;

/// Receivers must not hold back ACKs of segments that come out of order: these carry stamps, too.
const NO_COMPRESSION: (&str, &str) = ("net/ipv4/tcp_comp_sack_nr", "0");

/// Whether the routes of a flow have timestamps in microseconds.
pub(super) fn wants_microseconds(spec: &FlowSpec) -> bool {
    spec.is_rapid() && matches!(spec.stamp, AckStamp::Driver | AckStamp::Ack)
}

/// Rejects what the module does not have.
pub(super) fn check(index: usize, spec: &FlowSpec) -> Result<(), ConfigError> {
    if (spec.is_rapid() || spec.pacing) && !matches!(spec.gaps, Mechanism::Exact | Mechanism::ByteClock) {
        let key = format!("flow[{index}].gaps");
        let what = "the kernel in virtual time makes gaps exactly or by `byte-clock`; use `--on sim`";
        return Err(ConfigError::new(&key, what));
    }
    Ok(())
}

/// Lets a node acknowledge every segment of a flow of TCP Rapid as it must.
pub(super) fn prepare_receiver(node: &mut PlannedNode) {
    let setting = (NO_COMPRESSION.0.to_owned(), NO_COMPRESSION.1.to_owned());
    if !node.settings.contains(&setting) {
        node.settings.push(setting);
    }
}

/// Returns the kernel's name of the controller and the parameters of its module.
pub(super) fn controller(
    parameters: &RapidParameters,
    spec: &FlowSpec,
    scenario: &Scenario,
    line: Option<Rate>,
) -> (String, Vec<(PathBuf, String)>) {
    let wire = u32::try_from(scenario.full_packet().get()).unwrap_or(u32::MAX);
    let config = parameters.config(line.unwrap_or(RapidParameters::USUAL_LINE), wire, spec.stamp.unit());
    let values = [
        ("line", config.line),
        ("packet", config.packet.into()),
        ("tau", config.tau),
        ("kd", config.kd.into()),
        ("gamma", config.gamma.into()),
        ("rates", config.shape.rates.into()),
        ("packets", config.shape.packets.into()),
        ("ratio", config.shape.ratio.into()),
        ("coalescing", config.coalescing),
        ("coarse_up", config.coarse.up.into()),
        ("coarse_down", config.coarse.down.into()),
        ("medium_up", config.medium.up.into()),
        ("medium_down", config.medium.down.into()),
        ("fine_up", config.fine.up.into()),
        ("fine_down", config.fine.down.into()),
        ("window", config.window.into()),
        ("margin", config.excursion.margin.into()),
        ("relative", config.excursion.relative.into()),
        ("min_length", config.excursion.min_length.into()),
        ("unit", config.unit.into()),
        ("flags", config.flags.into()),
        ("bridges_holes", parameters.bridges_holes().into()),
        ("stamps", (spec.stamp != AckStamp::None).into()),
    ];
    let folder = Path::new("/sys/module/headway_rapid/parameters");
    let set = |(name, value): (&str, u64)| (folder.join(name), value.to_string());
    ("headway_rapid".to_owned(), values.into_iter().map(set).collect())
}
