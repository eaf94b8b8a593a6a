//! A path to be measured, written as a scenario.

/// Wire bytes of a packet beyond its IP length.
const OVERHEAD: u32 = 38;
/// The smallest buffer, in full-size packets, when it is given in bandwidth-delay products.
const MIN_BUFFER: f64 = 50.0;
/// The largest buffer, in bytes: the memory of a large switch.
const MAX_BUFFER: f64 = 64e6;
/// The fastest line of a host, Mb/s.
const FASTEST_LINE: f64 = 400e3;
/// Start of the first measurement in seconds: cross-traffic sources are in equilibrium at once, TCP is not.
pub(super) const START: f64 = 0.5;
const START_WITH_TCP: f64 = 4.0;
/// Longest time for an answer, in seconds plus RTTs: the limits of `estimate::measure` plus a margin for
/// streams that lost packets.
const ANSWER: f64 = 8.0;
const ROUND_TRIPS: f64 = 80.0;

/// One link of the path, with its own traffic.
#[derive(Clone, Debug, Default)]
pub(super) struct Hop {
    /// Its rate; without one, packets take no transmission time.
    pub(super) mbps: Option<f64>,
    /// The key of a rate that changes, instead of `mbps` in the file.
    pub(super) rates: Option<String>,
    /// Buffer size, in full-size packets.
    pub(super) packets: f64,
    /// Further keys of the link.
    pub(super) keys: Vec<String>,
    /// Keys of datagram sources that cross only this link.
    pub(super) traffic: Vec<String>,
    /// Keys of TCP flows that cross only this link.
    pub(super) flows: Vec<String>,
}

/// A path from one host to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Largest IP packet, bytes.
    pub(super) mtu: u32,
    /// RTT without queueing and jitter.
    pub(super) round_trip_ms: f64,
    /// Rate of the sender's line as a multiple of the narrow link's.
    pub(super) line: f64,
    pub(super) hops: Vec<Hop>,
    /// Keys of datagram sources that cross all links.
    pub(super) across: Vec<String>,
    /// Keys of TCP flows that cross all links.
    pub(super) flows: Vec<String>,
    /// Keys of datagram sources that cross all links on the way back.
    pub(super) back: Vec<String>,
    /// The table of interrupt coalescing of the receiver's NIC.
    pub(super) coalescing: Option<String>,
}

impl Path {
    pub(super) fn new(mtu: u32, round_trip_ms: f64, line: f64) -> Path {
        Path { mtu, round_trip_ms, line, ..Path::default() }
    }

    /// Returns the wire bytes of a full-size packet.
    pub(super) fn packet(&self) -> f64 {
        f64::from(self.mtu + OVERHEAD)
    }

    /// Converts bandwidth-delay products of a link at `mbps` to packets, within the limits for buffers.
    pub(super) fn packets(&self, mbps: f64, products: f64) -> f64 {
        let product = mbps * 1e6 * self.round_trip_ms / 1e3 / 8.0 / self.packet();
        (product * products).min(MAX_BUFFER / self.packet()).max(MIN_BUFFER).round()
    }

    /// Adds a link at `mbps` with a buffer of `products` bandwidth-delay products.
    pub(super) fn add_link(&mut self, mbps: f64, products: f64) -> &mut Hop {
        let packets = self.packets(mbps, products);
        self.hops.push(Hop { mbps: Some(mbps), packets, ..Hop::default() });
        let last = self.hops.len() - 1;
        &mut self.hops[last]
    }

    /// Returns the rate of the slowest link, Mb/s.
    pub(super) fn narrow(&self) -> f64 {
        self.hops.iter().filter_map(|hop| hop.mbps).fold(f64::INFINITY, f64::min)
    }

    /// Returns the scenario, named `name`, for `answers` consecutive measurements.
    pub(super) fn text(&self, name: &str, seed: u64, answers: u32) -> String {
        let without_tcp = self.flows.is_empty() && self.hops.iter().all(|hop| hop.flows.is_empty());
        let start = if without_tcp { START } else { START_WITH_TCP };
        let answer = ANSWER + ROUND_TRIPS * self.round_trip_ms / 1e3;
        let duration = (start + answer * f64::from(answers)).ceil();
        let mut text = format!(
            "# A path of `headway-bench accuracy simulated`.\nname = \"{name}\"\nseed = {seed}\nduration = \"{duration} s\"\nmtu = {}\n",
            self.mtu
        );
        let last = self.hops.len();
        for (number, hop) in self.hops.iter().enumerate() {
            text += &self.link(number, hop);
        }
        for (number, hop) in self.hops.iter().enumerate() {
            hop.traffic.iter().for_each(|keys| text += &table("traffic", number, number + 1, keys));
            hop.flows.iter().for_each(|keys| text += &table("flow", number, number + 1, keys));
        }
        self.across.iter().for_each(|keys| text += &table("traffic", 0, last, keys));
        self.back.iter().for_each(|keys| text += &table("traffic", last, 0, keys));
        self.flows.iter().for_each(|keys| text += &table("flow", 0, last, keys));
        let line = digits((self.narrow() * self.line).min(FASTEST_LINE));
        // Back to back: a measurement begins as soon as it may.
        let keys = format!("start = \"{start} s\"\nevery = \"1 ms\"\nline = \"{line} Mb/s\"");
        text += &table("measure", 0, last, &keys);
        if let Some(coalescing) = &self.coalescing {
            text += &format!("\n[host.n{last}]\ncoalescing = {coalescing}\n");
        }
        text
    }

    fn link(&self, number: usize, hop: &Hop) -> String {
        let delay = (self.round_trip_ms * 500.0 / self.hops.len() as f64).round();
        let mut keys = vec![format!("delay = \"{delay} us\"")];
        if let Some(mbps) = hop.mbps {
            let bytes = (hop.packets * self.packet()).round();
            let rate = || format!("rate = \"{} Mb/s\"", digits(mbps));
            keys.push(format!("{}\nbuffer = \"{bytes} B\"", hop.rates.clone().unwrap_or_else(rate)));
        }
        keys.extend_from_slice(&hop.keys);
        table("link", number, number + 1, &keys.join("\n"))
    }
}

fn table(kind: &str, from: usize, to: usize, keys: &str) -> String {
    format!("\n[[{kind}]]\nfrom = \"n{from}\"\nto = \"n{to}\"\n{keys}\n")
}

/// Returns the table of coalescing with a fixed interval.
pub(super) fn fixed_interval(us: f64) -> String {
    format!("{{ kind = \"fixed\", interval = \"{us} us\" }}")
}

/// Rounds a number to four significant digits.
pub(super) fn digits(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}
