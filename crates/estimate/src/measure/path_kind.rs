//! The kind of path that the streams of a measurement reveal.

/// The kind of a path, which affects the interpretation of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PathKind {
    /// The queue grows at the narrow link.
    OneQueue,
    /// A single queue at the narrow link or several: the streams do not tell, and the interval covers both.
    UnknownQueues,
    /// The tight link is not the narrow one, or several queues fill together.
    SeveralQueues,
    /// The receiver coalesces interrupts.
    Coalescing,
    /// The path delivers nothing for moments.
    Stalls,
    /// Delays vary from packet to packet by more than a queue can explain, or packets overtake each other.
    Jittery,
    /// A token bucket lets bursts exceed its sustained rate.
    Shaped,
    /// A token bucket lets bursts pass and drops what exceeds its rate.
    Policed,
    /// The path is faster than the receiver's timestamps can resolve.
    TooFast,
}

impl PathKind {
    /// Returns the name in machine-readable output.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns a description for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            PathKind::OneQueue => "a single queue, at the narrow link",
            PathKind::UnknownQueues => "a single queue or several: the interval allows for both",
            PathKind::SeveralQueues => {
                "the tight link is not the narrow link, or several queues fill together"
            }
            PathKind::Coalescing => "a single queue; the receiver coalesces interrupts",
            PathKind::Stalls => "the path stalls: for moments nothing arrives",
            PathKind::Jittery => "delays vary even without queueing, which hides small queues",
            PathKind::Shaped => "a shaper passes bursts, then limits to its sustained rate",
            PathKind::Policed => "a policer passes bursts, then drops what exceeds its rate",
            PathKind::TooFast => "the receiver's timestamps cannot resolve higher rates",
        }
    }
}
