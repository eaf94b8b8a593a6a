//! The kernel's configuration: `allnoconfig` plus our fragments.

use std::path::Path;

use super::command::Runner;
use super::compile::make;
use super::{BuildError, Options, Phase, Progress, cache, command};

/// Required options: those without which nothing runs, and those that are the purpose of a debug kernel.
const NEEDED: [&str; 6] =
    ["UML_TIME_TRAVEL_SUPPORT", "VETH", "NET_SCH_TBF", "NET_SCH_NETEM", "HOSTFS", "MODULES"];
const NEEDED_DEBUG: [&str; 2] = ["KASAN", "PROVE_LOCKING"];

/// Writes `.config` in the tree and checks that it has the required options.
pub(super) fn configure(
    runner: &mut Runner<'_>,
    options: &Options,
    version: &str,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let tree = folder.join(cache::TREE);
    // A relative program name would be resolved in our directory, not in the child's.
    let mut merge = command::program("sh", &tree);
    merge.env("ARCH", "um").args(["scripts/kconfig/merge_config.sh", "-m", ".config"]);
    let fragments: &[_] = if options.debug { &[cache::CONFIG, cache::DEBUG] } else { &[cache::CONFIG] };
    for (index, text) in fragments.iter().enumerate() {
        let path = folder.join(format!("fragment-{index}"));
        std::fs::write(&path, text).map_err(BuildError::file("write", &path))?;
        merge.arg(path);
    }
    let mut nothing = make(&tree);
    nothing.arg("allnoconfig");
    let mut rest = make(&tree);
    rest.arg("olddefconfig");
    let steps = [nothing, merge, rest];
    let total = steps.len() as u64;
    for (done, step) in steps.into_iter().enumerate() {
        progress(Progress { phase: Phase::Configure, done: done as u64, total });
        let ended = runner.run(step, &mut |_| ())?;
        if !ended.success {
            let log = cache::log(&options.cache);
            return Err(BuildError::Compile { version: version.to_owned(), said: ended.errors(), log });
        }
    }
    let path = tree.join(".config");
    let config = std::fs::read_to_string(&path).map_err(BuildError::file("read", &path))?;
    let names = absent(&config, options.debug);
    if names.is_empty() {
        return Ok(());
    }
    Err(BuildError::Config { version: version.to_owned(), names: names.join(", ") })
}

/// Returns the required options that a configuration lacks.
fn absent(config: &str, debug: bool) -> Vec<&'static str> {
    let more: &[_] = if debug { &NEEDED_DEBUG } else { &[] };
    let has =
        |name: &str| config.lines().any(|line| line.strip_prefix("CONFIG_") == Some(&format!("{name}=y")));
    NEEDED.iter().chain(more).copied().filter(|name| !has(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_fragments_ask_for_all_that_is_needed() {
        assert_eq!(absent(cache::CONFIG, false), [""; 0]);
        assert_eq!(absent(&[cache::CONFIG, cache::DEBUG].concat(), true), [""; 0]);
    }

    #[test]
    fn what_a_configuration_lacks_is_named() {
        let config = cache::CONFIG.replace("CONFIG_VETH=y", "# CONFIG_VETH is not set");
        assert_eq!(absent(&config, true), ["VETH", "KASAN", "PROVE_LOCKING"]);
    }
}
