//! Flows of TCP Rapid: what their senders and receivers need of this host.

use std::collections::HashMap;
use std::fs;

use anyhow::Context as _;
use headway_control::RapidParameters;
use headway_host::nic::AckStamp;
use headway_kernel::{Namespace, RapidOptions, StampOptions, StampReceiver};
use headway_lab::Lab;
use headway_scenario::{EcnMode, FlowSpec, Scenario};
use headway_telemetry::route::Route;
use headway_units::{Duration, Rate};

use super::translate::Translated;
use crate::error::{Error, bail};

/// ACKs that a receiver holds back while segments come out of order; of those every one tells of an arrival.
const COMPRESSED: &str = "/proc/sys/net/ipv4/tcp_comp_sack_nr";

/// Rejects what this host's sender and receiver do not have.
pub(super) fn check(index: usize, flow: &FlowSpec) -> Result<(), Error> {
    if flow.stamp == AckStamp::Ms {
        bail!(
            "`flow[{index}].stamp`: this host uses no timestamps of milliseconds, but the arrival of ACKs instead; use --on sim"
        );
    }
    if flow.ecn != EcnMode::Off {
        bail!("`flow[{index}].ecn`: TCP Rapid does not use marks");
    }
    Ok(())
}

/// Rejects flows to one host with different stamps: all of its connections tell arrivals in the same way.
pub(super) fn check_alike(scenario: &Scenario) -> Result<(), Error> {
    let mut stamps = HashMap::new();
    for (index, flow) in scenario.flow.iter().enumerate().filter(|(_, flow)| flow.is_rapid()) {
        if *stamps.entry(&flow.to).or_insert(flow.stamp) != flow.stamp {
            bail!(
                "the lab does not support `flow[{index}].stamp`: all flows of Rapid to one host must have the same there; use --on sim"
            );
        }
    }
    Ok(())
}

/// Returns what flows over a sender's link of rate `line` need.
pub(super) fn options(parameters: &RapidParameters, line: Option<Rate>, scenario: &Scenario) -> RapidOptions {
    let wire = u32::try_from(scenario.full_packet().get()).unwrap_or(u32::MAX);
    let config = parameters.config(line.unwrap_or(RapidParameters::USUAL_LINE), wire, Duration::from_us(1));
    RapidOptions { config, bridges_holes: parameters.bridges_holes() }
}

/// Has receivers tell when segments arrived, until the result is dropped: before TCP sees them, or by
/// timestamps of microseconds; and with an ACK for every one that comes out of order.
pub(super) fn prepare_receivers(
    scenario: &Scenario,
    translated: &Translated,
    lab: &Lab,
) -> Result<Vec<StampReceiver>, Error> {
    let mut receivers: Vec<(&str, AckStamp)> = scenario
        .flow
        .iter()
        .filter(|flow| flow.is_rapid())
        .map(|flow| (translated.node(&flow.to), flow.stamp))
        .collect();
    receivers.sort_by_key(|(node, _)| *node);
    receivers.dedup();
    let mut stamping = Vec::new();
    for (node, stamp) in receivers {
        let prepared = lab.inside(node, || prepare_receiver(stamp))?;
        stamping.extend(prepared.with_context(|| format!("cannot prepare the receiver at {node}"))?);
    }
    Ok(stamping)
}

/// Prepares the receivers of this network namespace.
fn prepare_receiver(stamp: AckStamp) -> anyhow::Result<Option<StampReceiver>> {
    fs::write(COMPRESSED, "0").with_context(|| format!("cannot write {COMPRESSED}"))?;
    match stamp {
        AckStamp::Driver => {
            let options = StampOptions { namespace: Namespace::here()?, port: None, to: None };
            return Ok(Some(StampReceiver::load(&options)?));
        }
        AckStamp::Ack => Route::all()?.iter().try_for_each(|route| route.set_microseconds(true))?,
        AckStamp::Ms | AckStamp::None => {}
    }
    Ok(None)
}
