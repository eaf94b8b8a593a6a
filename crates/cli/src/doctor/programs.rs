//! Which programs are installed: those with the commands, and those that they start.

use headway_program::family::{ALL, find};

use super::fact::{Fact, Grade};

/// What building a kernel for virtual time takes, besides libraries, as Debian's packages and their commands.
const BUILD: [(&str, &str); 7] = [
    ("gcc", "cc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("xz-utils", "xz"),
];

pub(super) fn facts() -> Vec<Fact> {
    vec![family(), tools()]
}

fn family() -> Fact {
    let place = |file: std::path::PathBuf| file.display().to_string();
    let all = ALL.map(|program| match program.file() {
        Some(file) => place(file),
        None => format!("no {}", program.name),
    });
    let missing = ALL.into_iter().filter(|program| program.file().is_none());
    missing.fold(Fact::new("programs", all.join(", ")), |fact, program| {
        let name = program.name;
        let commands: Vec<&str> = program.commands.iter().map(|(command, _)| *command).collect();
        let remedy = format!("install the Debian package {name}");
        fact.with(Grade::Fails, &commands, format!("{name} is not installed"), remedy)
    })
}

fn tools() -> Fact {
    let ip = find("ip");
    let missing: Vec<&str> =
        BUILD.iter().filter(|(_, command)| find(command).is_none()).map(|(package, _)| *package).collect();
    let has_ip = if ip.is_some() { "`ip`" } else { "no `ip`" };
    let build = match &missing[..] {
        [] => "all that builds a kernel for virtual time".to_owned(),
        missing => format!("nothing to build a kernel for virtual time with (no {})", missing.join(", ")),
    };
    let mut fact = Fact::new("tools", format!("{has_ip}; {build}"));
    if ip.is_none() {
        fact = fact
            .with(Grade::Fails, &["lab", "demo"], "there is no `ip`", "install the package iproute2")
            .with(
                Grade::Limits,
                &["run", "sweep", "compare"],
                "not `--on lab`: there is no `ip`",
                "install the package iproute2",
            );
    }
    if !missing.is_empty() {
        let remedy = format!("install {}", missing.join(" "));
        fact = fact
            .with(
                Grade::Limits,
                &["uml"],
                "it finds a kernel that was built before, and builds none",
                &*remedy,
            )
            .with(
                Grade::Limits,
                &["run", "sweep", "compare"],
                "`--on uml` only with a kernel that was built before",
                remedy,
            );
    }
    fact
}
