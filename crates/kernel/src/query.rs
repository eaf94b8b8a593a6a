//! Questions to the kernel about loaded controllers: counters, and the CPU time of their programs.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use headway_arithmetic::plain::{self, Plain};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, Program};

use crate::error::Error;
use crate::flow::RapidFlow;
use crate::telemetry::{CpuTime, StampCounters};

/// The program of TCP Rapid that writes about connections.
pub(crate) const READER: &str = "hw_flows";
const LIST: &str = "list the connections of a controller";

/// Reads the counters of a controller in the map with BPF ID `map`.
///
/// # Errors
/// When the map is gone or the user lacks the privileges.
pub fn counters<T: Plain + Default>(map: u32) -> Result<T, Error> {
    let handle = MapHandle::from_map_id(map).map_err(Error::bpf("inspect the counters of a controller"))?;
    read_counters(&handle)
}

/// Returns what the connections of an instance of TCP Rapid know, whose programs have these BPF IDs: empty if
/// it has ended, `None` if the kernel refused the program that lists them.
///
/// # Errors
/// When the user lacks the privileges.
pub fn rapid_flows(programs: &[u32]) -> Result<Option<Vec<RapidFlow>>, Error> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let all: Vec<_> =
        ProgInfoIter::with_query_opts(options).filter(|info| programs.contains(&info.id)).collect();
    if all.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let reader = all.iter().find(|info| info.name == READER);
    let mut maps = all.iter().flat_map(|info| &info.map_ids).flat_map(|id| MapHandle::from_map_id(*id));
    let (Some(reader), Some(map)) = (reader, maps.find(|map| map.map_type() == MapType::SkStorage)) else {
        return Ok(None);
    };
    let program = Program::fd_from_id(reader.id).map_err(Error::bpf(LIST))?;
    let bytes = read_all(program.as_fd(), map.as_fd())?;
    Ok(Some(bytes.as_chunks().0.iter().map(RapidFlow::from_bytes).collect()))
}

/// Returns what an iterator writes about all elements of a map.
fn read_all(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> Result<Vec<u8>, Error> {
    let mut of = libbpf_sys::bpf_iter_link_info::default();
    of.map.map_fd = map.as_raw_fd() as u32;
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as u64,
        iter_info: &raw mut of,
        iter_info_len: size_of_val(&of) as u32,
        ..Default::default()
    };
    // SAFETY: a system call with valid descriptors and options that outlive it.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, &raw const options)
    };
    let link = owned(link, LIST)?;
    // SAFETY: a system call with a valid descriptor.
    let iterator = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) }, LIST)?;
    let mut bytes = Vec::new();
    let read = File::from(iterator).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|reason| Error::bpf(LIST)(reason.into()))
}

/// Reads the counters of a receiver for TCP Rapid in the map with BPF ID `map`.
///
/// # Errors
/// When the map is gone or the user lacks the privileges.
pub fn stamp_counters(map: u32) -> Result<StampCounters, Error> {
    let handle = MapHandle::from_map_id(map).map_err(Error::bpf("inspect the counters of a receiver"))?;
    read_counters(&handle)
}

/// Whether the kernel still has the map with BPF ID `map`, and so the controller that counts in it.
pub fn is_loaded(map: u32) -> bool {
    MapHandle::from_map_id(map).is_ok()
}

/// Unregisters the controller that the map with this BPF ID keeps registered, if it still does.
pub(crate) fn unregister(map: u32) {
    let handle = MapHandle::from_map_id(map).ok();
    // Its ID may be another map's by now. One with a link refuses this.
    if let Some(handle) = handle.filter(|handle| handle.map_type() == MapType::StructOps) {
        let _ = handle.delete(&0u32.to_ne_bytes());
    }
}

/// Reads the counters in this map.
pub(crate) fn read_counters<T: Plain + Default>(map: &impl MapCore) -> Result<T, Error> {
    let action = "read the counters of a controller";
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(action))?;
    Ok(value.and_then(|bytes| plain::read(&bytes)).unwrap_or_default())
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
    owned(raw, "time BPF programs")
}

/// Returns the descriptor that a function of libbpf has opened, or the error that it returned.
pub(crate) fn owned(raw: i32, action: &'static str) -> Result<OwnedFd, Error> {
    if raw < 0 {
        return Err(Error::Bpf { action, reason: libbpf_rs::Error::from_raw_os_error(-raw) });
    }
    // SAFETY: `raw` is an open descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Returns the BPF IDs of the programs of an object that are loaded.
pub(crate) fn program_ids(object: &Object) -> Result<Vec<u32>, Error> {
    let loaded = object.progs().filter(|program| program.autoload());
    let ids = loaded.map(|program| libbpf_rs::Program::id_from_fd(program.as_fd()));
    ids.collect::<Result<_, _>>().map_err(Error::bpf("inspect a BPF program"))
}
