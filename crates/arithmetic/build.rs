//! Compiles the C headers shared with the kernel into this crate.

fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .files([
            "c/explicit.c",
            "c/explicit_end.c",
            "c/explicit_wire.c",
            "c/flow.c",
            "c/ls_aimd.c",
            "c/rapid.c",
            "c/wide_portable.c",
        ])
        .flag_if_supported("-std=c11")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .opt_level(2)
        .compile("headway_arithmetic");
}
