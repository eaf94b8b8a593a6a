//! What is kept, what makes room, and what a disk or a clock that fails does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use headway_edge::snapshot::{DecisionState, LinkState, RateState, Snapshot};
use headway_history::{Error, LEAST_SIZE, Point, Range, Reader, SIZE, Step, Store, Writer};

const ALL: Range = Range { since_ms: 0, until_ms: u64::MAX };

fn snapshot(time_ms: u64, down_bps: u64, decisions: usize) -> Snapshot {
    let estimate = |rate_bps, width| RateState {
        rate_bps,
        low_bps: rate_bps - width,
        high_bps: rate_bps + width,
        ..RateState::default()
    };
    let down = LinkState {
        capacity_bps: 50_000_000,
        rate_bps: down_bps,
        available: vec![estimate(30_000_000, 9_000_000), estimate(25_000_000, 1_000_000)],
        narrow: Vec::new(),
        ..LinkState::default()
    };
    let decision = |flow: usize| DecisionState {
        time_ms,
        flow: flow as u64,
        client: "[2001:db8::1]:40000".parse().expect("an address"),
        server: "192.0.2.1:443".parse().expect("an address"),
        behaviour: "bulk".to_owned(),
        strategies: vec!["proxy".to_owned(), "receive-window".to_owned()],
        sentence:
            "has a window of 117.8 kB at most, because its share is 23.5 Mb/s, as one of 2 flows of its class"
                .to_owned(),
    };
    Snapshot {
        time_ms,
        links: [down, LinkState::default()],
        flows_in_all: 3,
        decisions: (0..decisions).map(decision).collect(),
        ..Snapshot::default()
    }
}

fn write(path: &Path, bytes: u64, snapshots: impl Iterator<Item = Snapshot>) -> u64 {
    let writer = Writer::start(Store::open(path, bytes).expect("a store")).expect("a writer");
    // No more than the queue takes.
    snapshots.for_each(|snapshot| writer.push(&snapshot));
    writer.lost()
}

fn points(path: &Path, step: Step, range: Range) -> Vec<Point> {
    let mut points = Vec::new();
    let push = |point| {
        points.push(point);
        Ok::<(), Error>(())
    };
    Reader::open(path).expect("a reader").points(step, range, push).expect("points");
    points
}

fn decisions(path: &Path, range: Range) -> Vec<DecisionState> {
    let mut decisions = Vec::new();
    let push = |decision| {
        decisions.push(decision);
        Ok::<(), Error>(())
    };
    Reader::open(path).expect("a reader").decisions(range, push).expect("decisions");
    decisions
}

#[test]
fn seconds_minutes_and_decisions_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    // 25 s of one minute, and 15 s of the next.
    let lost = write(&path, SIZE, (35..75).map(|second| snapshot(second * 1_000, second * 1_000_000, 1)));
    assert_eq!(lost, 0);
    for end in ["", "-wal"] {
        let file = std::fs::metadata(format!("{}{end}", path.display()));
        // What the last writer left of the log is gone.
        assert!(file.map_or(true, |file| file.permissions().mode() & 0o077 == 0), "others may read {end}");
    }
    let seconds = points(&path, Step::Second, ALL);
    assert_eq!(seconds.len(), 40);
    assert_eq!((seconds[0].time_ms, seconds[0].down_bps), (35_000, 35_000_000));
    // Of two estimates the one with the narrower interval.
    assert_eq!(seconds[0].down_available_bps, Some(25_000_000));
    assert_eq!((seconds[0].up_available_bps, seconds[0].flows), (None, 3));
    let minutes = points(&path, Step::Minute, ALL);
    let means: Vec<(u64, u64)> = minutes.iter().map(|minute| (minute.time_ms, minute.down_bps)).collect();
    assert_eq!(means, [(59_000, 47_000_000), (74_000, 67_000_000)]);
    let told = decisions(&path, Range { since_ms: 40_000, until_ms: 41_000 });
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], snapshot(40_000, 0, 1).decisions[0]);
}

#[test]
fn the_latest_decisions_of_a_time_are_read_with_the_number_of_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    write(&path, SIZE, (1..=20).map(|second| snapshot(second * 1_000, 1, 3)));
    let reader = Reader::open(&path).expect("a reader");
    let range = Range { since_ms: 5_000, until_ms: 10_000 };
    let (count, last) = reader.last_decisions(range, 4).expect("decisions");
    let places: Vec<(u64, u64)> = last.iter().map(|one| (one.time_ms, one.flow)).collect();
    assert_eq!((count, places), (18, vec![(9_000, 2), (10_000, 0), (10_000, 1), (10_000, 2)]));
}

#[test]
fn a_second_writer_goes_on_where_the_first_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    for first in [0, 100] {
        write(&path, SIZE, (first..first + 30).map(|second| snapshot(second * 1_000, 1, 0)));
    }
    assert_eq!(points(&path, Step::Second, ALL).len(), 60);
}

#[test]
fn a_clock_that_is_set_back_or_far_ahead_costs_no_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let times = [1_700_000_000_000, 5_000, u64::MAX, 1_700_000_001_000];
    write(&path, SIZE, times.into_iter().map(|time| snapshot(time, 1, 0)));
    assert_eq!(points(&path, Step::Second, ALL).len(), 4);
}

