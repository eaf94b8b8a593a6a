//! The Linux network stack in virtual time: User Mode Linux with time travel, built from Debian's
//! kernel source and run.
//!
//! # How it works
//!
//! `headway run --on uml` starts User Mode Linux, a kernel that runs as a program, with time travel: when
//! nothing can run, time jumps to the next timer. The host's files are its root file system, and its init
//! process is `headway` itself (`guest`), which finds its plan in the directory where the kernel was started.
//!
//! - **The guest has a single thread.** A system call in the guest costs switches between two processes.
//!   Therefore one event loop owns all sockets of all namespaces, reads and writes are megabytes, received
//!   bytes are discarded without a copy, datagrams are handed over in batches with their departure times, and
//!   captures use shared memory. All per-packet work is done in the kernel, including the records.
//! - **Host programs are children of the guest program,** each in the namespace of its node, with output
//!   written directly to the host's directory. They may poll: after a thousand system calls at the same
//!   virtual time, each further one takes a microsecond.
//! - **An explicit router is its link.** `headway_router` keeps the rate itself, so its queue is the true
//!   one, and runs timers of the law that fell due before the next packet, as the simulator does. A packet
//!   that waited begins when the one before it ends, even if the kernel's timer fires later: half a
//!   nanosecond per packet is 0.05 % of 10 Gb/s, which XCP answers with a standing queue of 15 packets.
//! - **The ends of XCP and RCP are a module** (`headway_end`), because the guest has no BPF JIT and so no
//!   `struct_ops`. A root discipline inserts the header where nothing queues, while the socket is locked; a
//!   handler of protocol 253 removes it, and hands the packet on to TCP with its socket.
//! - **A guest has a CPU to itself.** Its processes wait for each other at every system call; across two CPUs
//!   a run took up to four times as long.
//! - **All sources of randomness follow the seed.** The kernel's command line is one of them, so it contains
//!   no path of the host.
//! - **Reports are lines of JSON,** written during the run, so that an interrupted run has results too. The
//!   console is read for progress and for the kernel's last messages.
//!
//! # Decisions
//!
//! - **A link has its delay before its queue,** both on one device: a second device would cost every packet
//!   another hop.
//! - **Records come from a module** (`headway_record`), because a line of text per packet would be most of
//!   the work.
//! - **Rapid asks for no timer of its own.** TCP asks a controller for the size of bursts at each attempt to
//!   send, and the module moves TCP's own departure clock then. Attempts that come to nothing are no
//!   departures, so it counts sequence numbers, not questions.

mod core;
mod discipline;
pub mod guest;
pub mod kernel;
pub mod machine;
pub mod modules;
pub mod network;
mod own_lock;
pub mod plan;
pub mod report;
pub mod run_dir;
