//! Names of hosts and users in static programs.

use std::ffi::{CStr, c_char, c_int};

/// What is looked up by names, and where: in files, and hosts by DNS as well.
const SOURCES: [(&CStr, &CStr); 2] = [(c"hosts", c"files dns"), (c"passwd", c"files")];

/// Keeps a static program to the sources of names that it contains.
///
/// Its C library would load those that `/etc/nsswitch.conf` adds, but they are made for the C library of the host,
/// and with another one they end the program.
pub(crate) fn keep_to_own_sources() {
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    for (names, sources) in SOURCES {
        // SAFETY: both are C strings, which the C library copies. It can only lack memory, and then goes on as before.
        unsafe { __nss_configure_lookup(names.as_ptr(), sources.as_ptr()) };
    }
}
