//! Commands of the documentation have scenarios that can be changed as they say, and those that need no
//! network and no time run.

use std::process::Command;

use headway_scenario::{Change, Scenario};

use crate::pages::{commands, repository};
use crate::support::{PROGRAM, text};

#[test]
fn every_scenario_of_a_documented_command_can_be_changed_as_it_says() {
    for documented in commands("headway").iter().filter(|documented| documented.is_whole) {
        let Some(file) = documented.words.get(2).filter(|file| file.starts_with("scenarios/")) else {
            continue;
        };
        let path = repository().join(file);
        assert!(path.exists(), "{}: there is no {file}", documented.place);
        if ["run", "compare"].contains(&&*documented.words[1]) {
            let set = documented.words.windows(2).filter(|pair| pair[0] == "--set");
            let changes: Vec<Change> = set.map(|pair| pair[1].parse().unwrap()).collect();
            if let Err(error) = Scenario::load(&path, &changes) {
                panic!("{}: {error}", documented.place);
            }
        }
    }
}

#[test]
fn documented_simulations_of_a_moment_run_as_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["scenarios", "examples"] {
        std::os::unix::fs::symlink(repository().join(name), folder.path().join(name)).unwrap();
    }
    let quick = [
        "dumbbell-cubic.toml --on sim",
        "dumbbell.toml --dry-run",
        "explicit.toml --on sim",
        "ls-dctcp.toml --on sim",
    ];
    let whole = commands("headway").into_iter().filter(|documented| documented.is_whole);
    let chosen = whole.filter(|documented| quick.iter().any(|end| documented.words.join(" ").ends_with(end)));
    let mut run = 0;
    for documented in chosen {
        let ended =
            Command::new(PROGRAM).args(&documented.words[1..]).current_dir(folder.path()).output().unwrap();
        assert!(ended.status.success(), "{}\n{}", documented.place, text(&ended.stderr));
        run += 1;
    }
    assert!(run >= quick.len(), "{run} of these commands are documented");
}
