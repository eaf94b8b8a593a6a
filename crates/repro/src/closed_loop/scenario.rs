//! The testbed as a scenario file.

use std::fmt::Write as _;

use headway_units::Duration;

use super::{CAPACITY, Cross, Flow, MTU, Setup};

/// Minimum time between interrupts of a receiving NIC, before a jitter of 20 % (rapid 2.15).
const COALESCING: Duration = Duration::from_us(120);
/// Pairs of hosts that carry web traffic, each over a link of 1 Gb/s (rapid 4.0).
const WEB_HOSTS: i64 = 9;
/// Longest RTT of web traffic. Those of the hosts divide the range from zero evenly.
const WEB_RTT: Duration = Duration::from_ms(10);
/// IP bytes of the packets of web traffic; those of replayed traffic are as large (rapid 4.0).
const WEB_MTU: u32 = 1500;

impl Setup<'_> {
    /// Returns the scenario.
    pub(crate) fn scenario(&self) -> String {
        let rate = CAPACITY.bps();
        let mut text = format!(
            "duration = \"{} ns\"\nwarmup = \"{} ns\"\ninterval = \"{} ns\"\nmtu = {MTU}\n\
             [[link]]\nfrom = \"left\"\nto = \"right\"\nduplex = false\nrate = \"{rate} b/s\"\nbuffer = \"{} B\"\nloss = {:?}\n",
            (self.warmup + self.measured).ns(),
            self.warmup.ns(),
            self.interval.ns(),
            self.buffer.get(),
            self.loss,
        );
        for number in 0..self.flows.len() {
            self.add_flow(&mut text, number);
        }
        if let Some(model) = self.cross.model() {
            let _ = write!(text, "[[traffic]]\nfrom = \"left\"\nto = \"right\"\nmodel = \"{model}\"\n");
        } else if self.cross == Cross::Web {
            add_web(&mut text, self.buffer.get());
        }
        text
    }

    /// Adds a test flow with its hosts. Its receive buffer is one bandwidth-delay product, and ACKs are
    /// delayed by the RTT (rapid 4.0). The sender's own queue holds whatever the window allows.
    fn add_flow(&self, text: &mut String, number: usize) {
        let Flow { controller, keys, start, stop } = &self.flows[number];
        let window = CAPACITY.bytes_in(self.rtt);
        let _ = write!(
            text,
            "[[link]]\nfrom = \"sender-{number}\"\nto = \"left\"\nduplex = false\nrate = \"{} b/s\"\nbuffer = \"{} B\"\n\
             [[link]]\nfrom = \"right\"\nto = \"receiver-{number}\"\nduplex = false\n\
             [[link]]\nfrom = \"receiver-{number}\"\nto = \"sender-{number}\"\nduplex = false\ndelay = \"{} ns\"\n\
             [[flow]]\nname = \"test\"\nfrom = \"sender-{number}\"\nto = \"receiver-{number}\"\ncontroller = \"{}\"\n\
             start = \"{} ns\"\nack-every = 2\noffload = false\nreceive-buffer = \"{} B\"\n",
            CAPACITY.bps(),
            window.get() * 11 / 10,
            self.rtt.ns(),
            controller,
            start.ns(),
            window.get(),
        );
        if !keys.is_empty() {
            let _ = writeln!(text, "{keys}");
        }
        if let Some(stop) = stop {
            let _ = writeln!(text, "stop = \"{} ns\"", stop.ns());
        }
        let _ = write!(
            text,
            "[host.receiver-{number}]\ncoalescing = {{ kind = \"fixed\", interval = \"{} ns\" }}\n",
            COALESCING.ns()
        );
    }
}

