//! What limits a transfer: the application, the receive window or the path.

use headway_units::Duration;

/// What limits the rate of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Limit {
    /// The sending application: it has less to send than the path and the receiver would take.
    Application,
    /// The receiver: its window is full.
    ReceiveWindow,
    /// The path, through the congestion window.
    Path,
    /// The trace does not tell.
    #[default]
    Unknown,
}

impl Limit {
    /// All limits.
    pub const ALL: [Limit; 4] = [Limit::Application, Limit::ReceiveWindow, Limit::Path, Limit::Unknown];

    /// Returns the limit as a name for results, such as `receive-window`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The time for which each limit held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    time: [Duration; Limit::ALL.len()],
}

impl Limits {
    /// Adds time for which `limit` held.
    pub(super) fn add(&mut self, limit: Limit, time: Duration) {
        self.time[limit as usize] += time;
    }

    /// Returns the time for which `limit` held.
    pub const fn time(&self, limit: Limit) -> Duration {
        self.time[limit as usize]
    }

    /// Returns the share of time, 0 to 1, for which `limit` held; 0 before any time has passed.
    pub fn share(&self, limit: Limit) -> f64 {
        let total: Duration = self.time.iter().copied().sum();
        if total > Duration::ZERO { self.time(limit).secs_f64() / total.secs_f64() } else { 0.0 }
    }

    /// Returns the limit that held for the longest time; `Unknown` before any time has passed.
    pub fn main(&self) -> Limit {
        let longest =
            Limit::ALL.into_iter().max_by_key(|limit| (self.time(*limit), *limit == Limit::Unknown));
        longest.unwrap_or(Limit::Unknown)
    }
}
