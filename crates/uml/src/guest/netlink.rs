//! Queue disciplines installed by netlink, for options that `tc` does not have.

use std::io;

pub(super) use headway_telemetry::netlink::attribute;
use headway_telemetry::netlink::{CREATE_NEW, Netlink, SockProtocol};
use libc::{RTM_NEWQDISC, TCA_KIND, TCA_OPTIONS};

use super::Failure;

/// Installs a discipline with these attributes as its options on a device of this namespace.
pub(super) fn install(
    kind: &str,
    device: &str,
    parent: u32,
    handle: u32,
    options: &[u8],
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of(format!("cannot put `{kind}` on {device}"), error);
    let index = nix::net::if_::if_nametoindex(device).map_err(|error| failed(error.into()))?;
    let mut body = vec![0; 4];
    for value in [index, handle, parent, 0] {
        body.extend(value.to_ne_bytes());
    }
    body.extend(attribute(TCA_KIND, format!("{kind}\0").as_bytes()));
    body.extend(attribute(TCA_OPTIONS, options));
    let answered = Netlink::open(SockProtocol::NetlinkRoute)
        .and_then(|mut netlink| netlink.ask(RTM_NEWQDISC, CREATE_NEW, &body));
    answered.map_err(failed)
}
