//! A radio channel of 802.11a or g: stations that share it by the distributed coordination function (DCF).
//!
//! A station waits until the channel has been idle for DIFS, counts its backoff down in idle slots, and
//! sends; stations whose backoffs end in the same slot collide. Whoever gets no ACK doubles its contention
//! window and tries again, until it gives the frame up. Rates differ between stations, so one with a low rate
//! takes as many turns as the others and more of the time. There is no RTS, no aggregation, no hidden station
//! and no capture: all hear all, and collisions are lost.

use headway_queue::explicit::Heard;
use headway_traffic::random::{self, Pcg64Mcg};
use headway_units::{Rate, WIRE_OVERHEAD};
use rand::{Rng, RngExt as _};

/// Length of a slot (ns).
pub const SLOT: u64 = 9_000;
/// Time before an ACK: that of 802.11a; of 802.11g it is 10 us, behind a signal extension of 6 us.
const SIFS: u64 = 16_000;
/// How long the channel must be idle before slots are counted.
pub const DIFS: u64 = SIFS + 2 * SLOT;
const PREAMBLE: u64 = 20_000;
const SYMBOL: u64 = 4_000;
/// Bits before and behind a frame in its symbols, and bytes of an ACK.
const SERVICE_AND_TAIL: u64 = 22;
const ACK: u64 = 14;
/// Bytes around an IP packet: header of the MAC, check sequence, and LLC.
const FRAME_OVERHEAD: u64 = 36;
/// Rates at which every station understands ACKs, b/s.
const BASIC_RATES: [u64; 3] = [24_000_000, 12_000_000, 6_000_000];
/// Contention window of the first attempt, in slots.
pub const WINDOW: u32 = 16;
/// While the channel is idle for no longer, stations contend for it: DIFS and the longest backoff of a first attempt
/// (ns). Nobody could send more then, so it counts as busy.
pub const CONTENDED: u64 = DIFS + (WINDOW as u64 - 1) * SLOT;
/// How often it doubles: to 1024 slots.
pub const DOUBLINGS: u32 = 6;

/// How a station sends its frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Number of the sender, from 1: of several stations with the same number others know one.
    pub address: u32,
    /// Rate of its frames.
    pub rate: Rate,
    /// Attempts after the first before a frame is given up.
    pub retries: u32,
    /// Probability that a frame that meets no other is damaged.
    pub damage: f64,
}

impl Station {
    /// Returns how long a frame with a packet of `size` wire bytes and its ACK keep the channel (ns).
    pub fn exchange(&self, size: u16) -> u64 {
        let rate = self.rate.bps().max(1);
        let basic = BASIC_RATES.into_iter().find(|basic| *basic <= rate).unwrap_or(rate);
        let frame = u64::from(size).saturating_sub(WIRE_OVERHEAD.get()) + FRAME_OVERHEAD;
        airtime(frame, rate) + SIFS + airtime(ACK, basic)
    }
}

/// Returns how long `bytes` take at a rate in b/s, with their preamble (ns).
fn airtime(bytes: u64, rate: u64) -> u64 {
    let bits = SERVICE_AND_TAIL + 8 * bytes;
    PREAMBLE + SYMBOL * (bits * 1_000_000_000).div_ceil(rate * SYMBOL)
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of the station.
    pub station: usize,
    /// Whether the frame arrived, or was given up.
    pub arrived: bool,
}

#[derive(Debug)]
struct Contender {
    station: Station,
    /// The packet that it wants to send, wire bytes.
    size: Option<u16>,
    /// Slots to go from the time at which counting began; `None` once a backoff is over and no frame came.
    slots: Option<u64>,
    failures: u32,
    heard: Heard,
}

/// A channel and its stations.
#[derive(Debug)]
pub struct Channel {
    contenders: Vec<Contender>,
    /// Stations on the air, and when the channel becomes idle; while it is idle none, and since when.
    sending: Vec<usize>,
    edge: u64,
    rng: Pcg64Mcg,
}

impl Channel {
    /// Returns an idle channel without stations; `seed` and `id` determine its random numbers.
    pub fn new(seed: u64, id: u64) -> Channel {
        Channel {
            contenders: Vec::new(),
            sending: Vec::new(),
            edge: 0,
            rng: random::generator(seed, "air", id),
        }
    }

