//! The file of the policy, which is looked at again and again.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use anyhow::{Result, bail};
use headway_edge::Policy;

/// How often the file is looked at. Editors rename files, which a watch of one file loses.
const EVERY: Duration = Duration::from_millis(500);
/// Most bytes of a policy: 32 classes with all their conditions have some ten thousand.
const LARGEST: u64 = 1 << 20;

/// What changes with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    is_file: bool,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            is_file: metadata.is_file(),
        }
    }
}

/// The file of a policy, and what is known of it.
#[derive(Debug)]
struct PolicyFile {
    path: PathBuf,
    /// As which it was read last; none where it could not be looked at.
    stamp: Option<Stamp>,
    looked: Clock,
    /// The mistake that was last reported.
    told: Option<String>,
}

impl PolicyFile {
    /// Reads a file for the first time.
    ///
    /// # Errors
    /// When it cannot be read, or has a mistake.
    fn open(path: &Path) -> Result<(PolicyFile, Policy)> {
        let stamp = stamp(path);
        let policy = read(path)?;
        Ok((PolicyFile { path: path.to_owned(), stamp, looked: Clock::now(), told: None }, policy))
    }

    /// Returns why this process would not see a change, if so: it may have given up the
    /// right to read the file.
    fn is_out_of_reach(&self) -> Option<String> {
        let refused = headway_input::open(&self.path, LARGEST).err()?;
        let path = self.path.display();
        Some(format!(
            "changes of {path} will not be seen: {refused}. The edge is the user `nobody` by now, and needs to be able to read \
             the file and to enter its folders: `chmod o+r {path}`, or put it into /etc/headway"
        ))
    }

    /// Looks at the file if it is time to, or reads it `now`. Returns the policy if it is another one, or a
    /// mistake that was not told yet or that somebody asks for.
    fn look(&mut self, now: bool) -> Option<Result<Policy, String>> {
        if !now && self.looked.elapsed() < EVERY {
            return None;
        }
        self.looked = Clock::now();
        let stamp = stamp(&self.path);
        if !now && stamp.is_some() && stamp == self.stamp {
            return None;
        }
        // An empty one is being written, and all keys have defaults.
        if stamp.is_some_and(|stamp| stamp.is_file && stamp.size == 0) {
            return None;
        }
        self.stamp = stamp;
        match read(&self.path) {
            Ok(policy) => {
                self.told = None;
                Some(Ok(policy))
            }
            Err(mistake) => {
                let mistake = format!("{mistake:#}");
                (now || self.told.as_ref() != Some(&mistake)).then(|| {
                    self.told = Some(mistake.clone());
                    Err(mistake)
                })
            }
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    std::fs::metadata(path).ok().as_ref().map(Stamp::of)
}

fn read(path: &Path) -> Result<Policy> {
    let name = path.display();
    let text = headway_input::text(path, LARGEST).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "cannot read {name}: {error}; once it runs, the edge is the user `nobody`: `chmod o+r {name}`, and its folders must \
             let others in"
        ),
        _ => anyhow::anyhow!("cannot read {name}: {error}"),
    })?;
    let policy = Policy::parse(&text, path)?;
    if policy.literal {
        bail!(
            "{name}: `literal` is the algorithm as it was printed, which never raises a window again; leave it out, or compare \
             both in a simulation"
        );
    }
    if policy.delta > 1.0 {
        bail!(
            "{name}: `delta`: above 1, windows hold more than the link carries (wan F74); that is for simulations"
        );
    }
    Ok(policy)
}

/// The policy that holds, and the file from which it is, if it is from one.
#[derive(Debug)]
pub(super) struct Rules {
    file: Option<PolicyFile>,
    /// With which the edge began, but for what can change.
    begun: Policy,
    /// What holds now.
    pub(super) policy: Policy,
}

impl Rules {
    /// Reads the policy, if there is a file.
    ///
    /// # Errors
    /// When it cannot be read, or has a mistake.
    pub(super) fn open(path: Option<&Path>) -> Result<Rules> {
        let (file, policy) = path.map(PolicyFile::open).transpose()?.unzip();
        let policy = policy.unwrap_or_default();
        Ok(Rules { file, begun: policy.clone(), policy })
    }

    /// Returns why changes would not be seen, if so.
    pub(super) fn is_out_of_reach(&self) -> Option<String> {
        self.file.as_ref()?.is_out_of_reach()
    }

