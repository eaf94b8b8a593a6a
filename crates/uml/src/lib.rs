//! The Linux network stack in virtual time: User Mode Linux with time travel, built from Debian's kernel source and run.

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
pub mod tcp_info;