/// Adds the web traffic of `scenarios/web-sessions.toml` (rapid 4.0, Table 3.1).
fn add_web(text: &mut String, buffer: u64) {
    text.push_str(
        "[[link]]\nfrom = \"right\"\nto = \"clients\"\nduplex = false\n\
         [[link]]\nfrom = \"clients\"\nto = \"left\"\nduplex = false\n",
    );
    for host in 0..WEB_HOSTS {
        let delay = WEB_RTT.ns() * (2 * host + 1) / (4 * WEB_HOSTS);
        let _ = write!(
            text,
            "[[link]]\nfrom = \"host-{host}\"\nto = \"left\"\nrate = \"1 Gb/s\"\ndelay = \"{delay} ns\"\nbuffer = \"{buffer} B\"\n\
             [[flow]]\nname = \"web-{host}\"\nfrom = \"host-{host}\"\nto = \"clients\"\ncontroller = \"cubic\"\nmtu = {WEB_MTU}\n\
             arrivals = {{ sessions = 10000, think = \"30 s\", size-distribution = {{ kind = \"lognormal\", mean = \"100 kB\", spread = 1.7 }} }}\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headway_host::nic::Coalescing;
    use headway_scenario::{Buffer, BufferSize, Scenario};
    use headway_traffic::Traffic;
    use headway_units::{Bytes, Rate};

    use super::super::BOTTLENECK;
    use super::*;

    fn read(cross: Cross) -> Scenario {
        let controller = "cubic".parse().expect("a controller");
        let flow = |start, stop| Flow { controller: &controller, keys: "", start, stop };
        let setup = Setup {
            flows: vec![flow(Duration::ZERO, None), flow(Duration::from_ms(1), Some(Duration::from_ms(2)))],
            cross,
            rtt: Duration::from_ms(30),
            loss: 1e-5,
            buffer: Bytes::new(500_000),
            warmup: Duration::from_ms(5_000),
            measured: Duration::from_ms(20_000),
            interval: Duration::from_ms(500),
        };
        Scenario::parse(&setup.scenario(), Path::new("x.toml"), &[]).expect("a scenario")
    }

    #[test]
    fn a_cell_is_the_common_setup_of_the_thesis() {
        let scenario = read(Cross::Bct);
        assert_eq!(
            (scenario.duration, scenario.warmup),
            (Duration::from_ms(25_000), Duration::from_ms(5_000))
        );
        assert_eq!((scenario.mtu, scenario.flow_count()), (9000, 2));
        let bottleneck = &scenario.link[BOTTLENECK];
        assert_eq!(bottleneck.rate, Some(Rate::from_bps(10_000_000_000)));
        assert_eq!(
            (bottleneck.buffer, bottleneck.loss),
            (Some(BufferSize::Limit(Buffer::Bytes(Bytes::new(500_000)))), 1e-5)
        );
        let delays: Duration = scenario.link.iter().map(|link| link.delay).sum();
        assert_eq!(delays, Duration::from_ms(2 * 30), "one RTT for each flow");
        let flow = &scenario.flow[0];
        assert_eq!((flow.ack_every, flow.offload), (2, false));
        assert_eq!(flow.receive_buffer, Bytes::new(37_500_000), "10 Gb/s for 30 ms");
        assert_eq!(scenario.flow[1].stop, Some(Duration::from_ms(2)));
        assert_eq!(scenario.traffic[0].traffic, Traffic::Bct { scale: 1.0 });
        let nic = Coalescing::Fixed { interval: Duration::from_us(120), jitter: 0.2, frames: None };
        assert_eq!(scenario.host["receiver-1"].coalescing, Some(nic));
    }

    #[test]
    fn every_kind_of_cross_traffic_is_a_scenario() {
        for (cross, sources) in [(Cross::Idle, 0), (Cross::Cbr, 1), (Cross::Sct, 1), (Cross::Web, 0)] {
            assert_eq!(read(cross).traffic.len(), sources);
        }
        let web = read(Cross::Web);
        let sessions = web.flow.iter().filter_map(|flow| flow.arrivals.as_ref()?.sessions).sum::<u64>();
        assert_eq!(sessions, 9 * 2500 * 4);
        let delays: Vec<i64> =
            web.link.iter().filter(|link| link.duplex).map(|link| link.delay.ns() / 1_000).collect();
        assert_eq!((delays.len(), delays[0], delays[4], delays[8]), (9, 277, 2_500, 4_722));
    }
}
