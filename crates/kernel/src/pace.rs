//! Segments of a fixed gap, as TCP Rapid makes its gaps: for measurements of how exact they are.

use headway_units::Duration;
use libbpf_rs::{Link, MapCore as _, MapType, Object};

use crate::error::Error;
use crate::gaps::DepartureTimes;
use crate::loader::{adapt, load, refused, set_options};
use crate::support::Ops;

/// The name in `bpf/pace.bpf.c`.
const NAME: &str = "hw_pace";

/// A registered controller whose connections send a segment a fixed time after the one before; until this is
/// dropped connections can choose it.
#[derive(Debug)]
pub struct Pace {
    // Declared before `object`, so that dropping unregisters first.
    _link: Link,
    object: Object,
}

impl Pace {
    /// Registers it; with `fills_gaps`, its gaps are for one who takes its [`Departures`](crate::Departures).
    /// With `by_window`, a window one segment above what is in flight keeps segments single; without, the
    /// interface has to (`gso_max_segs`).
    ///
    /// # Errors
    /// When the kernel does not support it, the user lacks privileges, or it is registered already.
    pub fn load(gap: Duration, by_window: bool, fills_gaps: bool) -> Result<Pace, Error> {
        crate::support::check()?;
        let ops = Ops::here()?;
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/pace.bpf.o"));
        // `struct pace_options`.
        let options = [gap.ns() as u64, u64::from(by_window)].map(u64::to_ne_bytes).concat();
        let mut object = load(object, NAME, |open| {
            adapt(open, ops)?;
            for mut map in open.maps_mut().filter(|map| map.name() == ".rodata.gaps") {
                map.set_initial_value(&u64::from(fills_gaps).to_ne_bytes())?;
            }
            set_options(open, &options)
        })?;
        let registered = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
        let Some(mut registered) = registered else {
            return Err(Error::Internal(format!("{NAME} has no struct_ops map")));
        };
        Ok(Pace { _link: registered.attach_struct_ops().map_err(refused(NAME))?, object })
    }

    /// Returns when the segments of its connections are due.
    ///
    /// # Errors
    /// When the kernel gives no second descriptor.
    pub fn departure_times(&self) -> Result<DepartureTimes, Error> {
        DepartureTimes::of(&self.object)
    }

    /// Returns the name by which connections choose it.
    pub fn name(&self) -> &'static str {
        NAME
    }
}
