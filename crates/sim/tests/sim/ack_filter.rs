//! ACKs that are thinned on a slow way back.

use std::path::Path;

use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Runs a download of 10 s over a line with 50 Mb/s down and 500 kb/s up, with these keys of the way up.
fn download(controller: &str, up: &str) -> Results {
    let text = format!(
        "duration = \"10 s\"\nwarmup = \"2 s\"
         [[link]]\nfrom = \"s\"\nto = \"c\"\nduplex = false\nrate = \"50 Mb/s\"\ndelay = \"10 ms\"
         [[link]]\nfrom = \"c\"\nto = \"s\"\nduplex = false\nrate = \"500 kb/s\"\ndelay = \"10 ms\"\n{up}
         [[flow]]\nfrom = \"s\"\nto = \"c\"\ncontroller = \"{controller}\""
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn mbps(results: &Results) -> f64 {
    results.summary.total.goodput_bps as f64 / 1e6
}

#[test]
fn a_download_is_no_longer_limited_by_its_acks() {
    // 694 ACKs of 90 bytes fit into 500 kb/s, each for two segments of 1448 bytes: 16.1 Mb/s. The
    // line carries 47.1 Mb/s.
    let without = download("cubic", "");
    assert!((8.0..16.2).contains(&mbps(&without)), "{}", mbps(&without));
    assert_eq!(without.summary.links[1].thinned, Some(0));
    for queue in ["", "queue = { kind = \"codel\" }", "queue = { kind = \"fq-codel\" }"] {
        let with = download("cubic", &format!("ack-filter = true\n{queue}"));
        assert!(mbps(&with) > 45.0, "{queue} {}", mbps(&with));
        let [down, up] = [0, 1].map(|link| &with.summary.links[link]);
        // About 2 000 ACKs a second arrive, and 694 fit. Those that pass seldom wait for more than two
        // others, but those of recoveries have SACK blocks and all stay.
        let share = up.thinned.unwrap() as f64 / up.arrived as f64;
        assert!((0.55..0.75).contains(&share), "{share}");
        // CoDel drops a few of the latter; thinned ones are no losses.
        assert!(up.loss < 0.001 && down.thinned == Some(0), "{up:?} {down:?}");
        assert!(up.delay_p50_ns < 4_500_000, "{}", up.delay_p50_ns);
    }
}

#[test]
fn acks_of_flows_that_need_each_stay() {
    // Their stamps tell Rapid how packets were spaced, and their headers tell XCP its window.
    for controller in ["rapid", "xcp"] {
        let results = download(controller, "ack-filter = true");
        let up = &results.summary.links[1];
        assert!(up.arrived > 1_000 && up.thinned == Some(0), "{controller} {up:?}");
    }
}
