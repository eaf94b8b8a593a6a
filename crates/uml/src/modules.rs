//! The sources of our kernel modules.

use headway_arithmetic::{EXPLICIT_HEADERS, HEADERS, RAPID_HEADERS};

type Header = (&'static str, &'static str);

/// A module of one file, plus headers: its own, and those of the arithmetic that it shares with the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel; the file has the same name with `.c`.
    pub name: &'static str,
    text: &'static str,
    headers: &'static [&'static [Header]],
}

impl Module {
    /// Returns the names and texts of its sources.
    pub fn sources(&self) -> Vec<(String, &'static str)> {
        let own = (format!("{}.c", self.name), self.text);
        let headers = self.headers.iter().copied().flatten().map(|(name, text)| ((*name).to_owned(), *text));
        std::iter::once(own).chain(headers).collect()
    }
}

/// What both modules with LS-AIMD include.
const LS_SOCKET: &[Header] = &[("ls_socket.h", include_str!("../linux/modules/ls_socket.h"))];
/// What queue disciplines include.
const OPTIONS: &[Header] = &[("options.h", include_str!("../linux/modules/options.h"))];

/// The modules that every guest loads: link records, the controller with constant window or rate, LS-AIMD,
/// the engine of windows below two segments, explicit routers with the ends of their connections, Rapid,
/// the cards of receivers, and lines that PAUSE frames fill.
pub const OWN_MODULES: [Module; 9] = [
    Module { name: "headway_record", text: include_str!("../linux/modules/headway_record.c"), headers: &[] },
    Module { name: "headway_fixed", text: include_str!("../linux/modules/headway_fixed.c"), headers: &[] },
    Module {
        name: "headway_ls",
        text: include_str!("../linux/modules/headway_ls.c"),
        headers: &[&HEADERS, LS_SOCKET],
    },
    Module {
        name: "headway_fraction",
        text: include_str!("../linux/modules/headway_fraction.c"),
        headers: &[&HEADERS, LS_SOCKET],
    },
    Module {
        name: "headway_router",
        text: include_str!("../linux/modules/headway_router.c"),
        headers: &[&EXPLICIT_HEADERS, OPTIONS],
    },
    Module {
        name: "headway_end",
        text: include_str!("../linux/modules/headway_end.c"),
        headers: &[&EXPLICIT_HEADERS],
    },
    Module {
        name: "headway_rapid",
        text: include_str!("../linux/modules/headway_rapid.c"),
        headers: &[&RAPID_HEADERS],
    },
    Module {
        name: "headway_card",
        text: include_str!("../linux/modules/headway_card.c"),
        headers: &[OPTIONS],
    },
    Module {
        name: "headway_line",
        text: include_str!("../linux/modules/headway_line.c"),
        headers: &[OPTIONS],
    },
];
