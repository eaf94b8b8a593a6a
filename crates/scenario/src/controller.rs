//! The congestion controller of a flow: one of Headway's, or one that only a kernel has.

use std::fmt;
use std::str::FromStr;

use headway_core::control::Kind;
use serde::{Deserialize, Deserializer};

/// What stands before the name of a kernel's controller.
const PREFIX: &str = "kernel:";
/// The longest name of a controller in Linux: `TCP_CA_NAME_MAX` without the zero at its end.
const LONGEST: usize = 15;
/// What a kernel's controller looks like in a scenario.
const FORM: &str = "`kernel:NAME` with a NAME of 1 to 15 characters out of a to z, 0 to 9, _ and -";

/// The controller of a flow; text such as `cubic` or `kernel:vegas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowController {
    /// One that the simulator has, too.
    Known(Kind),
    /// One that a kernel has under this name.
    Kernel(KernelController),
}

/// The name of a congestion control in a kernel: 1 to 15 characters out of `a` to `z`, `0` to `9`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelController(String);

impl KernelController {
    /// The name as the kernel knows it.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl FlowController {
    /// The kind, unless it is a kernel's.
    pub fn known(&self) -> Option<Kind> {
        match self {
            FlowController::Known(kind) => Some(*kind),
            FlowController::Kernel(_) => None,
        }
    }

    /// The kind that this is on Linux, where a kernel's `dctcp` and ours are the same.
    pub fn kind_on_linux(&self) -> Option<Kind> {
        match self {
            FlowController::Known(kind) => Some(*kind),
            FlowController::Kernel(controller) => controller.name().parse().ok(),
        }
    }
}

impl fmt::Display for FlowController {
    /// The text that reads back as the same controller.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowController::Known(kind) => kind.fmt(f),
            FlowController::Kernel(controller) => f.pad(&format!("{PREFIX}{}", controller.name())),
        }
    }
}

impl FromStr for FlowController {
    type Err = String;

    fn from_str(text: &str) -> Result<FlowController, String> {
        let Some(name) = text.trim().strip_prefix(PREFIX) else {
            let kind = text.parse().map(FlowController::Known);
            return kind.map_err(|error| format!("{error}, nor {FORM}"));
        };
        let usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if (1..=LONGEST).contains(&name.len()) && name.bytes().all(usual) {
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
