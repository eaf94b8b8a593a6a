//! Questions to the kernel about loaded controllers: counters, and the CPU time of their programs.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use crate::error::Error;
use crate::telemetry::{Counters, CpuTime, EndCounters, RapidCounters, Totals};

/// Reads the counters in the map with BPF ID `map`.
///
/// # Errors
/// When the map is gone or the user lacks the privileges.
pub fn counters(map: u32) -> Result<Counters, Error> {
    let handle = MapHandle::from_map_id(map).map_err(Error::bpf("inspect the counters of a controller"))?;
    read_counters(&handle)
}

/// Reads the counters of XCP or RCP in the map with BPF ID `map`.
///
/// # Errors
/// When the map is gone or the user lacks the privileges.
pub fn end_counters(map: u32) -> Result<EndCounters, Error> {
    let handle = MapHandle::from_map_id(map).map_err(Error::bpf("inspect the counters of a controller"))?;
    read_counters(&handle)
}

/// Reads the counters of TCP Rapid in the map with BPF ID `map`.
///
/// # Errors
/// When the map is gone or the user lacks the privileges.
pub fn rapid_counters(map: u32) -> Result<RapidCounters, Error> {
    let handle = MapHandle::from_map_id(map).map_err(Error::bpf("inspect the counters of a controller"))?;
    read_counters(&handle)
}

/// Whether the kernel still has the map with BPF ID `map`, and so the controller that counts in it.
pub fn is_loaded(map: u32) -> bool {
    MapHandle::from_map_id(map).is_ok()
}

/// Reads the counters in this map.
pub(crate) fn read_counters<T: Totals>(map: &impl MapCore) -> Result<T, Error> {
    let action = "read the counters of a controller";
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(action))?;
    let Some(value) = value.filter(|bytes| bytes.len() == size_of::<T>()) else {
        return Ok(T::default());
    };
    // SAFETY: totals consist of integers only, so any bits are valid; the length was checked and the read may be
    // unaligned.
    Ok(unsafe { value.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the CPU time of the programs with these BPF IDs while timing was on (see [`enable_timing`]).
pub fn cpu_time(programs: &[u32]) -> Vec<CpuTime> {
    ProgInfoIter::default()
        .filter(|info| programs.contains(&info.id))
        .map(|info| CpuTime {
            program: info.name.to_string_lossy().into_owned(),
            calls: info.run_cnt,
            nanoseconds: info.run_time_ns,
        })
        .collect()
}

/// Makes the kernel time every call of every BPF program for as long as the returned descriptor is held.
///
/// # Errors
/// When the user lacks the privileges.
pub fn enable_timing() -> Result<OwnedFd, Error> {
    // SAFETY: a system call with an integer argument.
    let raw = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if raw < 0 {
        let reason = libbpf_rs::Error::from_raw_os_error(-raw);
        return Err(Error::Bpf { action: "time BPF programs", reason });
    }
    // SAFETY: `raw` is an open descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Returns the BPF IDs of the programs of an object.
pub(crate) fn program_ids(object: &Object) -> Result<Vec<u32>, Error> {
    let ids = object.progs().map(|program| libbpf_rs::Program::id_from_fd(program.as_fd()));
    ids.collect::<Result<_, _>>().map_err(Error::bpf("inspect a BPF program"))
}
