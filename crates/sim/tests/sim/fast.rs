//! The variants of FAST in the simulator, which differ in the clock that they read (rapid 2.23).

use std::path::Path;

use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// The memory that a run may use.
const LIMIT: Bytes = Bytes::new(1 << 30);
/// Of the link that ACKs cross, from 2 s on: a queue of 50 ms that stays.
const REVERSE_TRAFFIC: &str = "[[traffic]]\nfrom = \"b\"\nto = \"a\"\nmodel = \"cbr\"\nrate = \"21 Mb/s\"\nsize = \"1538 B\"\nstart = \"2 s\"\n";

/// Runs a flow of 15 s over a link of 100 Mb/s with an RTT of 20 ms, of which the last 10 s count.
fn results(controller: &str, stamp: &str, more: &str) -> Results {
    let text = format!(
        "duration = \"15 s\"\nwarmup = \"5 s\"\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\ndelay = \"10 ms\"\nbuffer = \"1 MB\"\nduplex = false\n\
         [[link]]\nfrom = \"b\"\nto = \"a\"\nrate = \"20 Mb/s\"\ndelay = \"10 ms\"\nbuffer = \"125 kB\"\nduplex = false\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller},alpha=50\"\nstamp = \"{stamp}\"\n{more}"
    );
    let scenario = Scenario::parse(&text, Path::new("fast.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, LIMIT).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

/// Goodput, Mb/s.
fn goodput(results: &Results) -> f64 {
    results.flows[0].goodput_bps as f64 / 1e6
}

#[test]
fn alpha_segments_wait_on_an_idle_path_whatever_the_clock() {
    for clock in ["us", "owd"] {
        let results = results(&format!("fast:rtt={clock}"), "driver", "");
        assert!(goodput(&results) > 93.0, "{clock}: {}", goodput(&results));
        // 50 segments of 1538 bytes take 6.15 ms; bursts and delayed ACKs add to that.
        let delay = results.summary.links[0].delay_mean_ns as f64 / 1e6;
        assert!((5.5..7.5).contains(&delay), "{clock}: {delay}");
        assert_eq!(results.flows[0].retransmitted, 0, "{clock}");
    }
}

#[test]
fn a_clock_of_milliseconds_lets_the_queue_grow_by_up_to_another_one() {
    let results = results("fast:rtt=ms", "driver", "");
    let delay = results.summary.links[0].delay_mean_ns as f64 / 1e6;
    assert!((5.5..8.5).contains(&delay), "{delay}");
}

#[test]
fn only_stamps_of_the_receiver_tell_queues_of_acks_from_queues_of_segments() {
    let [us, owd, unstamped] = [("us", "driver"), ("owd", "driver"), ("owd", "none")]
        .map(|(clock, stamp)| goodput(&results(&format!("fast:rtt={clock}"), stamp, REVERSE_TRAFFIC)));
    // 50 segments in 50 ms are 12 Mb/s.
    assert!((8.0..16.0).contains(&us), "{us}");
    assert!(owd > 85.0, "{owd}");
    assert_eq!(unstamped, us, "a receiver that stamps nothing leaves the RTT of the ACK");
}
