//! Checks whether this kernel and this user can load a controller.

use std::fs;

use libbpf_rs::btf::types::{Enum, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _, TypeId};

use crate::error::Error;

/// The kernel's type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The arguments of `cong_control` since Linux 6.10: socket, ack number, flags, rate sample.
const CONG_CONTROL_ARGUMENTS: usize = 4;
/// Bits of `CapEff` (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks that a controller can be loaded: first the kernel, then the user's privileges.
///
/// # Errors
/// When something is missing, as a sentence with a next step.
pub fn check() -> Result<(), Error> {
    check_kernel()?;
    check_privileges()
}

/// Checks that the user may load programs and attach them.
///
/// # Errors
/// When a capability is missing.
pub(crate) fn check_privileges() -> Result<(), Error> {
    if privileged(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        Ok(())
    } else {
        Err(Error::Forbidden)
    }
}

/// Checks that controllers can have options of TCP written, which the kernel allows since Linux 6.12.
///
/// # Errors
/// When it does not.
pub(crate) fn check_options() -> Result<(), Error> {
    let btf = Btf::from_path(BTF).map_err(|_| Error::NoBtf)?;
    let has_it = |id: u32| {
        let values = btf.type_by_id::<Enum<'_>>(TypeId::from(id));
        values.is_some_and(|values| {
            values.iter().any(|value| value.name.is_some_and(|name| name == "TCP_BPF_SOCK_OPS_CB_FLAGS"))
        })
    };
    let types = u32::try_from(btf.len()).unwrap_or(u32::MAX);
    if (1..=types).any(has_it) { Ok(()) } else { Err(Error::NoTcpOptions) }
}

fn check_kernel() -> Result<(), Error> {
    let btf = Btf::from_path(BTF).map_err(|_| Error::NoBtf)?;
    if btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops").is_none() {
        return Err(Error::NoStructOps);
    }
    match cong_control_arguments(&btf) {
        Some(CONG_CONTROL_ARGUMENTS) => Ok(()),
        _ => Err(Error::TooOld),
    }
}

fn cong_control_arguments(btf: &Btf<'_>) -> Option<usize> {
    let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = btf.type_by_id::<Ptr<'_>>(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.iter().count())
}

/// Whether the capabilities in `/proc/PID/status` suffice.
fn privileged(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(bits) = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else {
        return false;
    };
    let has = |capability: u32| bits >> capability & 1 == 1;
    has(CAP_NET_ADMIN) && (has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_three_capabilities_suffice() {
        assert!(privileged("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(privileged("CapEff:\t000000c000001000\n"));
        assert!(!privileged("CapEff:\t0000000000000000\n"));
        assert!(!privileged("CapEff:\t0000008000001000\n"));
        assert!(!privileged(""));
    }
}
