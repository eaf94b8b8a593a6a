//! Errors of runs and of processing their results.

use std::error::Error as StdError;
use std::fmt::Display;

use headway_uml::kernel::BuildError;

/// The reason for a failure, as one sentence, with its causes as sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is invalid, or needs more memory than is available.
    #[error(transparent)]
    Scenario(#[from] headway_scenario::Error),
    /// A world does not support a request.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel for virtual time could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The emulated path failed.
    #[error(transparent)]
    Lab(#[from] headway_lab::Error),
    /// An operation failed; `source` has the reason.
    #[error("{action}")]
    Failed {
        /// The operation, as in "cannot write x".
        action: String,
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// An operation failed, without further context.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
    /// The work was cancelled before it produced a result.
    #[error("interrupted")]
    Cancelled,
}

impl Error {
    pub(crate) fn other(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Other(source.into())
    }

    /// Whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled | Error::Build(BuildError::Interrupted))
    }

    /// Returns the message with all its causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }
}

macro_rules! from {
    ($($error:ty),*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::other(error)
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
    headway_uml::machine::GuestError,
    std::ffi::NulError,
    std::num::TryFromIntError
);

/// Adds the failed operation to an error.
pub(crate) trait Context<T> {
    /// Adds this description.
    fn context(self, action: impl Display) -> Result<T, Error>;

    /// Adds a description that is only built on failure.
    fn with_context<D: Display>(self, action: impl FnOnce() -> D) -> Result<T, Error>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, action: impl Display) -> Result<T, Error> {
        self.with_context(|| action)
    }

    fn with_context<D: Display>(self, action: impl FnOnce() -> D) -> Result<T, Error> {
        self.map_err(|source| Error::Failed { action: action().to_string(), source: source.into() })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, action: impl Display) -> Result<T, Error> {
        self.with_context(|| action)
    }

    fn with_context<D: Display>(self, action: impl FnOnce() -> D) -> Result<T, Error> {
        self.ok_or_else(|| Error::Unsupported(action().to_string()))
    }
}

/// Returns an `Error::Unsupported` with this message.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::error::Error::Unsupported(format!($($text)*)))
    };
}

pub(crate) use bail;
