//! Routes with microsecond timestamps, for which `ip` may be too old.

use std::io;

use headway_telemetry::netlink::{CREATE_NEW, Netlink, SockProtocol, attribute};
use headway_telemetry::route::{RTAX_FEATURE_TCP_USEC_TS, RTAX_FEATURES};
use libc::{RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_OIF, RTM_NEWROUTE};

use super::Failure;
use crate::plan::{PlannedMetrics, PlannedRoute};

/// Metrics and features of `include/uapi/linux/rtnetlink.h`.
const RTAX_MTU: u16 = 2;
const RTAX_INITCWND: u16 = 11;
const RTAX_QUICKACK: u16 = 15;
const RTAX_FEATURE_ECN: u32 = 1 << 0;
/// `struct rtmsg`: an IPv4 route to one address in the main table, made by the
/// administrator, to another host.
const HEAD: [u8; 12] = [libc::AF_INET as u8, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];

/// Adds a route in this namespace.
pub(super) fn add(route: &PlannedRoute) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::of(format!("cannot make a route with microsecond timestamps on {}", route.device), error)
    };
    let device =
        nix::net::if_::if_nametoindex(route.device.as_str()).map_err(|error| failed(error.into()))?;
    let mut body = HEAD.to_vec();
    body.extend(attribute(RTA_DST, &route.destination.octets()));
    body.extend(attribute(RTA_GATEWAY, &route.via.octets()));
    body.extend(attribute(RTA_OIF, &device.to_ne_bytes()));
    body.extend(attribute(RTA_METRICS, &metrics(&route.metrics)));
    let answered = Netlink::open(SockProtocol::NetlinkRoute)
        .and_then(|mut netlink| netlink.ask(RTM_NEWROUTE, CREATE_NEW, &body));
    answered.map_err(failed)
}

fn metrics(metrics: &PlannedMetrics) -> Vec<u8> {
    let feature = |set: bool, feature: u32| if set { feature } else { 0 };
    let features =
        feature(metrics.ecn, RTAX_FEATURE_ECN) | feature(metrics.microseconds, RTAX_FEATURE_TCP_USEC_TS);
    let values = [
        (RTAX_MTU, metrics.mtu),
        (RTAX_INITCWND, metrics.initial_window),
        (RTAX_FEATURES, Some(features)),
        (RTAX_QUICKACK, metrics.quick_acks.then_some(1)),
    ];
    let of = |(kind, value): (u16, Option<u32>)| value.map(|value| attribute(kind, &value.to_ne_bytes()));
    values.into_iter().filter_map(of).flatten().collect()
}
