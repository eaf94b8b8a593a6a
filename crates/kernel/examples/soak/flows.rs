//! Many flows that send single segments a fixed gap apart. Does any of them stall?
//!
//! `sudo cargo run --release -p headway-kernel --example soak -- ls-dctcp 200 600 20 lossy`: the controller, flows,
//! seconds, milliseconds between segments, and `lossy` to drop one packet in a hundred. Everything is marked, so
//! that windows are below a segment; SO_MAX_PACING_RATE sets the gap. With the controller `zero`
//! (tests/bpf/zero.bpf.c) flows do stall. For round trips and jitter use `headway run --on lab`, see
//! papers/ls-aimd/results.md.

use std::any::Any;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headway_kernel::{Controller, Loader};
use libbpf_rs::{MapCore as _, MapType, ObjectBuilder};
use socket2::Socket;

use crate::flood::{flood, treat};
use crate::path::{Path, V4, load};

/// Payload of a full segment of 1500 bytes.
const SEGMENT: u64 = 1448;
/// A flow that delivers nothing for this many gaps and this long has stalled; the timeouts after a few losses
/// in a row are shorter.
const GAPS: u32 = 40;
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// Returns whether all flows went on all the time.
pub(crate) fn run(controller: &str, flows: &str, seconds: &str, gap: &str, lossy: bool) -> bool {
    let gap = Duration::from_millis(gap.parse().unwrap());
    let Some(path) = Path::new() else { return false };
    path.server.run(move || treat(if lossy { "mark_and_lose" } else { "mark" }));
    // As on paths with a long RTT: a buffer holds less than a segment.
    path.client.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_tso_rtt_log", "0").unwrap());
    let (_on, name) = switch_on(controller);
    let rate = SEGMENT * 1_000_000 / gap.as_micros() as u64;
    let ends: Vec<(Socket, TcpStream)> = (0..flows.parse().unwrap())
        .map(|_| {
            let (socket, peer) = path.connect(V4[1], &name);
            peer.set_read_timeout(None).unwrap();
            socket.set_write_timeout(None).unwrap();
            pace(&socket, rate);
            (socket, peer)
        })
        .collect();
    let arrived: Vec<_> = ends.iter().map(|_| AtomicUsize::new(0)).collect();
    let count = |index: usize, read| {
        arrived[index].fetch_add(read, Ordering::Relaxed);
    };
    let end = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let interval = MIN_INTERVAL.max(gap * GAPS);
    let mut stopped = 0;
    flood(&ends, count, || {
        while Instant::now() < end {
            thread::sleep(interval);
            let read: Vec<_> = arrived.iter().map(|bytes| bytes.swap(0, Ordering::Relaxed)).collect();
            let stalled = read.iter().filter(|&&bytes| bytes == 0).count();
            stopped = stopped.max(stalled);
            let mean = read.iter().sum::<usize>() / read.len();
            println!(
                "in {interval:?}: slowest {:?} B, mean {mean} B, {stalled} stopped",
                read.iter().min().unwrap()
            );
        }
    });
    stopped == 0
}

/// Loads one of Headway's controllers or the one of tests/bpf/zero.bpf.c. It stays registered until the first
/// value is dropped.
fn switch_on(controller: &str) -> (Box<dyn Any>, String) {
    if let Some(known) =
        Controller::ALL.into_iter().find(|known| !known.is_explicit() && known.command() == controller)
    {
        let (loaded, name) = load(Loader::new(known));
        return (Box::new(loaded), name);
    }
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/zero.bpf.o"));
    let mut object = ObjectBuilder::default().open_memory(object).unwrap().load().unwrap();
    let mut ops = object.maps_mut().find(|map| map.map_type() == MapType::StructOps).unwrap();
    let link = ops.attach_struct_ops().unwrap();
    (Box::new((link, object)), "headway_zero".to_owned())
}

/// Limits the pacing rate to `rate` bytes per second.
pub(crate) fn pace(socket: &Socket, rate: u64) {
    // SAFETY: the option reads `size` bytes; `rate` outlives the call.
    let result = unsafe {
        let (value, size) = ((&raw const rate).cast(), size_of_val(&rate) as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value, size)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
