//! Kernel modules, compiled against the tree of a kernel and cached beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sha2::{Digest, Sha256};

use super::command::Runner;
use super::{BuildError, Kernel, cache, compile};

/// The subdirectory of compiled modules in a kernel's directory.
const MODULES: &str = "modules";
/// Files with build rules, in the order in which kbuild looks for them.
const RULES: [&str; 2] = ["Kbuild", "Makefile"];
/// Largest total size of a module's sources, in bytes; a larger directory was given by mistake.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the module with these sources, cached or newly compiled.
pub(super) fn compile(kernel: &Kernel, name: &str, sources: &[(&str, &str)]) -> Result<PathBuf, BuildError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(no_module(name, "a name has letters, digits, `_` and `-` only"));
    }
    if let Some((file, _)) = sources.iter().find(|(file, _)| file.starts_with('.') || !usable(file)) {
        return Err(no_module(
            name,
            &format!("`{file}` is not a valid source file name; use a plain name without folder"),
        ));
    }
    let rules =
        if sources.iter().any(|(file, _)| RULES.contains(file)) { None } else { Some(rules(name, sources)?) };
    let modules = kernel.folder.join(MODULES);
    let kept = modules.join(format!("{name}-{}", hash(sources)));
    let object = format!("{name}.ko");
    if kept.join(&object).is_file() {
        return Ok(kept.join(object));
    }
    // Two seconds of work need no interruption flag; a signal that ends this process ends the compiler too.
    let calm = AtomicBool::new(false);
    let _lock = cache::lock(&modules, &calm, &mut || ())?;
    if kept.join(&object).is_file() {
        return Ok(kept.join(object));
    }
    cache::sweep(&modules);
    // A fixed name and a relative path keep this machine's directories out of the module.
    let work = modules.join(format!("{}{name}", cache::UNFINISHED));
    std::fs::create_dir_all(&work).map_err(BuildError::file("make the folder", &work))?;
    let generated = rules.as_ref().map(|text| (RULES[0], text.as_str()));
    for (file, text) in sources.iter().copied().chain(generated) {
        let path = work.join(file);
        std::fs::write(&path, text).map_err(BuildError::file("write", &path))?;
    }
    let relative = format!("../{MODULES}/{}{name}", cache::UNFINISHED);
    let mut command = compile::make(&kernel.tree());
    // Warnings of the running module then show the bare file name.
    command
        .arg(format!("M={relative}"))
        .arg(format!("KCFLAGS=-fmacro-prefix-map={relative}/="))
        .arg("modules");
    let ended = Runner::without_log(&calm).run(command, &mut |_| ())?;
    if !ended.success {
        let _ = std::fs::remove_dir_all(&work);
        return Err(BuildError::Module {
            name: name.to_owned(),
            said: ended.errors().replace(&format!("{relative}/"), ""),
        });
    }
    if !work.join(&object).is_file() {
        let _ = std::fs::remove_dir_all(&work);
        return Err(no_module(
            name,
            &format!("its Kbuild does not build {object}; it needs a line `obj-m := {name}.o`"),
        ));
    }
    std::fs::rename(&work, &kept).map_err(BuildError::file("write", &kept))?;
    Ok(kept.join(object))
}

/// Returns the module whose sources are in a directory.
pub(super) fn compile_folder(kernel: &Kernel, folder: &Path) -> Result<PathBuf, BuildError> {
    let sources = read(folder)?;
    let sources: Vec<_> = sources.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    compile(kernel, &name_of(folder, &sources)?, &sources)
}

/// Reads all source files of a directory, sorted by name.
fn read(folder: &Path) -> Result<Vec<(String, String)>, BuildError> {
    let mut sources = Vec::new();
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(BuildError::file("read", folder))?.flatten() {
        let path = entry.path();
        let Ok(file) = entry.file_name().into_string() else { continue };
        // Skips leftovers of a compilation in that directory.
        if !path.is_file() || !usable(&file) || file.starts_with('.') || file.ends_with(".mod.c") {
            continue;
        }
        bytes += path.metadata().map_or(0, |data| data.len());
        if bytes > MAX_BYTES {
            return Err(no_module(
                &folder.display().to_string(),
                "its sources are larger than 16 MB; give a module's own folder",
            ));
        }
        let text =
            headway_input::text(&path, headway_input::SCENARIO).map_err(BuildError::file("read", &path))?;
        sources.push((file, text));
    }
    sources.sort();
    Ok(sources)
}

/// Whether a file can be a module's source, judging by its name.
fn usable(file: &str) -> bool {
    let source = [".c", ".h", ".S"].iter().any(|ending| file.ends_with(ending));
    (source || RULES.contains(&file)) && !file.contains('/')
}

