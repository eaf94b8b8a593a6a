//! The settings of TCP Rapid (`arithmetic/c/rapid.h`), which a scenario may give.

use std::path::Path;

use anyhow::Context as _;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;
use headway_worlds::available_memory;

use super::compare::Outcome;
use super::study::{Constant, Study, Variant};

/// A setting: key and unit, and its text at half, as usual and at double.
struct Setting(&'static str, &'static str, [&'static str; 3]);

const SETTINGS: [Setting; 12] = [
    Setting("tau", "time, above 0 to 30 s", ["25ms", "50ms", "100ms"]),
    Setting("kd", "share, above 0 to 1", ["1/8", "1/4", "1/2"]),
    // Half of three is rounded.
    Setting("gamma", "estimates, 1 to 64", ["2", "3", "6"]),
    Setting("n", "rates, and packets at each; rates 1 to 8", ["2x16", "4x16", "8x16"]),
    Setting("n", "rates, and packets at each; packets to 192 in all", ["4x8", "4x16", "4x32"]),
    Setting("range", "share, 0 to 8", ["26.04%", "52.0875%", "104.175%"]),
    Setting("margin", "share, 0 to 1", ["1%", "2%", "4%"]),
    Setting("window", "packets, 1 to 192", ["8", "16", "32"]),
    Setting("coalescing", "time, 0 to 1 s", ["60us", "120us", "240us"]),
    Setting("coarse", "rise and fall, 0 to 1 s", ["10us/5us", "20us/10us", "40us/20us"]),
    Setting("medium", "rise and fall, 0 to 1 s", ["2500ns/2us", "5us/4us", "10us/8us"]),
    Setting("fine", "rise and fall, 0 to 1 s", ["1us/500ns", "2us/1us", "4us/2us"]),
];

/// Names of the paths, keys of their link and traffic, and of the receiver.
const PATHS: [(&str, &str, &str, &str); 3] = [
    (
        "10g-bursty-coalescing",
        "10 Gb/s",
        "model = \"bct\"",
        "coalescing = { kind = \"fixed\", interval = \"120 us\" }",
    ),
    ("10g-poisson", "10 Gb/s", "model = \"poisson\"\nrate = \"4 Gb/s\"", ""),
    ("1g-poisson", "1 Gb/s", "model = \"poisson\"\nrate = \"400 Mb/s\"", ""),
];

/// The flow starts with the run; the first second does not count.
const TIMES: &str = "duration = \"5 s\"\nwarmup = \"1 s\"\nmtu = 9000";

pub(super) struct Flows {
    memory: Bytes,
}

impl Flows {
    pub(super) fn new() -> anyhow::Result<Flows> {
        Ok(Flows { memory: available_memory()? })
    }
}

/// Returns a path with a flow whose controller has this setting.
fn scenario(
    (name, rate, traffic, host): &(&str, &str, &str, &str),
    controller: &str,
) -> anyhow::Result<Scenario> {
    let text = format!(
        "name = \"{name}\"\n{TIMES}\n\
         [[link]]\nfrom = \"sender\"\nto = \"receiver\"\nrate = \"{rate}\"\ndelay = \"5 ms\"\nbuffer = \"2 MB\"\n\
         [host.receiver]\n{host}\n\
         [[traffic]]\nfrom = \"sender\"\nto = \"receiver\"\n{traffic}\n\
         [[flow]]\nfrom = \"sender\"\nto = \"receiver\"\ncontroller = \"{controller}\"\noffload = false\n\
         receive-buffer = \"150 MB\"\n"
    );
    Ok(Scenario::parse(&text, Path::new(name), &[])?)
}

impl Study for Flows {
    fn name(&self) -> &'static str {
        "TCP Rapid flows"
    }

    fn columns(&self) -> [&'static str; 4] {
        ["unused", "few lost", "lost", "ms"]
    }

    fn legend(&self) -> &'static str {
        "unused: of what is free. few lost: runs that lose less than one packet in a thousand. lost: packets. ms: mean delay \
         in the queue."
    }

    fn constants(&self) -> Vec<Constant> {
        let constant = |Setting(key, unit, [_, usual, _]): &Setting| Constant {
            name: format!("rapid.{key}"),
            value: (*usual).to_owned(),
            unit: (*unit).to_owned(),
        };
        SETTINGS.iter().map(constant).collect()
    }

    fn paths(&self) -> Vec<String> {
        PATHS.iter().map(|(name, ..)| (*name).to_owned()).collect()
    }

    fn run(&self, path: usize, seed: u64, variant: Option<Variant>) -> anyhow::Result<Outcome> {
        let setting = |variant: Variant| {
            let Setting(key, _, texts) = &SETTINGS[variant.constant];
            format!("rapid:{key}={}", texts[if variant.doubled { 2 } else { 0 }])
        };
        let scenario = scenario(&PATHS[path], &variant.map_or("rapid".to_owned(), setting))?;
        let mut run = Run::new(&scenario, seed, self.memory)?;
        while run.step()? {}
        let summary = run.finish().summary;
        let link = summary.links.first().context("the path has no link")?;
        let free = link.free_bps.context("the capacity of the link is unknown")? as f64;
        let unused = 1.0 - link.measured_bps as f64 / free;
        Ok(Outcome {
            error: unused.max(0.0),
            right: f64::from(u8::from(link.loss < 1e-3)),
            cost: link.dropped as f64,
            time: link.delay_mean_ns as f64 / 1e6,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_values_are_those_of_the_product() {
        let run = |controller: &str| {
            let scenario = scenario(&PATHS[2], controller).unwrap();
            let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
            while run.step().unwrap() {}
            run.finish().summary.links
        };
        let usual = run("rapid");
        for Setting(key, _, [_, value, _]) in &SETTINGS {
            // The thresholds are those of a link with 10 Gb/s and packets of 9 kB.
            if !["coarse", "medium", "fine", "range"].contains(key) {
                assert_eq!(run(&format!("rapid:{key}={value}")), usual, "{key}");
            }
        }
    }
}
