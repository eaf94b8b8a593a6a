//! ARCHITECTURE.md says of every crate what it is.

use std::fs;
use std::path::Path;

#[test]
fn every_crate_is_named_in_the_architecture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page is text");
    let (_, table) = page.split_once("## What lives where").expect("the page has the table of crates");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let named: String = rows.filter_map(|row| row.split('|').nth(1)).collect();
    let mut folders = 0;
    for entry in fs::read_dir(root.join("crates")).expect("folders can be read") {
        let folder = entry.expect("folders can be read").path();
        if folder.join("Cargo.toml").is_file() {
            let name = folder.file_name().and_then(|name| name.to_str()).expect("names of crates are text");
            assert!(named.contains(&format!("`{name}`")), "ARCHITECTURE.md has no row for crates/{name}");
            folders += 1;
        }
    }
    assert!(folders > 30, "only {folders} crates found: does this test still read the tree?");
}
