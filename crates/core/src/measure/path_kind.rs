//! What kind of path a measurement met, as far as its streams tell.

use std::fmt;

/// The kind of a path, which decides how an answer is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// The narrow link is the one whose queue grows.
    OneQueue,
    /// Another link than the narrow one is the tight one, or several queues fill together.
    SeveralQueues,
    /// The receiver coalesces interrupts.
    Coalescing,
    /// Delays jump from packet to packet more than a queue's do, or packets overtake each other.
    Jittery,
    /// A token bucket lets bursts pass faster than its sustained rate.
    Shaped,
    /// The path is faster than the receiver's stamps can resolve.
    TooFast,
}

impl PathKind {
    /// The name in machine output.
    pub const fn name(self) -> &'static str {
        match self {
            PathKind::OneQueue => "one-queue",
            PathKind::SeveralQueues => "several-queues",
            PathKind::Coalescing => "coalescing",
            PathKind::Jittery => "jittery",
            PathKind::Shaped => "shaped",
            PathKind::TooFast => "too-fast",
        }
    }

    /// A sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            PathKind::OneQueue => "one queue matters, that of the narrow link",
            PathKind::SeveralQueues => {
                "the link with the least free is not the narrow one, or several queues fill together"
            }
            PathKind::Coalescing => "one queue matters; the receiver coalesces interrupts",
            PathKind::Jittery => "delays vary where nothing queues, which hides small queues",
            PathKind::Shaped => "a shaper lets bursts pass, and then only its sustained rate",
            PathKind::TooFast => "the receiver's stamps cannot resolve more than this",
        }
    }
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
