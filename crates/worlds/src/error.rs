//! Why a run, or what is done with its results, failed.

use std::error::Error as StdError;
use std::fmt::Display;

use headway_uml::kernel::BuildError;

/// Why something could not be done, as one sentence with its causes behind it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is wrong, or needs more memory than there is.
    #[error(transparent)]
    Scenario(#[from] headway_scenario::Error),
    /// A world cannot do what it was asked.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel in virtual time could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The emulated path failed.
    #[error(transparent)]
    Lab(#[from] headway_lab::Error),
    /// Something else failed; the cause says why.
    #[error("{action}")]
    Failed {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Something else failed, and there is no more to say about it.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
    /// The work was cancelled before it had a result.
    #[error("interrupted")]
    Cancelled,
}

impl Error {
    pub(crate) fn other(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Other(source.into())
    }

    /// Whether the work ended because it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled | Error::Build(BuildError::Interrupted))
    }

    /// The sentence with all its causes.
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
    headway_core::Mistake,
    headway_figures::CannotDraw,
    headway_uml::machine::GuestError,
    std::ffi::NulError,
    std::num::TryFromIntError
);

/// Says what was tried when something failed.
pub(crate) trait Context<T> {
    /// With these words.
    fn context(self, action: impl Display) -> Result<T, Error>;

    /// With words that are made only in case of failure.
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

/// Returns an error with this sentence.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::error::Error::Unsupported(format!($($text)*)))
    };
}

pub(crate) use bail;
