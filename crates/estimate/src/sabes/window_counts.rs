//! Which windows gave an estimate, and why others did not.

/// Why a window gave no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum WindowRefusal {
    /// Fewer samples than needed remained.
    TooFewAcks,
    /// The sender had nothing to send, so gaps between ACKs say nothing about the path.
    ApplicationLimited,
    /// The receive window limited the sender.
    WindowLimited,
    /// The stamps of ACKs come in batches, and too few complete batches remained.
    StampsCoalesced,
    /// The queue of the tight link was empty most of the time: more was available than the transfer used.
    QueueEmpty,
    /// The samples have too little spread: the transfer was not faster than what is available (Eq. 6.5).
    Narrow,
    /// Mean and median of the samples differ too much (Eq. 6.5).
    Skewed,
    /// The capacity is not known yet.
    NoCapacity,
    /// A trained classifier says that the mean is not what is available (wan 2.11), or a
    /// model gives no number.
    Doubtful,
    /// The window is unlike those that a trained model has seen.
    Unseen,
}

impl WindowRefusal {
    /// All reasons.
    pub const ALL: [WindowRefusal; 10] = [
        WindowRefusal::TooFewAcks,
        WindowRefusal::ApplicationLimited,
        WindowRefusal::WindowLimited,
        WindowRefusal::StampsCoalesced,
        WindowRefusal::QueueEmpty,
        WindowRefusal::Narrow,
        WindowRefusal::Skewed,
        WindowRefusal::NoCapacity,
        WindowRefusal::Doubtful,
        WindowRefusal::Unseen,
    ];

    /// Returns the reason as a name for results, such as `too-few-acks`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How many windows gave an estimate, and why the others did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    used: u64,
    refused: [u64; WindowRefusal::ALL.len()],
}

impl WindowCounts {
    /// Returns the number of windows that gave an estimate.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of windows refused for this reason.
    pub const fn refused(&self, reason: WindowRefusal) -> u64 {
        self.refused[reason as usize]
    }

    /// Returns the number of all windows.
    pub fn total(&self) -> u64 {
        self.used + self.refused.iter().sum::<u64>()
    }

    /// Counts a window; returns its value if it has one.
    pub(super) fn count<T>(&mut self, result: Result<T, WindowRefusal>) -> Option<T> {
        match result {
            Ok(value) => {
                self.used += 1;
                Some(value)
            }
            Err(reason) => {
                self.refused[reason as usize] += 1;
                None
            }
        }
    }
}
