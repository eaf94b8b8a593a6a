//! Scenarios: a network, its flows and its traffic, read from one TOML file that every world can run.

mod buffer;
mod change;
mod change_spec;
mod channel;
mod check;
mod check_arrivals;
mod check_program;
mod check_traffic;
mod controller;
mod dilate;
mod error;
mod file;
mod kernel_queue;
mod lab;
mod middlebox;
mod middlebox_program;
mod model;
mod model_file;
mod network;
mod read;
mod route;
mod select;
mod world;

pub use buffer::{Buffer, BufferSize};
pub use change::{Change, apply};
pub use change_spec::{ChangeSpec, Changed};
pub use check_traffic::check_traffic;
pub use controller::{FlowController, KernelController};
pub use dilate::MAX_DILATION;
pub use error::Error;
pub use kernel_queue::KernelQueue;
pub use lab::is_lab_name;
pub use middlebox::{MiddleboxClass, MiddleboxKind, MiddleboxSpec, PolicySource};
pub use middlebox_program::{MiddleboxEnd, MiddleboxPlan};
pub use model::{
    EcnMode, FlowSpec, HostSpec, LinkSpec, MeasureSpec, ProgramSpec, Scenario, TrafficSpec, WifiSpec, Wire,
};
pub use model_file::ModelFile;
pub use route::{Direction, Topology};
pub use select::{SelectCross, SelectPath, SelectRival, SelectRoute, SelectSpec};
pub use world::{UnknownWorld, World};

#[cfg(test)]
mod tests;
