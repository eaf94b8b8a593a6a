use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

fn walk(top: &Path, own: bool, make: bool) -> Result<Option<Base>, Error> {
    Base::walk(top, own, &["headway".to_owned(), "lab".to_owned()], make)
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn refusal(top: &Path, own: bool) -> String {
    walk(top, own, true).unwrap_err().to_string()
}

#[test]
fn a_folder_that_nobody_else_can_write_to_is_made_and_found() {
    let top = tempfile::tempdir().unwrap();
    assert!(walk(top.path(), true, false).unwrap().is_none());
    let base = walk(top.path(), true, true).unwrap().unwrap();
    let mode = fs::metadata(top.path().join("headway/lab")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let (folder, lock) = base.create("one").unwrap();
    assert_eq!(base.find("one").unwrap().unwrap(), folder);
    assert!(folder.is_used().unwrap() && folder.is_lock(&lock.0));
    drop(lock);
    assert!(!folder.is_used().unwrap());
    assert_eq!(walk(top.path(), true, false).unwrap().unwrap().names(), ["one"]);
    folder.remove().unwrap();
    assert!(base.find("one").unwrap().is_none());
}

#[test]
fn what_others_may_have_made_is_refused() {
    let top = tempfile::tempdir().unwrap();
    chmod(top.path(), 0o1777);
    assert!(refusal(top.path(), true).contains("can be written to by others (mode 1777)"));
    walk(top.path(), false, true).unwrap();
    chmod(top.path(), 0o777);
    assert!(refusal(top.path(), false).contains("lets others remove your files"));
    chmod(top.path(), 0o700);
    for part in ["headway", "headway/lab"] {
        chmod(&top.path().join(part), 0o770);
        assert!(refusal(top.path(), true).contains("can be written to by others (mode 770)"));
        chmod(&top.path().join(part), 0o700);
    }
    let (real, link) = (top.path().join("headway"), top.path().join("elsewhere"));
    fs::rename(&real, &link).unwrap();
    symlink(&link, &real).unwrap();
    let sentence = refusal(top.path(), true);
    assert!(sentence.contains("is a link") && sentence.contains("XDG_RUNTIME_DIR"), "{sentence}");
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can give files away");
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let base = walk(top.path(), true, true).unwrap().unwrap();
    base.create("one").unwrap();
    chown(top.path().join("headway/lab/one"), Some(65_534), None).unwrap();
    let sentence = base.find("one").unwrap_err().to_string();
    assert!(sentence.contains("belongs to another user (number 65534)"), "{sentence}");
    chown(top.path().join("headway"), Some(65_534), None).unwrap();
    assert!(refusal(top.path(), true).contains("belongs to another user"));
}

#[test]
fn files_are_opened_without_following_links_or_waiting_for_pipes() {
    let top = tempfile::tempdir().unwrap();
    let base = walk(top.path(), true, true).unwrap().unwrap();
    let (folder, _lock) = base.create("one").unwrap();
    symlink("/etc/hostname", folder.path().join("state.json")).unwrap();
    nix::unistd::mkfifo(&folder.path().join("pipe"), Mode::S_IRWXU).unwrap();
    assert!(folder.file("state.json", OFlag::O_RDONLY).is_err());
    assert!(folder.file("pipe", OFlag::O_RDONLY).unwrap_err().to_string().contains("is not a regular file"));
}
