//! The order in which something begins and ends, as data: a test stops after any step, and sees what is left.

use anyhow::Result;

/// Something that begins in steps, each of which needs those before it.
pub(crate) trait Life {
    /// A step.
    type Step: Copy + 'static;
    /// The steps whose work ends, one after the other.
    const END: &'static [Self::Step];

    /// Does a step.
    fn begin(&mut self, step: Self::Step) -> Result<()>;
    /// Undoes a step, if it was done.
    fn end(&mut self, step: Self::Step);
}

/// Something that lives: it ends when this is dropped, however far it came.
pub(crate) struct Living<L: Life>(pub(crate) L);

impl<L: Life> Living<L> {
    /// Begins with these steps. When one fails, what those before it have done ends.
    pub(crate) fn begin(life: L, steps: &[L::Step]) -> Result<Living<L>> {
        let mut living = Living(life);
        steps.iter().try_for_each(|step| living.0.begin(*step))?;
        Ok(living)
    }
}

impl<L: Life> Drop for Living<L> {
    fn drop(&mut self) {
        L::END.iter().for_each(|step| self.0.end(*step));
    }
}

/// What tests of steps share: each beginning is in a process of its own, which then ends or is killed.
#[cfg(test)]
pub(crate) mod testing {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::geteuid;

    /// Tells a process of a test how many steps it is to do, and where files are.
    const STEPS: &str = "HEADWAY_TEST_STEPS";

    /// Returns the arguments of this process, if it is one that is to begin.
    pub(crate) fn told() -> Option<(usize, PathBuf)> {
        let told = std::env::var(STEPS).ok()?;
        let (steps, folder) = told.split_once(' ').unwrap();
        Some((steps.parse().unwrap(), folder.into()))
    }

    /// Says that this process has begun, and waits for its end.
    pub(crate) fn wait() {
        println!("\nbegun");
        std::io::stdout().flush().unwrap();
        let _ = std::io::stdin().read(&mut [0]);
    }

    /// Enters a new network namespace with this thread, and returns whether there can be one.
    pub(crate) fn enter_namespace() -> bool {
        let enters = geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNET).is_ok();
        if enters {
            ip("link set lo up");
        } else {
            println!("skipped: only root may make network namespaces");
        }
        enters
    }

    /// Runs `ip`, and returns what it prints.
    pub(crate) fn ip(arguments: &str) -> String {
        let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {arguments}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the test of this name after each number of steps up to `most`, once to its end, and once until it
    /// is killed. `look` gets how many there are, and looks while it is there, and again when all its
    /// processes have ended, with whether it was killed.
    pub(crate) fn after_each(name: &str, most: usize, folder: &Path, look: impl Fn(usize, Option<bool>)) {
        for (steps, is_killed) in (0..=most).flat_map(|steps| [(steps, false), (steps, true)]) {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(STEPS, format!("{steps} {}", folder.display()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            while line != "begun\n" {
                line.clear();
                assert!(said.read_line(&mut line).unwrap() > 0, "it has ended after {steps} steps");
            }
            look(steps, None);
            if is_killed {
                child.kill().unwrap();
            }
            drop(child.stdin.take());
            child.wait().unwrap();
            // Its other processes have it open, too.
            said.read_to_string(&mut line).unwrap();
            look(steps, Some(is_killed));
        }
    }
}
