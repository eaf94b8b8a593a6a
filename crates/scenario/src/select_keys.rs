//! What a `[[select]]` models of a scenario. All other keys are refused.

use headway_traffic::channel::EcnField;
use headway_units::{ConfigError, Duration};

use crate::model::{LinkSpec, Scenario, Wire};
use crate::world::first;

/// The keys of a link that do something on a path of a `[[select]]`, as the documentation writes them.
pub(crate) const LINK: &str = "`rate`, `rates`, `burst`, `peak-rate`, `delay`, `buffer`, `queue`, `loss`, `jitter`, \
                               `reordering`, `duplex` and `reverse`";
/// Full packets of everybody are as large.
const MTU: u32 = 1500;

/// Rejects a link of a path with keys that are not modelled there; `index` is its place in the file.
pub(crate) fn check_link(index: usize, link: &LinkSpec) -> Result<(), ConfigError> {
    // All keys by name, so that a new one is decided about here.
    let LinkSpec {
        name: _,
        from: _,
        to: _,
        rate: _,
        rates: _,
        redrawn,
        outages,
        line,
        delay: _,
        delay_trace: _,
        buffer: _,
        queue: _,
        kernel_queue,
        loss: _,
        loss_bursts: _,
        duplicate: _,
        corrupt: _,
        ecn: _,
        jitter: _,
        reordering: _,
        trace,
        burst: _,
        peak_rate: _,
        ack_filter,
        police,
        spray,
        duplex: _,
        reverse,
    } = link;
    let of_link = first(&[
        ("redrawn", redrawn.is_some()),
        ("outages", outages.is_some()),
        ("line", line.is_some()),
        ("kernel-queue", kernel_queue.is_some()),
        ("trace", trace.is_some()),
        ("ack-filter", *ack_filter),
        ("police", police.is_some()),
        ("spray", *spray),
    ]);
    let of_wire = || unmodelled_of_wire(&link.wire(false)).map(str::to_owned);
    let of_reverse = || Some(format!("reverse.{}", unmodelled_of_wire(reverse.as_ref()?)?));
    match of_link.map(str::to_owned).or_else(of_wire).or_else(of_reverse) {
        None => Ok(()),
        Some(key) => {
            let rule = format!("cannot be on a path of a [[select]]; a link there has {LINK}");
            Err(ConfigError::new(&format!("link[{index}].{key}"), &rule))
        }
    }
}

fn unmodelled_of_wire(wire: &Wire) -> Option<&'static str> {
    let Wire { delay_trace, loss: _, loss_bursts, duplicate, corrupt, ecn, jitter: _, reordering: _ } = wire;
    first(&[
        ("delay-trace", delay_trace.is_some()),
        ("loss-bursts", loss_bursts.is_some()),
        ("duplicate", *duplicate > 0.0),
        ("corrupt", *corrupt > 0.0),
        ("ecn", *ecn != EcnField::Keep),
    ])
}

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
