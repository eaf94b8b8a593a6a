//! Explicit congestion control in virtual time: four flows at a router of 1.5 Mb/s with an RTT of 100 ms, which start
//! 10 s apart and last 60 s each (procedure P of xcp-rcp 4).

use headway_core::control::Kind;
use headway_core::explicit::{FRACTION_BITS, Record};
use headway_core::queue::QueueSpec;
use headway_core::{Bytes, Duration, Instant, Rate};
use headway_sim::config::Service;
use headway_sim::{FlowId, LinkConfig, LinkId, Network, TcpConfig};

const CAPACITY: Rate = Rate::from_bps(1_500_000);
const ACCESS: Rate = Rate::from_bps(100_000_000);

/// A client, a router and a sink.
struct Bench {
    network: Network,
    narrow: LinkId,
    flows: Vec<FlowId>,
}

fn queue(text: &str) -> QueueSpec {
    serde_json::from_str(text).expect("a queue")
}

/// Builds procedure P with this queue at the narrow link and this controller.
fn procedure(spec: &str, controller: &str, seed: u64) -> Bench {
    let mut network = Network::new(seed);
    let mut link = |rate: Rate, ms, spec: &str| {
        let queue = queue(spec).build(Some(rate), seed);
        network.add_link(&LinkConfig::new(Service::Constant(rate), Duration::from_ms(ms), queue))
    };
    let access = link(ACCESS, 25, r#"{"kind":"drop-tail"}"#);
    let narrow = link(CAPACITY, 25, spec);
    let back = link(ACCESS, 50, r#"{"kind":"drop-tail"}"#);
    let kind: Kind = controller.parse().expect("a controller");
    let flows = (0..4).map(|number| {
        let start = Instant::from_ns(number * 10_000_000_000);
        let stop = Some(start + Duration::from_ms(60_000));
        let mss = if kind.is_explicit() { 1428 } else { 1448 };
        network.add_tcp(&TcpConfig {
            start,
            stop,
            mss,
            ..TcpConfig::new(kind, vec![access, narrow], vec![back])
        })
    });
    let flows = flows.collect();
    network.keep_records(narrow);
    Bench { network, narrow, flows }
}

/// What a run showed.
struct Shown {
    records: Vec<Record>,
    /// Goodput of every flow in Mb/s, second by second.
    goodputs: Vec<Vec<f64>>,
    dropped: u64,
    /// Bytes that the narrow link delivered from 20 to 60 s, as a share of its capacity.
    utilisation: f64,
}

impl Bench {
    fn run(mut self) -> Shown {
        let mut records = Vec::new();
        let mut goodputs = vec![Vec::new(); self.flows.len()];
        let mut before = vec![Bytes::ZERO; self.flows.len()];
        let mut delivered = [Bytes::ZERO; 2];
        for second in 1..=90u64 {
            self.network.run_until(Instant::from_ns(second * 1_000_000_000));
            records.extend(self.network.take_records(self.narrow));
            for (index, flow) in self.flows.iter().enumerate() {
                let now = self.network.flow(*flow).goodput;
                goodputs[index].push((now.get() - before[index].get()) as f64 * 8e-6);
                before[index] = now;
            }
            let bytes = self.network.link(self.narrow).statistics().delivered.bytes;
            match second {
                20 => delivered[0] = bytes,
                60 => delivered[1] = bytes,
                _ => {}
            }
        }
        let sent = (delivered[1].get() - delivered[0].get()) as f64;
        Shown {
            records,
            goodputs,
            dropped: self.network.link(self.narrow).statistics().dropped.packets,
            utilisation: sent / CAPACITY.bytes_in(Duration::from_ms(40_000)).get() as f64,
        }
    }
}

impl Shown {
    /// The records of the intervals that ended between two times in s.
    fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Record> {
        let [from, to] = [from, to].map(|s| s * 1_000_000_000);
        self.records.iter().filter(move |record| (from..to).contains(&record.time))
    }

    fn summary(&self) -> String {
        let queue = self.between(15, 80).map(|record| record.queue_bytes).max();
        let backlog = self.between(15, 80).map(|record| record.backlog_bytes).max();
        let mean = |value: fn(&Record) -> f64| {
            let all: Vec<f64> = self.between(15, 60).map(value).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let lambda = mean(|record| (record.weighted >> FRACTION_BITS) as f64);
        let kappa = mean(|record| (record.kappa >> FRACTION_BITS) as f64);
        let xi = mean(|record| record.xi as f64 / f64::from(1u32 << FRACTION_BITS));
        let shares: Vec<String> =
            self.goodputs.iter().map(|rates| format!("{:.3}", rates[36..55].iter().sum::<f64>() / 19.0)).collect();
        format!(
            "utilisation {:.3} persistent {queue:?} backlog {backlog:?} lambda {lambda:.0} kappa {kappa:.0} xi {xi:.0} drops {} shares {shares:?}",
            self.utilisation, self.dropped
        )
    }
}

#[test]
fn all_laws_share_the_link() {
    for (spec, controller) in [
        (r#"{"kind":"xcp","limit":"75 kB"}"#, "xcp"),
        (r#"{"kind":"xcp-b","limit":"75 kB"}"#, "xcp"),
        (r#"{"kind":"xcp-kappa","limit":"75 kB"}"#, "xcp"),
        (r#"{"kind":"errors","limit":"75 kB","capacity":"0 b/s"}"#, "xcp"),
        (r#"{"kind":"errors","limit":"75 kB"}"#, "xcp"),
        (r#"{"kind":"errors","limit":"75 kB","capacity":"3 Mb/s"}"#, "xcp"),
        (r#"{"kind":"rcp","limit":"75 kB"}"#, "rcp"),
        (r#"{"kind":"rcp","limit":"75 kB"}"#, "rcp:paced"),
        (r#"{"kind":"rcp-b","limit":"75 kB"}"#, "rcp"),
        (r#"{"kind":"rcp-kappa","limit":"75 kB"}"#, "rcp"),
        (r#"{"kind":"rcp-errors","limit":"75 kB","capacity":"0 b/s"}"#, "rcp"),
    ] {
        println!("{spec} {controller}: {}", procedure(spec, controller, 1).run().summary());
    }
}
