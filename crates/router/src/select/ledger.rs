//! What was sent to measure paths, in a file, so that budgets hold over restarts.
//!
//! The wall clock is used only for the age of what was sent before the start; what it says to be of the
//! future counts as sent just now.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_select::Spending;
use headway_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

/// Time between two writes: flash memories wear out.
const PAUSE: Span = Span::from_secs(60);
/// Most bytes of a file: 64 paths have some 300 kB.
pub(super) const LARGEST: u64 = 4 << 20;
/// Number of the form of the file.
const VERSION: u32 = 1;
/// What was sent within so much of an hour, and of 30 days, is one number in the file, in ms.
const PARTS: [u64; 2] = [60_000, 12 * 3_600_000];
/// The oldest that counts, in ms.
const OLDEST: u64 = 30 * 86_400_000;
/// Most bytes of a part: more than any path carries in a day, and too few for a sum to overflow.
const MOST: u64 = 1 << 50;

/// The content of the file: for each path, times since 1970 in ms and bytes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    paths: BTreeMap<String, Sent>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    hour: BTreeMap<u64, u64>,
    month: BTreeMap<u64, u64>,
    /// What the interface has carried, where that is limited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    carried: BTreeMap<u64, u64>,
}

/// Both clocks, read at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By the clock of the selector, which must be later than 30 days.
    pub(super) here: Instant,
    /// Since 1970.
    pub(super) wall: Instant,
}

/// The file.
#[derive(Debug)]
pub(super) struct Ledger {
    kept: Kept,
    written: Option<Clock>,
}

impl Ledger {
    /// Reads the file, if there is one; a sentence says why its content is ignored.
    pub(super) fn open(path: &Path) -> (Ledger, Option<String>) {
        let (kept, why) = match read(path) {
            Ok(kept) => (kept, None),
            Err(mistake) => {
                let sentence = format!(
                    "{} is ignored, so what was sent before does not count: {mistake:#}",
                    path.display()
                );
                (Kept::default(), Some(sentence))
            }
        };
        (Ledger { kept, written: None }, why)
    }

    /// Returns what was sent to measure the path of this name.
    pub(super) fn spending(&self, name: &str, now: Now) -> Spending {
        let Some(sent) = self.kept.paths.get(name) else { return Spending::default() };
        let restored = |sent: &BTreeMap<u64, u64>| {
            let recent =
                sent.iter().map(|(at, bytes)| (age(*at, now), *bytes)).filter(|(age, _)| *age < OLDEST);
            recent.map(|(age, bytes)| (now.here - from_ms(age), Bytes::new(bytes.min(MOST)))).collect()
        };
        Spending {
            hour: restored(&sent.hour),
            month: restored(&sent.month),
            carried: restored(&sent.carried),
        }
    }

    /// Returns what is to be written of what was sent to measure each path, if the last time is long ago or
    /// this is the end, and anything was sent since.
    pub(super) fn keep<'a>(
        &mut self,
        now: Now,
        is_end: bool,
        spent: impl Iterator<Item = (&'a str, Spending)>,
    ) -> Option<String> {
        if !is_end && self.written.is_some_and(|written| written.elapsed() < PAUSE) {
            return None;
        }
        self.written = Some(Clock::now());
        let paths = spent.map(|(name, spending)| (name.to_owned(), merged(&spending, now))).collect();
        let kept = Kept { version: VERSION, paths };
        if kept == self.kept {
            return None;
        }
        self.kept = kept;
        serde_json::to_string(&self.kept).ok()
    }
}

fn read(path: &Path) -> Result<Kept> {
    let text = match headway_input::text(path, LARGEST) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept::default()),
        text => text?,
    };
    let kept: Kept = serde_json::from_str(&text).context("it is no file of `headway select`")?;
    anyhow::ensure!(kept.version == VERSION, "it is of version {}", kept.version);
    Ok(kept)
}

