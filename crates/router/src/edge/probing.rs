//! Measures the link against `headway serve` beyond it, in a thread of its own, whenever that is due.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context as _, Result};
use headway_edge::{Probe, ProbeKind, Probed};
use headway_estimate::locate::pair_settings;
use headway_estimate::measure::{Config, Measurement, Method};
use headway_estimate::ppdd::{self, Pairs};
use headway_net::asking::{drive, elapsed, stream};
use headway_net::{ConnectOptions, LONGEST_REVERSE_STREAM, NetError, Session};
use headway_units::{Bytes, Duration, Rate, Side};

/// Streams of pairs in a probe. With [`PAIRS`] these are 20 pairs; eight suffice where nobody else uses the
/// link. Range 2 to 10.
const STREAMS: u64 = 5;
/// Pairs in a stream: a server sends for [`LONGEST_REVERSE_STREAM`] at most. Range 2 to 5.
const PAIRS: usize = 4;
/// The least and the mean pause between them: the former is longer than a pair takes at 1 Mb/s.
const PAUSES: [Duration; 2] = [Duration::from_ms(25), Duration::from_ms(30)];
/// Noise of the kernel's timestamps.
const QUANTUM: Duration = Duration::from_us(5);
/// The highest rate to probe.
const TOP_RATE: Rate = Rate::from_bps(10_000_000_000);
/// The part of a full packet on the wire that is data of TCP with timestamps: shares count data.
const PAYLOAD: f64 = 1448.0 / 1538.0;

/// What came of a probe.
pub(super) struct Answered {
    pub(super) probe: Probe,
    pub(super) cost: Bytes,
    pub(super) result: Result<Probed, String>,
}

/// A thread that measures what it is asked for, until this is dropped.
pub(super) struct Probing {
    asks: SyncSender<Probe>,
    answers: Receiver<Answered>,
    stop: Arc<AtomicBool>,
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Probing {
    /// Starts the thread, if there is a host.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(super) fn start(hosts: &[ConnectOptions]) -> Result<Option<Probing>> {
        if hosts.is_empty() {
            return Ok(None);
        }
        let (asks, asked) = sync_channel::<Probe>(1);
        let (answer, answers) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let hosts = Hosts { all: hosts.to_vec(), current: 0, stop: Arc::clone(&stop) };
        std::thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || work(hosts, &asked, &answer))
            .context("cannot start a thread")?;
        Ok(Some(Probing { asks, answers, stop }))
    }

    /// Asks for a measurement; one at a time.
    pub(super) fn ask(&self, probe: Probe) {
        // Only if the thread has ended, and then there is no answer.
        let _ = self.asks.try_send(probe);
    }

    /// Returns what came of the last one, if it is over.
    pub(super) fn answer(&self) -> Option<Answered> {
        self.answers.try_recv().ok()
    }
}

struct Hosts {
    all: Vec<ConnectOptions>,
    current: usize,
    stop: Arc<AtomicBool>,
}

fn work(mut hosts: Hosts, asked: &Receiver<Probe>, answer: &SyncSender<Answered>) {
    for (probe, seed) in asked.iter().zip(0..) {
        let (cost, result) = hosts.measure(probe, seed);
        if answer.send(Answered { probe, cost, result }).is_err() {
            return;
        }
    }
}

impl Hosts {
    /// Measures against the host that answered last, or the next one that can be reached.
    fn measure(&mut self, probe: Probe, seed: u64) -> (Bytes, Result<Probed, String>) {
        let mut connected = self.connect();
        for _ in 1..self.all.len() {
            if connected.is_err() {
                self.current = (self.current + 1) % self.all.len();
                connected = self.connect();
            }
        }
        let name = &self.all[self.current].host;
        let (cost, result) = match connected {
            Err(error) => (Bytes::ZERO, Err(error)),
            Ok(mut session) => {
                let result = match probe.kind {
                    ProbeKind::Pairs => pairs(&mut session, probe.side, seed),
                    ProbeKind::Available => available(&mut session, probe),
                };
                (session.probe_bytes() + session.control_bytes(), result)
            }
        };
        (cost, result.map_err(|error| format!("{name}: {error}")))
    }

    fn connect(&self) -> Result<Session, NetError> {
        let host = &self.all[self.current];
        Session::connect(&ConnectOptions { stop: Some(Arc::clone(&self.stop)), ..host.clone() })
    }
}

/// Finds the capacity of the narrow link by pairs, towards a side.
fn pairs(session: &mut Session, side: Side, seed: u64) -> Result<Probed, NetError> {
    let packet = session.packet_size();
    let mut pairs = Pairs::new(packet, pair_settings(QUANTUM));
    for number in 0..STREAMS {
        let schedule = ppdd::schedule(packet, PAIRS, PAUSES, seed * STREAMS + number);
        pairs.add_stream(&stream(session, side == Side::Lan, &schedule)?.record);
    }
    let capacity = pairs.capacity().ok().filter(ppdd::Capacity::is_clear);
    let capacity = capacity.map(|found| [found.rate, found.low, found.high].map(payload));
    Ok(Probed { capacity, available: None })
}

/// Measures what is available. The capacity that it finds has no interval; pairs have one.
fn available(session: &mut Session, probe: Probe) -> Result<Probed, NetError> {
    let clock = std::time::Instant::now();
    let top_rate = if probe.side == Side::Lan { TOP_RATE.min(session.reverse_rate()) } else { TOP_RATE };
    let config = Config {
        method: Method::Response,
        packet: session.packet_size(),
        budget: Some(Bytes::new(probe.most.get().saturating_sub(session.probe_bytes().get()))),
        gentle: true,
        duration: None,
        rtt: session.rtt(),
        top_rate,
        train_rate: TOP_RATE,
    };
    let mut measurement = Measurement::new(config, elapsed(clock)).brief(LONGEST_REVERSE_STREAM);
    drive(session, probe.side == Side::Lan, &mut measurement, clock, |_, _| ControlFlow::Continue(()))?;
    let answer = measurement.answer();
    // Where more is available than can be sent, the upper end is not known.
    let available =
        answer.available.ok().and_then(|found| Some([found.rate, found.low, found.high?].map(payload)));
    Ok(Probed { capacity: None, available })
}

fn payload(rate: Rate) -> Rate {
    rate.scale(PAYLOAD)
}
