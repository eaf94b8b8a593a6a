//! The congestion controller of a flow: one of Headway's, or one that exists only in a kernel.

use std::fmt;
use std::str::FromStr;

use headway_control::{Kind, ParseKindError};
use serde::{Deserialize, Deserializer};

/// Prefix of the name of a kernel controller.
const PREFIX: &str = "kernel:";
/// Longest controller name in Linux: `TCP_CA_NAME_MAX` without the terminating NUL.
const MAX_NAME_LENGTH: usize = 15;
/// Syntax of a kernel controller in a scenario, for error messages.
const FORM: &str = "`kernel:NAME` with a NAME of 1 to 15 characters out of a to z, 0 to 9, _ and -";

/// The congestion controller of a flow, written as `cubic` or `kernel:vegas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowController {
    /// A controller that the simulator implements, too.
    Known(Kind),
    /// A controller that only the kernel has, by its name there.
    Kernel(KernelController),
}

/// The name of a kernel's congestion controller, perhaps behind `fraction-`: 1 to 15 characters from `a` to
/// `z`, `0` to `9`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelController(String);

/// What stands before the name of a controller whose window is to have fractions below two segments.
const FRACTION: &str = "fraction-";

impl KernelController {
    /// Returns the name under which the kernel registers the controller.
    pub fn name(&self) -> &str {
        self.0.strip_prefix(FRACTION).unwrap_or(&self.0)
    }

    /// Whether its window has fractions below two segments: `fraction-reno` for the kernel's `reno`.
    pub fn is_fractional(&self) -> bool {
        self.0.starts_with(FRACTION)
    }
}

impl FlowController {
    /// Returns the built-in kind; `None` for a kernel controller.
    pub fn known(&self) -> Option<Kind> {
        match self {
            FlowController::Known(kind) => Some(*kind),
            FlowController::Kernel(_) => None,
        }
    }

    /// Returns the built-in kind with the same name on Linux, where `dctcp` and `kernel:dctcp` are the same.
    pub fn linux_kind(&self) -> Option<Kind> {
        match self {
            FlowController::Known(kind) => Some(*kind),
            FlowController::Kernel(controller) => controller.name().parse().ok(),
        }
    }
}

impl From<Kind> for FlowController {
    fn from(kind: Kind) -> FlowController {
        FlowController::Known(kind)
    }
}

impl fmt::Display for FlowController {
    /// Writes the text that parses back to the same controller.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowController::Known(kind) => kind.fmt(f),
            FlowController::Kernel(controller) => f.pad(&format!("{PREFIX}{}", controller.0)),
        }
    }
}

impl FromStr for FlowController {
    type Err = String;

    fn from_str(text: &str) -> Result<FlowController, String> {
        let Some(name) = text.trim().strip_prefix(PREFIX) else {
            return text.parse().map(FlowController::Known).map_err(|error| match error {
                ParseKindError::Similar { .. } => {
                    format!("{error} (one that only a kernel has is written `kernel:NAME`)")
                }
                _ => format!("{error}, nor {FORM}"),
            });
        };
        let usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        let length = name.strip_prefix(FRACTION).unwrap_or(name).len();
        if (1..=MAX_NAME_LENGTH).contains(&length) && name.bytes().all(usual) {
            Ok(FlowController::Kernel(KernelController(name.to_owned())))
        } else {
            Err(format!("`{text}` is not {FORM}"))
        }
    }
}

impl<'de> Deserialize<'de> for FlowController {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FlowController, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
