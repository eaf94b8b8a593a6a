//! Checks whether this kernel and this user can load a controller.

use libbpf_rs::btf::types::{Enum, Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _, TypeId};

use crate::error::Error;

/// The kernel's type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Checks that a controller can be loaded: first the kernel, then the user's privileges.
///
/// # Errors
/// When something is missing, as a sentence with a next step.
pub fn check() -> Result<(), Error> {
    Ops::here()?;
    check_privileges()
}

/// Checks that the user may load programs and attach them.
///
/// # Errors
/// When a capability is missing.
pub(crate) fn check_privileges() -> Result<(), Error> {
    if headway_privileges::rights::may_load_programs() { Ok(()) } else { Err(Error::Forbidden) }
}

/// Checks that controllers can have options of TCP written, which the kernel allows since Linux 6.12.
///
/// # Errors
/// When it does not.
pub(crate) fn check_options() -> Result<(), Error> {
    let btf = Btf::from_path(BTF).map_err(|_| Error::NoBtf)?;
    if has_value(&btf, "TCP_BPF_SOCK_OPS_CB_FLAGS") { Ok(()) } else { Err(Error::NoTcpOptions) }
}

/// Checks that programs may read the kernel's own structures of packets and sockets.
///
/// # Errors
/// When they may not, as before Linux 6.2.
pub(crate) fn check_casts() -> Result<(), Error> {
    let btf = Btf::from_path(BTF).map_err(|_| Error::NoBtf)?;
    btf.type_by_name::<Func<'_>>("bpf_rdonly_cast").map(|_| ()).ok_or(Error::NoCasts)
}

/// Whether an enumeration of the kernel has a value of this name.
fn has_value(btf: &Btf<'_>, name: &str) -> bool {
    let types = u32::try_from(btf.len()).unwrap_or(u32::MAX);
    (1..=types).any(|id| {
        let values = btf.type_by_id::<Enum<'_>>(TypeId::from(id));
        values.is_some_and(|values| values.iter().any(|value| value.name.is_some_and(|found| found == name)))
    })
}

/// What differs between kernels that take controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ops {
    /// How many arguments `cong_control` gets: 4 since Linux 6.10, 2 before.
    pub(crate) arguments: u64,
    /// Whether a controller ends with the process that holds its link, as since Linux 6.4.
    pub(crate) links: bool,
}

impl Ops {
    /// Looks at this kernel.
    ///
    /// # Errors
    /// When it takes no controllers.
    pub(crate) fn here() -> Result<Ops, Error> {
        let btf = Btf::from_path(BTF).map_err(|_| Error::NoBtf)?;
        if btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops").is_none() {
            return Err(Error::NoStructOps);
        }
        match cong_control_arguments(&btf) {
            Some(arguments @ (2 | 4)) => Ok(Ops { arguments, links: has_value(&btf, "BPF_F_LINK") }),
            _ => Err(Error::NoStructOps),
        }
    }
}

fn cong_control_arguments(btf: &Btf<'_>) -> Option<u64> {
    let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = btf.type_by_id::<Ptr<'_>>(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.iter().count() as u64)
}