    /// Takes another policy if there is one, or if somebody says `now`. Returns what of it does not hold, as
    /// sentences, or its mistake.
    pub(super) fn look(&mut self, now: bool) -> Option<Result<Vec<String>, String>> {
        let wanted = self.file.as_mut()?.look(now)?;
        Some(wanted.map(|wanted| {
            let unchanged = unchanged(&self.begun, &wanted);
            self.policy = kept(&self.begun, wanted);
            unchanged
        }))
    }
}

/// Returns a policy with what does not change while the edge runs.
fn kept(running: &Policy, mut wanted: Policy) -> Policy {
    wanted.shape = running.shape;
    if !running.splits() {
        wanted.class.iter_mut().for_each(|class| class.split = None);
    }
    wanted
}

/// Returns what of a policy does not change while the edge runs, as sentences.
fn unchanged(running: &Policy, wanted: &Policy) -> Vec<String> {
    let options = [
        ("no-shrink", running.no_shrink, wanted.no_shrink),
        ("follow-rtt", running.follow_rtt, wanted.follow_rtt),
        ("shape", running.shape, wanted.shape),
    ];
    let differs = options.into_iter().filter(|(_, running, wanted)| running != wanted);
    let sentence = |(key, running, _)| {
        format!("`{key}` stays {running} while the edge runs; start it again to change that")
    };
    let splits = (!running.splits() && wanted.splits())
        .then(|| "`split` has no effect while the edge runs; start it again to change that".to_owned());
    differs.map(sentence).chain(splits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[class]]\nname = \"one\"\nshare = 0.5\n";

    fn folder_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn a_changed_file_is_read_and_one_that_is_not_changed_is_not() {
        let (folder, path) = folder_with(ONE);
        let (mut file, policy) = PolicyFile::open(&path).unwrap();
        assert_eq!(policy.class[0].share, 0.5);
        assert!(file.look(false).is_none());
        // As editors do it: another file gets the name.
        let other = folder.path().join("other");
        std::fs::write(&other, ONE.replace("0.5", "0.25")).unwrap();
        std::fs::rename(&other, &path).unwrap();
        file.looked -= EVERY;
        assert_eq!(file.look(false).unwrap().unwrap().class[0].share, 0.25);
        file.looked -= EVERY;
        assert!(file.look(false).is_none());
        // A signal has it read in any case.
        assert!(file.look(true).unwrap().is_ok());
    }

    #[test]
    fn a_mistake_is_told_once_with_its_line_and_key() {
        let (_folder, path) = folder_with(ONE);
        let (mut file, _) = PolicyFile::open(&path).unwrap();
        std::fs::write(&path, "[classifier]\nsteady = 3.0\n").unwrap();
        let mistake = file.look(true).unwrap().unwrap_err();
        assert!(mistake.contains("line 2") && mistake.contains("`classifier.steady`"), "{mistake}");
        file.looked -= EVERY;
        assert!(file.look(false).is_none());
        assert!(file.look(true).is_some(), "somebody asks");
        std::fs::write(&path, "").unwrap();
        assert!(file.look(true).is_none(), "it is being written");
        std::fs::remove_file(&path).unwrap();
        assert!(file.look(true).unwrap().unwrap_err().contains("cannot read"));
        std::fs::write(&path, ONE).unwrap();
        assert!(file.look(true).unwrap().is_ok());
        for (text, words) in [("literal = true", "simulation"), ("delta = 1.1", "F74")] {
            std::fs::write(&path, text).unwrap();
            assert!(file.look(true).unwrap().unwrap_err().contains(words), "{text}");
        }
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        let (_folder, path) = folder_with(ONE);
        let (mut file, _) = PolicyFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        file.looked -= EVERY;
        assert!(file.look(false).unwrap().unwrap_err().contains("not a regular file"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, vec![b'#'; LARGEST as usize + 1]).unwrap();
        assert!(file.look(true).unwrap().unwrap_err().contains("larger than 1 MB"));
    }

    #[test]
    fn what_stays_is_named() {
        let changed = Policy { no_shrink: true, delta: 0.5, ..Policy::default() };
        let said = unchanged(&Policy::default(), &changed);
        assert!(matches!(&said[..], [one] if one.contains("`no-shrink` stays false")), "{said:?}");
        // Without a relay at the beginning, there is none later.
        let splits = toml::from_str("[[class]]\nname = \"all\"\nshare = 1.0\nsplit = \"always\"\n").unwrap();
        let said = unchanged(&Policy::default(), &splits);
        assert!(matches!(&said[..], [one] if one.contains("`split` has no effect")), "{said:?}");
        assert!(kept(&splits, splits.clone()).splits() && !kept(&Policy::default(), splits).splits());
    }
}