#[test]
fn the_file_stays_below_its_size_and_keeps_the_newest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let mut largest = 0;
    for round in 0..40_u64 {
        write(&path, LEAST_SIZE, (0..50).map(|second| snapshot((round * 50 + second) * 1_000, 1, 20)));
        let size =
            |end: &str| std::fs::metadata(format!("{}{end}", path.display())).map_or(0, |file| file.len());
        largest = largest.max(size("") + size("-wal"));
    }
    assert!(largest <= LEAST_SIZE, "{largest} bytes");
    let seconds = points(&path, Step::Second, ALL);
    assert_eq!(seconds.last().map(|point| point.time_ms), Some(1_999_000));
    // A 128th of the seconds of a day and of 100 000 decisions.
    assert_eq!(seconds.len(), 675);
    assert!(decisions(&path, ALL).len() <= 782);
}

#[test]
fn what_is_no_history_is_refused_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes");
    std::fs::write(
        &path,
        "These are notes of somebody, and long enough to be taken for a header of a file.".repeat(9),
    )
    .expect("a file");
    let before = std::fs::read(&path).expect("notes");
    let error = Store::open(&path, SIZE).expect_err("refused").to_string();
    assert!(error.contains("it is no database; move it away"), "{error}");
    assert_eq!(std::fs::read(&path).expect("notes"), before);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/tmp/elsewhere", &link).expect("a link");
    let error = Store::open(&link, SIZE).expect_err("refused").to_string();
    assert!(error.ends_with("it is a link, which is not followed"), "{error}");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for refused in [Store::open(&pipe, SIZE).map(|_| ()), Reader::open(&pipe).map(|_| ())] {
        let error = refused.expect_err("refused").to_string();
        assert!(error.ends_with("it is a device or a pipe"), "{error}");
    }
    let error = Reader::open(&folder.path().join("none")).expect_err("refused").to_string();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn links_to_its_folder_are_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("tmp")).expect("a folder");
    std::os::unix::fs::symlink("tmp", folder.path().join("var")).expect("a link");
    let path = folder.path().join("var/headway/edge.history");
    for second in [1, 2] {
        write(&path, SIZE, std::iter::once(snapshot(second * 1_000, 1, 1)));
        assert_eq!(points(&path, Step::Second, ALL).len() as u64, second);
    }
    let link = folder.path().join("var/link");
    std::os::unix::fs::symlink("headway/edge.history", &link).expect("a link");
    let error = Reader::open(&link).expect_err("refused").to_string();
    assert!(error.ends_with("it is a link, which is not followed"), "{error}");
}

#[test]
fn the_database_of_another_program_stays_as_it_is() {
    for journal in ["delete", "wal"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("other");
        let other = rusqlite::Connection::open(&path).expect("a database");
        other.pragma_update(None, "journal_mode", journal).expect("a journal");
        other
            .execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
            .expect("a table");
        drop(other);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("my file");
        let before = std::fs::read(&path).expect("a file");
        let error = Store::open(&path, SIZE).expect_err("refused").to_string();
        assert!(error.ends_with("it is the database of another program"), "{error}");
        assert!(std::fs::read(&path).expect("a file") == before, "it was changed in mode {journal}");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o644);
    }
}

#[test]
fn a_history_that_an_edge_adds_to_is_refused_to_others_and_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let first = Store::open(&path, SIZE).expect("a store");
    let error = Store::open(&path, SIZE).expect_err("refused").to_string();
    assert!(error.contains("another edge writes to it"), "{error}");
    assert!(points(&path, Step::Second, ALL).is_empty());
    drop(first);
    Store::open(&path, SIZE).expect("a store");
}

#[test]
fn others_may_not_read_a_history_that_they_could_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let mode = |end: &str| {
        let file = std::fs::metadata(format!("{}{end}", path.display())).expect("a file");
        file.permissions().mode() & 0o777
    };
    // Of an edge that was killed there is also what SQLite had beside it.
    let killed = Store::open(&path, SIZE).expect("a store");
    let copies = ["", "-wal", "-shm"].map(|end| {
        let file = format!("{}{end}", path.display());
        let bytes = std::fs::read(&file).expect("a file");
        (file, bytes)
    });
    drop(killed);
    for (file, bytes) in copies {
        std::fs::write(&file, bytes).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("my file");
    }
    let store = Store::open(&path, SIZE).expect("a store");
    assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
    drop(store);
}

/// Runs `test` in a folder with room for this many bytes, or prints why there can be none.
fn with_room(bytes: usize, test: impl FnOnce(&Path)) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let folder = tempfile::tempdir().expect("a folder");
    let nothing: Option<&str> = None;
    // Of this thread only, and with it gone.
    let room = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing))
        .and_then(|()| {
            let size = format!("size={bytes}");
            mount(Some("none"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
        });
    match room {
        Ok(()) => test(folder.path()),
        Err(reason) => println!("skipped: no small file system can be mounted here: {reason}"),
    }
}

#[test]
fn a_full_disk_stops_the_history_until_there_is_room() {
    with_room(1 << 20, |folder| {
        let path = folder.join("history");
        let writer = Writer::start(Store::open(&path, SIZE).expect("a store")).expect("a writer");
        let ballast = folder.join("ballast");
        // Until the disk is full.
        let _ = std::fs::write(&ballast, vec![1; 1 << 20]);
        for second in 0..10 {
            writer.push(&snapshot(second * 1_000, 1, 100));
        }
        while writer.lost() < 10 {
            std::thread::yield_now();
        }
        std::fs::remove_file(&ballast).expect("room");
        // It is tried again with the sixtieth second.
        for second in 10..70 {
            writer.push(&snapshot(second * 1_000, 1, 0));
        }
        drop(writer);
        assert_eq!(points(&path, Step::Second, ALL).len(), 60);
    });
}
