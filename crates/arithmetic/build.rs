//! Compiles the C headers shared with the kernel into this crate.

fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .files(["c/exports.c", "c/wide_portable.c"])
        .flag_if_supported("-std=c11")
        // Clang would have no table in a function that is a symbol; there is one file, so it is the same table.
        .flag_if_supported("-Wno-static-in-inline")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .opt_level(2)
        .compile("headway_arithmetic");
}
