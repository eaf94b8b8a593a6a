//! Kernel modules of ours, as sources.

use headway_arithmetic::HEADERS;

/// A module of one file and, where it computes what the simulator does, the headers of that arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel; that of the file is the same with `.c`.
    pub name: &'static str,
    text: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

impl Module {
    /// Names and texts of its sources.
    pub fn sources(&self) -> Vec<(String, &'static str)> {
        let own = (format!("{}.c", self.name), self.text);
        let headers = self.headers.iter().map(|(name, text)| ((*name).to_owned(), *text));
        std::iter::once(own).chain(headers).collect()
    }
}

/// What every guest loads: the records of links, the controller with a constant window and rate, and LS-AIMD.
pub const OWN_MODULES: [Module; 3] = [
    Module { name: "headway_record", text: include_str!("../linux/modules/headway_record.c"), headers: &[] },
    Module { name: "headway_fixed", text: include_str!("../linux/modules/headway_fixed.c"), headers: &[] },
    Module { name: "headway_ls", text: include_str!("../linux/modules/headway_ls.c"), headers: &HEADERS },
];
