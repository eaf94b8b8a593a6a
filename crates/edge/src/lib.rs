//! Receive window modulation at the edge of a network: connections share a link without a queue, because the windows that
//! their receivers tell pass lowered to each one's share of the bandwidth-delay product (wan 2.1 to 2.3).
//!
//! A [`Policy`] names classes of connections and their shares. An [`Allocator`] counts the connections of each class and says
//! what a connection of it may have; it knows neither packets nor time. A [`Middlebox`] joins both with tables of connections,
//! for simulators and tests: it takes packets and `now`, and returns windows. The kernel's program does the same with maps in
//! place of tables. What both do with a packet is C in the crate `arithmetic`.
//!
//! [`classify`] says what a flow is for, by how its packets come, and [`evaluate`] what is to be done with it, and why. A [`Monitor`]
//! uses both: it is shown what was [`Seen`], and returns [`Treatments`], for a [`Middlebox`] and for the kernel's programs alike.
//! [`Signals`] are what others say of the link, and a [`LinkRate`] finds its rate where nobody does. A [`snapshot`] is what a router that does all this tells of itself.
//!
//! Whatever arrives, memory is bounded and a connection that is in doubt passes unchanged.

mod allocator;
pub mod classify;
mod code_point;
mod connections;
pub mod evaluate;
mod judged;
mod knee;
mod link_rate;
mod load;
mod matches;
mod middlebox;
mod monitor;
mod notes;
mod policy;
mod probes;
mod seen;
mod signals;
pub mod snapshot;
mod table;
mod usage;
mod waited;
mod weight;

pub use allocator::{Allocator, Changed, Ticket};
pub use code_point::CodePoint;
pub use connections::{Connections, Shares};
pub use judged::{Judged, Treatment};
pub use link_rate::{FASTEST, LinkRate};
pub use load::Load;
pub use matches::{Ports, Prefix};
pub use middlebox::{Counts, Limits, Middlebox, Noted, Tracked};
pub use monitor::{LOOKS, LinkView, Monitor, Rates, Treatments};
pub use notes::News;
pub use policy::{Class, MOST_CLASSES, Policy, ShareBy, Split};
pub use probes::{Demand, Probe, ProbeKind, Probed, Prober};
pub use seen::{Passive, Seen};
pub use signals::Signals;
pub use weight::Weight;
