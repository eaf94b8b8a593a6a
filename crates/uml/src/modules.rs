//! Kernel modules of ours, as sources.

/// A module of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel.
    pub name: &'static str,
    /// Name of the file.
    pub file: &'static str,
    /// The file.
    pub text: &'static str,
}

/// What every guest loads: the records of links, and the controller with a constant window and rate.
pub const OWN_MODULES: [Module; 2] = [
    Module {
        name: "headway_record",
        file: "headway_record.c",
        text: include_str!("../linux/modules/headway_record.c"),
    },
    Module {
        name: "headway_fixed",
        file: "headway_fixed.c",
        text: include_str!("../linux/modules/headway_fixed.c"),
    },
];
