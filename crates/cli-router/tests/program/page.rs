//! The page of `headway edge`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{PROGRAM, text, write};

#[test]
fn the_token_of_measurements_is_not_sent_in_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "token", "sixteen bytes of a token");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["edge", "--lan", "a", "--wan", "b", "--page", "0.0.0.0:8080", "--page-token-file", &file]);
    let output = command.env("HEADWAY_TOKEN", "sixteen bytes of a token").output().unwrap();
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains("put another token there"), "{errors}");
}