/// Replaces the file in one step.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(path: &Path, text: &[u8]) -> Result<()> {
    replace(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Returns how long ago a time since 1970 was, in ms; none of the future.
fn age(at: u64, now: Now) -> u64 {
    (now.wall.ns() / 1_000_000).saturating_sub(at)
}

fn from_ms(ms: u64) -> Duration {
    Duration::from_ms(i64::try_from(ms).unwrap_or(i64::MAX / 1_000_000))
}

/// Returns what was sent in parts that are longer than those of a budget; each counts
/// from its last packet on.
fn merged(spending: &Spending, now: Now) -> Sent {
    let merge = |parts: &[(Instant, Bytes)], length: u64| {
        let mut sent: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (end, bytes) in parts {
            let age = (now.here - *end).ns().max(0).unsigned_abs() / 1_000_000;
            let at = (now.wall.ns() / 1_000_000).saturating_sub(age);
            let part = sent.entry(at / length).or_default();
            *part = (part.0.max(at), part.1.saturating_add(bytes.get()));
        }
        sent.into_values().collect()
    };
    let [hour, month] = PARTS;
    Sent {
        hour: merge(&spending.hour, hour),
        month: merge(&spending.month, month),
        carried: merge(&spending.carried, month),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many minutes after a time at which 40 days have passed on both clocks.
    fn now(minutes: u64) -> Now {
        let at = Instant::from_ns((40 * 1_440 + minutes) * 60_000_000_000);
        Now { here: at, wall: at }
    }

    fn keep(ledger: &mut Ledger, path: &Path, now: Now, is_end: bool, spent: (&str, Spending)) -> Result<()> {
        let text = ledger.keep(now, is_end, [spent].into_iter());
        text.map_or(Ok(()), |text| write(path, text.as_bytes()))
    }

    fn sum(parts: &[(Instant, Bytes)]) -> u64 {
        parts.iter().map(|(_, bytes)| bytes.get()).sum()
    }

    #[test]
    fn what_was_sent_counts_after_a_restart_by_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let (mut ledger, why) = Ledger::open(&path);
        assert_eq!((why, ledger.spending("a", now(0))), (None, Spending::default()));
        let parts: Vec<(Instant, Bytes)> =
            (0..600).map(|minute| (now(minute).here, Bytes::new(100))).collect();
        let spent = Spending { hour: parts[540..].to_vec(), carried: parts[..10].to_vec(), month: parts };
        keep(&mut ledger, &path, now(600), false, ("a", spent.clone())).unwrap();
        // Too soon; and at the end nothing new.
        keep(&mut ledger, &path, now(600), false, ("a", Spending::default())).unwrap();
        keep(&mut ledger, &path, now(600), true, ("a", spent)).unwrap();
        let (ledger, why) = Ledger::open(&path);
        assert_eq!(
            (why, ledger.kept.paths["a"].month.len()),
            (None, 1),
            "ten hours are in one half of a day"
        );
        // The other process has another clock.
        let later = |wall: Now| Now { here: now(9).here, ..wall };
        let restored = ledger.spending("a", later(now(630)));
        assert_eq!((sum(&restored.hour), sum(&restored.month)), (6_000, 60_000));
        assert_eq!(sum(&restored.carried), 1_000);
        assert_eq!(restored.hour[59].0, now(9).here - Duration::from_ms(31 * 60_000));
        // A clock that was set back makes nothing younger than now, and one that was set
        // forward by a month forgets.
        let before = ledger.spending("a", later(now(0)));
        assert!(before.month.iter().all(|(end, _)| *end <= now(9).here) && sum(&before.month) == 60_000);
        assert_eq!(ledger.spending("a", later(now(31 * 1_440))), Spending::default());
        assert_eq!(ledger.spending("b", later(now(630))), Spending::default());
    }

    #[test]
    fn what_is_wrong_or_of_others_is_ignored_with_a_sentence_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let huge = format!(
            r#"{{"version":1,"paths":{{"a":{{"hour":{{"{0}":{0}}},"month":{{"1":{0}}}}}}}}}"#,
            u64::MAX
        );
        for (content, words) in [
            ("", "no file of"),
            ("{}", "no file of"),
            (r#"{"version":2,"paths":{}}"#, "of version 2"),
            (r#"{"version":1,"paths":{"a":{"hour":{"x":1},"month":{}}}}"#, "no file of"),
            (r#"{"version":1,"paths":{"a":{"hour":{"-1":1},"month":{}}}}"#, "no file of"),
            (&huge, ""),
        ] {
            std::fs::write(&path, content).unwrap();
            let (mut ledger, why) = Ledger::open(&path);
            assert!(why.is_none() == words.is_empty(), "{content}");
            assert!(why.unwrap_or_default().contains(words), "{content}");
            assert!(sum(&ledger.spending("a", now(0)).hour) <= MOST);
            keep(&mut ledger, &path, now(0), true, ("b", Spending::default())).unwrap();
            assert!(Ledger::open(&path).1.is_none());
        }
        let nowhere = folder.path().join("missing/state");
        let (mut ledger, _) = Ledger::open(&nowhere);
        assert!(keep(&mut ledger, &nowhere, now(0), true, ("b", Spending::default())).is_err());
    }
}
