//! What the documentation says about the number of claims, beside the catalogue.

use headway_repro::catalogue;

/// Returns the claims of a paper that the quick size judges; of all papers for `all`.
fn judged(paper: &str) -> usize {
    let experiments = catalogue::all().expect("all files read");
    let of_paper = |id: &str| paper == "all" || id.split_once('/').is_some_and(|(name, _)| name == paper);
    let chosen = experiments.iter().filter(|experiment| of_paper(&experiment.id));
    chosen.flat_map(|experiment| &experiment.claims).filter(|claim| !claim.only_full).count()
}

#[test]
fn the_table_of_claims_has_the_numbers_of_the_catalogue() {
    let text = include_str!("../../../docs/repro.md");
    for paper in ["rapid", "ls-aimd", "bass", "wan", "xcp-rcp", "all"] {
        let row = format!("| {paper} | {} |", judged(paper));
        assert!(text.contains(&row), "docs/repro.md does not have `{row}`");
    }
    let sum = format!("{} claims", judged("all"));
    assert!(include_str!("../../../README.md").contains(&sum), "README.md does not say `{sum}`");
}
