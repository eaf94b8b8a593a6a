//! Errors of runs and of processing their results.

use headway_uml::kernel::BuildError;

/// The reason for a failure, as one sentence, with its causes as sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is invalid, or needs more memory than is available.
    #[error(transparent)]
    Scenario(#[from] headway_scenario::Error),
    /// The kernel for virtual time could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The emulated path failed.
    #[error(transparent)]
    Lab(#[from] headway_lab::Error),
    /// The work was cancelled before it produced a result.
    #[error("interrupted")]
    Cancelled,
    /// Anything else: a world does not support a request, or an operation failed.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl Error {
    pub(crate) fn other(reason: impl std::fmt::Display) -> Error {
        Error::Other(anyhow::anyhow!("{reason}"))
    }

    /// Whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled | Error::Build(BuildError::Interrupted))
    }

    /// Returns the message with all its causes.
    pub fn chain(&self) -> String {
        let causes = std::iter::successors(Some(self as &dyn std::error::Error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

macro_rules! from {
    ($($error:ty),*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::Other(error.into())
            }
        })*
    };
}

from!(
    std::io::Error,
    serde_json::Error,
    nix::errno::Errno,
    headway_units::ConfigError,
    headway_figures::CannotDraw,
    headway_kernel::Error,
    headway_uml::machine::GuestError,
    std::ffi::NulError,
    std::num::TryFromIntError
);

/// Returns an [`Error::Other`] with this message.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::error::Error::Other(anyhow::anyhow!($($text)*)))
    };
}

pub(crate) use bail;
