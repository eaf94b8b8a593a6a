//! The stub of the native module has all that the module exports; `mypy.stubtest` compares their signatures
//! where there is a Python (`make python`).
//!
//! This is also what makes `cargo test` build the library that the tests of the package load.

const MODULE: &str = include_str!("../src/lib.rs");
const STUB: &str = include_str!("../python/headway/_headway.pyi");

/// Returns the names that the module exports.
fn exported() -> Vec<&'static str> {
    let uses = MODULE.split("#[pymodule_export]").skip(1).filter_map(|text| text.split(';').next());
    let names = uses.filter_map(|one| one.rsplit("::").next());
    names.flat_map(|names| names.trim_matches(['{', '}']).split(',')).map(str::trim).collect()
}

#[test]
fn everything_exported_is_in_the_stub() {
    let names = exported();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let declared = [format!("def {name}("), format!("class {name}:"), format!("class {name}(")];
        assert!(declared.iter().any(|text| STUB.contains(text)), "`{name}` is not declared");
        assert!(STUB.contains(&format!("    \"{name}\",")), "`{name}` is not in `__all__`");
    }
}