    /// Adds a station, and returns its number.
    pub fn add(&mut self, station: Station) -> usize {
        let heard = Heard::default();
        self.contenders.push(Contender { station, size: None, slots: None, failures: 0, heard });
        self.contenders.len() - 1
    }

    /// Returns what the MAC of a station has seen since the last call.
    pub fn take_heard(&mut self, station: usize) -> Heard {
        std::mem::take(&mut self.contenders[station].heard)
    }

    /// A station without a frame gets one at `now` (ns), with a packet of `size` wire bytes. It sends in the
    /// next slot if its last backoff is over and it finds the channel idle, and otherwise backs off.
    pub fn offer(&mut self, station: usize, now: u64, size: u16) {
        let begin = self.edge + DIFS;
        let contender = &mut self.contenders[station];
        contender.size = Some(size);
        if self.sending.is_empty() && now >= begin {
            contender.slots = contender.slots.max(Some((now - begin).div_ceil(SLOT)));
        } else if contender.slots.is_none() {
            contender.slots = Some(self.rng.random_range(0..u64::from(WINDOW)));
        }
    }

    /// Returns when the channel becomes busy or idle next (ns); `None` if nobody has a frame.
    pub fn next(&self) -> Option<u64> {
        if !self.sending.is_empty() {
            return Some(self.edge);
        }
        Some(self.edge + DIFS + self.first()? * SLOT)
    }

    /// Returns the slot in which the next frame is sent.
    fn first(&self) -> Option<u64> {
        self.contenders.iter().filter(|one| one.size.is_some()).filter_map(|one| one.slots).min()
    }

    /// Does what happens at [`Channel::next`]; `sent` gets the frames that are over.
    pub fn step(&mut self, sent: &mut Vec<Sent>) {
        match self.next() {
            Some(now) if self.sending.is_empty() => self.begin(now),
            Some(_) => self.end(sent),
            None => {}
        }
    }

    /// Everybody whose backoff ends sends; the others keep the rest of theirs.
    fn begin(&mut self, now: u64) {
        let slot = self.first().unwrap_or_default();
        for (number, contender) in self.contenders.iter_mut().enumerate() {
            if contender.size.is_some() && contender.slots == Some(slot) {
                self.sending.push(number);
            } else {
                contender.slots =
                    contender.slots.and_then(|slots| slots.checked_sub(slot)).filter(|rest| *rest > 0);
            }
        }
        // Whoever hears a collision waits as long as for an ACK.
        let times = self.sending.iter().filter_map(|number| {
            let contender = &self.contenders[*number];
            Some(contender.station.exchange(contender.size?))
        });
        let time = times.max().unwrap_or_default();
        let gap = Some(now - self.edge).filter(|gap| *gap <= CONTENDED).unwrap_or_default();
        self.edge = now + time;
        self.contenders.iter_mut().for_each(|contender| contender.heard.busy += gap + time);
    }

    fn end(&mut self, sent: &mut Vec<Sent>) {
        let alone = self.sending.len() == 1;
        let mut source = 0;
        for number in self.sending.drain(..) {
            let contender = &mut self.contenders[number];
            let Some(size) = contender.size else { continue };
            contender.heard.own += contender.station.exchange(size);
            let threshold = (contender.station.damage * u64::MAX as f64) as u64;
            let arrived = alone && (threshold == 0 || self.rng.next_u64() >= threshold);
            if arrived {
                contender.heard.bytes += u64::from(size);
                source = contender.station.address;
            } else {
                contender.heard.retries += 1;
                contender.failures += 1;
            }
            if arrived || contender.failures > contender.station.retries {
                (contender.failures, contender.size) = (0, None);
                sent.push(Sent { station: number, arrived });
            }
            let window = u64::from(WINDOW) << contender.failures.min(DOUBLINGS);
            contender.slots = Some(self.rng.random_range(0..window));
        }
        for contender in self.contenders.iter_mut().filter(|one| one.station.address != source) {
            contender.heard.source = source;
        }
    }
}