/// Returns the name of the module in a directory.
fn name_of(folder: &Path, sources: &[(&str, &str)]) -> Result<String, BuildError> {
    let shown = folder.display().to_string();
    let rules = RULES.iter().find_map(|rule| sources.iter().find(|(file, _)| file == rule));
    if let Some((file, text)) = rules {
        let lines = text.lines().filter(|line| line.trim_start().starts_with("obj-m"));
        let object = lines.flat_map(str::split_whitespace).find_map(|word| word.strip_suffix(".o"));
        let why = || format!("its {file} has no line `obj-m := NAME.o`");
        return object
            .map(|name| name.rsplit('=').next().unwrap_or(name).to_owned())
            .ok_or_else(|| no_module(&shown, &why()));
    }
    match *stems(sources) {
        [] => Err(no_module(&shown, "there is no .c file in it")),
        [only] => Ok(only.to_owned()),
        _ => {
            let absolute = std::path::absolute(folder).map_err(BuildError::file("find", folder))?;
            let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
            name.ok_or_else(|| no_module(&shown, "a module of several files needs a Kbuild, which names it"))
        }
    }
}

/// Returns rules that make one module of all `.c` files.
fn rules(name: &str, sources: &[(&str, &str)]) -> Result<String, BuildError> {
    match *stems(sources) {
        [] => Err(no_module(name, "there is no .c file among its sources")),
        [only] if only == name => Ok(format!("obj-m := {name}.o\n")),
        ref parts if parts.contains(&name) => {
            let why = format!("it is made of several files, so none can be called {name}.c; rename that one");
            Err(no_module(name, &why))
        }
        ref parts => {
            let parts: Vec<_> = parts.iter().map(|part| format!("{part}.o")).collect();
            Ok(format!("obj-m := {name}.o\n{name}-y := {}\n", parts.join(" ")))
        }
    }
}

/// Returns the names of the `.c` files without the suffix.
fn stems<'a>(sources: &[(&'a str, &str)]) -> Vec<&'a str> {
    sources.iter().filter_map(|(file, _)| file.strip_suffix(".c")).collect()
}

/// Returns a hash of the names and texts of all sources.
fn hash(sources: &[(&str, &str)]) -> String {
    let mut hash = Sha256::new();
    for part in sources.iter().flat_map(|(file, text)| [file, text]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    cache::hex(&hash.finalize(), 8)
}

fn no_module(name: &str, why: &str) -> BuildError {
    BuildError::NoModule { name: format!("`{name}`"), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(folder: &Path) -> Kernel {
        Kernel { version: "6.12.1-1".to_owned(), folder: folder.to_owned() }
    }

    #[test]
    fn a_kept_module_is_found_by_its_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let kernel = kernel(folder.path());
        let sources = [("a.c", "int a;")];
        let kept = folder.path().join(MODULES).join(format!("a-{}", hash(&sources)));
        std::fs::create_dir_all(&kept).expect("a folder");
        std::fs::write(kept.join("a.ko"), "").expect("a file");
        assert_eq!(kernel.module("a", &sources).expect("it is kept"), kept.join("a.ko"));
        // There is no tree, so other sources, which would have to be compiled, fail.
        assert!(kernel.module("a", &[("a.c", "int b;")]).is_err());
        assert!(kernel.module("a", &[("a.c", "int a;"), ("b.h", "")]).is_err());
    }

    #[test]
    fn a_folder_names_its_module() {
        let name =
            |sources: &[(&str, &str)]| name_of(Path::new("/x/tcp_new"), sources).map_err(|e| e.to_string());
        assert_eq!(name(&[("tcp_a.c", ""), ("tcp_a.h", "")]).as_deref(), Ok("tcp_a"));
        assert_eq!(name(&[("a.c", ""), ("b.c", "")]).as_deref(), Ok("tcp_new"));
        assert_eq!(
            name(&[("Kbuild", "obj-m += tcp_b.o\ntcp_b-y := x.o"), ("x.c", "")]).as_deref(),
            Ok("tcp_b")
        );
        assert_eq!(name(&[("Makefile", "obj-m:=tcp_c.o"), ("x.c", "")]).as_deref(), Ok("tcp_c"));
        assert!(name(&[("a.h", "")]).expect_err("no source").contains("no .c file"));
    }

    #[test]
    fn rules_are_made_for_one_file_and_for_several() {
        let made = |sources: &[(&str, &str)]| rules("m", sources);
        assert_eq!(made(&[("m.c", "")]).expect("one file"), "obj-m := m.o\n");
        assert_eq!(
            made(&[("a.c", ""), ("b.c", ""), ("b.h", "")]).expect("two"),
            "obj-m := m.o\nm-y := a.o b.o\n"
        );
        assert!(made(&[("m.c", ""), ("b.c", "")]).expect_err("ambiguous").to_string().contains("rename"));
        assert!(kernel(Path::new("/")).module("../m", &[]).is_err());
        assert!(kernel(Path::new("/")).module("m", &[("../m.c", "")]).is_err());
    }
}
