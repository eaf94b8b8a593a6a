//! Checks for the programs that a build needs.

use std::ffi::OsStr;
use std::path::Path;

use super::BuildError;

/// Programs and the packages that contain them.
const PROGRAMS: [(&str, &str); 12] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("xz", "xz-utils"),
    ("tar", "tar"),
    ("awk", "mawk"),
    ("sed", "sed"),
    ("gzip", "gzip"),
    ("perl", "perl-base"),
];

/// A file that shows that the C library's headers are installed.
const HEADER: &str = "/usr/include/stdlib.h";

/// Checks that everything is installed; the error names everything that is missing.
pub(super) fn check() -> Result<(), BuildError> {
    check_in(&std::env::var_os("PATH").unwrap_or_default(), Path::new(HEADER))
}

fn check_in(path: &OsStr, header: &Path) -> Result<(), BuildError> {
    if ["apt-get", "dpkg"].iter().any(|program| !has(path, program)) {
        return Err(BuildError::NotDebian);
    }
    let mut missing: Vec<_> = PROGRAMS.into_iter().filter(|(program, _)| !has(path, program)).collect();
    if !header.exists() {
        missing.push(("the headers of the C library", "libc6-dev"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    let many = names.len() > 1 || !header.exists();
    let what = format!("{} {}", listed(&names), if many { "are" } else { "is" });
    Err(BuildError::Missing { what, many, packages: packages.join(" ") })
}

/// Whether `program` is in one of the directories of `path`.
pub(super) fn has(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

/// Formats a list: `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_is_missing_is_named_in_one_sentence_with_its_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        for program in
            ["apt-get", "dpkg", "make", "gcc", "patch", "tar", "awk", "sed", "gzip", "perl", "xz", "flex"]
        {
            File::create(folder.path().join(program)).expect("a file");
        }
        let header = folder.path().join("make");
        let path = folder.path().as_os_str();
        let error = check_in(path, &header).expect_err("bison and bc are missing").to_string();
        assert_eq!(
            error,
            "bison and bc are missing to build the kernel; install them with: apt-get install --no-install-recommends bison bc"
        );
        for program in ["bison", "bc"] {
            File::create(folder.path().join(program)).expect("a file");
        }
        assert!(check_in(path, &header).is_ok());
        let error = check_in(path, Path::new("/no/such/header")).expect_err("no headers").to_string();
        assert!(error.starts_with("the headers of the C library are missing"), "{error}");
        assert!(error.ends_with(" libc6-dev"), "{error}");
    }

    #[test]
    fn without_apt_the_reason_is_that_this_is_not_debian() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = check_in(folder.path().as_os_str(), Path::new(HEADER)).expect_err("nothing is there");
        assert!(matches!(error, BuildError::NotDebian));
    }
}
