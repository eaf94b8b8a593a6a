//! Asks one path, in a thread of its own: keeps a session with a far end of it, and tells what
//! came of each question.

use std::error::Error as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_estimate::measure::{Config, Failure, MAX_STREAM_PACKETS, Measurement, Method};
use headway_estimate::question::{Question, QuestionConfig};
use headway_net::asking::{Asking, drive, elapsed};
use headway_net::{ConnectOptions, LONGEST_REVERSE_STREAM, NetError, Session};
use headway_select::{Answer, Trouble};
use headway_units::{Bytes, Duration, Rate};

/// The highest rate to probe.
const TOP_RATE: Rate = Rate::from_bps(10_000_000_000);
/// The range of the time for each answer of a far end, of which two in vain fit into an interval.
const TIMEOUT: [Span; 2] = [Span::from_secs(1), Span::from_secs(5)];

/// The first and the longest pause until a far end that is away is tried again.
const RETRY: [Span; 2] = [Span::from_secs(2), Span::from_secs(60)];

/// A question about the path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    /// Whether a rate is free.
    Rate {
        /// The rate.
        rate: Rate,
        /// The capacity, if it is known.
        capacity: Option<Rate>,
        /// A token bucket that must be emptied first.
        bucket: Option<Bytes>,
        /// The most that it may cost.
        most: Bytes,
    },
    /// What is free, at this cost at most.
    Measure(Bytes),
    /// How long a round trip takes.
    Ping,
}

/// Something that was learned about a path.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) path: usize,
    pub(super) what: What,
}

/// A message to the driver.
#[derive(Debug)]
pub(super) enum Heard {
    /// About a path, by what asks it.
    Path(Told),
    /// Interfaces, addresses or routes have changed.
    Change,
}

/// What was learned.
#[derive(Debug)]
pub(super) enum What {
    /// The answer to a question, with the round-trip time and the cost.
    Answer(Answer, Option<Duration>, Bytes),
    /// A round-trip time that nobody has asked for.
    Rtt(Duration),
    /// That there is no answer, after so many attempts.
    Failed { trouble: Trouble, attempts: u32, cost: Bytes, why: Vain },
}

/// A thread that asks one path, until this is dropped.
pub(super) struct Asker {
    asks: SyncSender<Ask>,
    stop: Arc<AtomicBool>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Asker {
    /// Starts the thread for a path with these far ends.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(super) fn start(
        path: usize,
        hosts: Vec<ConnectOptions>,
        (reverse, interval): (bool, Duration),
        told: Sender<Heard>,
    ) -> Result<Asker> {
        let (asks, asked) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let timeout = (interval.to_std() / 4).clamp(TIMEOUT[0], TIMEOUT[1]);
        let hosts =
            hosts.into_iter().map(|host| ConnectOptions { stop: Some(Arc::clone(&stop)), timeout, ..host });
        let end = FarEnd {
            hosts: hosts.collect(),
            current: 0,
            reverse,
            session: None,
            counted: Bytes::ZERO,
            vain: Bytes::ZERO,
            is_away: false,
            again: Clock::now(),
            pause: Span::ZERO,
        };
        let idle = interval.to_std() / 2;
        std::thread::Builder::new()
            .name(format!("path-{path}"))
            .spawn(move || {
                work(end, &asked, idle, |what| told.send(Heard::Path(Told { path, what })).is_ok())
            })
            .context("cannot start a thread")?;
        Ok(Asker { asks, stop })
    }

    /// Asks something; one question at a time.
    pub(super) fn ask(&self, ask: Ask) {
        // The selector asks a path nothing more before it has answered, or was given up.
        let _ = self.asks.try_send(ask);
    }
}

/// Answers until nobody asks or listens any more. A path that is not asked is pinged, so that it is
/// known when it fails.
fn work(mut end: FarEnd, asked: &Receiver<Ask>, idle: Span, mut tell: impl FnMut(What) -> bool) {
    loop {
        let what = match asked.recv_timeout(idle) {
            Ok(ask) => Some(end.answer(ask)),
            Err(RecvTimeoutError::Timeout) => end.look(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if what.is_some_and(|what| !tell(what)) {
            return;
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Vain {
    /// The far end cannot be asked.
    #[error(transparent)]
    Net(#[from] NetError),
    /// What arrived says nothing.
    #[error(transparent)]
    Measurement(Failure),
    /// This host has no way over the path, for this reason.
    #[error("{0}")]
    Down(String),
}

/// Whether an error says that the host at the far end answers, but does not let itself be asked.
fn refuses(error: &NetError) -> bool {
    match error {
        NetError::Unreachable { reason, .. } => reason.kind() == std::io::ErrorKind::ConnectionRefused,
        NetError::NotHeadway { .. }
        | NetError::VersionMismatch { .. }
        | NetError::TlsRequired
        | NetError::TlsMissing
        | NetError::Tls(_)
        | NetError::TokenRequired
        | NetError::WrongToken
        | NetError::TokenUnknown
        | NetError::Refused(_) => true,
        _ => false,
    }
}

impl Vain {
    fn trouble(&self) -> Trouble {
        match self {
            Vain::Net(error) if refuses(error) => Trouble::Refused,
            Vain::Down(_) => Trouble::Down,
            Vain::Net(_) | Vain::Measurement(Failure::AllLost) => Trouble::Away,
            Vain::Measurement(Failure::SenderGaps) => Trouble::Busy,
            Vain::Measurement(Failure::ClockStep) => Trouble::ClockStep,
            Vain::Measurement(_) => Trouble::Unclear,
        }
    }

    /// Returns the reason with all its causes.
    pub fn sentence(&self) -> String {
        let mut sentence = self.to_string();
        let mut cause = self.source();
        while let Some(one) = cause {
            sentence += &format!(": {one}");
            cause = one.source();
        }
        sentence
    }

    /// Whether packets arrive, but tell nothing.
    pub(super) fn is_unclear(&self) -> bool {
        matches!(self, Vain::Measurement(failure) if *failure != Failure::AllLost)
    }

    /// Whether nobody answers questions, or nobody will.
    fn is_silence(&self) -> bool {
        matches!(self.trouble(), Trouble::Away | Trouble::Refused)
    }
}

/// The far ends of a path, and the session with one of them.
struct FarEnd {
    hosts: Vec<ConnectOptions>,
    current: usize,
    reverse: bool,
    session: Option<Session>,
    /// The part of the session's cost that was reported.
    counted: Bytes,
    /// The cost of sessions that have ended since.
    vain: Bytes,
    /// Whether nobody answers, and when that is tried again, after which pause.
    is_away: bool,
    again: Clock,
    pause: Span,
}

impl FarEnd {
    /// Answers a question. Where nobody answers, a new session is tried at once: two attempts in vain tell a
    /// far end that is away.
    fn answer(&mut self, ask: Ask) -> What {
        let mut result = self.attempt(ask);
        let mut attempts = 1;
        if matches!(&result, Err(vain) if vain.is_silence()) {
            result = self.attempt(ask);
            attempts = 2;
        }
        match result {
            Ok((answer, rtt)) => {
                self.is_away = false;
                self.pause = Span::ZERO;
                What::Answer(answer, rtt, self.cost())
            }
            Err(vain) => self.failed(vain, attempts),
        }
    }

    /// Pings the far end, or tries one again that was away; says nothing where nobody has asked yet.
    fn look(&mut self) -> Option<What> {
        if self.session.is_none() {
            return if self.is_away && Clock::now() >= self.again { self.come_back() } else { None };
        }
        let pinged = self.session.as_mut()?.ping();
        if let Ok(rtt) = pinged {
            return Some(What::Rtt(rtt));
        }
        self.close();
        match self.session().and_then(Session::ping) {
            Ok(rtt) => Some(What::Rtt(rtt)),
            Err(error) => Some(self.failed(error.into(), 2)),
        }
    }

    /// Tries a far end that was away. The selector asks nothing of one that it cannot choose.
    fn come_back(&mut self) -> Option<What> {
        match self.session().and_then(Session::ping) {
            Ok(rtt) => {
                self.is_away = false;
                self.pause = Span::ZERO;
                Some(What::Answer(Answer::Pong, Some(rtt), self.cost()))
            }
            Err(_) => {
                self.wait_longer();
                None
            }
        }
    }

    /// Waits twice as long as before until a far end that is away is tried again.
    fn wait_longer(&mut self) {
        self.is_away = true;
        self.pause = (self.pause * 2).clamp(RETRY[0], RETRY[1]);
        self.again = Clock::now() + self.pause;
    }

    fn failed(&mut self, why: Vain, attempts: u32) -> What {
        let trouble = why.trouble();
        if why.is_silence() {
            self.wait_longer();
        }
        What::Failed { trouble, attempts, cost: self.cost(), why }
    }

    fn attempt(&mut self, ask: Ask) -> Result<(Answer, Option<Duration>), Vain> {
        let result = self.ask(ask);
        if result.as_ref().is_err_and(Vain::is_silence) {
            self.close();
        }
        result
    }

    fn ask(&mut self, ask: Ask) -> Result<(Answer, Option<Duration>), Vain> {
        let reverse = self.reverse;
        let session = self.session()?;
        let answer = match ask {
            Ask::Ping => return Ok((Answer::Pong, Some(session.ping()?))),
            Ask::Rate { rate, capacity, bucket, most } => {
                let (packet, rtt) = (session.packet_size(), session.rtt());
                let config = QuestionConfig { rate, most, packet, rtt, capacity, bucket };
                let clock = Clock::now();
                let mut question = Question::new(config, elapsed(clock));
                whole(session, reverse, &mut question, clock)?;
                Answer::Reply(question.answer().map_err(Vain::Measurement)?)
            }
            Ask::Measure(most) => measure(session, reverse, most)?,
        };
        Ok((answer, session.ping().ok()))
    }

    /// Returns the session, or opens one with the far end that answered last, or the next one
    /// that can be reached.
    fn session(&mut self) -> Result<&mut Session, NetError> {
        if self.session.is_none() {
            let mut opened = Session::connect(&self.hosts[self.current]);
            for _ in 1..self.hosts.len() {
                if opened.is_err() {
                    self.current = (self.current + 1) % self.hosts.len();
                    opened = Session::connect(&self.hosts[self.current]);
                }
            }
            self.session = Some(opened?);
        }
        self.session.as_mut().ok_or(NetError::Interrupted)
    }

    /// Ends the session, and keeps what it has cost.
    fn close(&mut self) {
        self.vain = self.cost();
        self.session = None;
        self.counted = Bytes::ZERO;
    }

    /// Returns what was sent and received since it was last reported.
    fn cost(&mut self) -> Bytes {
        let all = self
            .session
            .as_ref()
            .map_or(Bytes::ZERO, |session| session.probe_bytes() + session.control_bytes());
        let cost = std::mem::take(&mut self.vain) + Bytes::new(all.get().saturating_sub(self.counted.get()));
        self.counted = all;
        cost
    }
}

fn whole(
    session: &mut Session,
    reverse: bool,
    asking: &mut impl Asking,
    clock: Clock,
) -> Result<(), NetError> {
    drive(session, reverse, asking, clock, |_, _| ControlFlow::Continue(()))
}

fn measure(session: &mut Session, reverse: bool, most: Bytes) -> Result<Answer, Vain> {
    let clock = Clock::now();
    let config = Config {
        method: Method::Response,
        packet: session.packet_size(),
        budget: Some(most),
        gentle: false,
        duration: None,
        rtt: session.rtt(),
        top_rate: if reverse { TOP_RATE.min(session.reverse_rate()) } else { TOP_RATE },
        train_rate: TOP_RATE,
    };
    let mut measurement = Measurement::new(config, elapsed(clock));
    if reverse {
        measurement = measurement.brief(LONGEST_REVERSE_STREAM);
    }
    if session.max_packets() < MAX_STREAM_PACKETS {
        return Err(NetError::BadStream("the server allows too few packets in one").into());
    }
    whole(session, reverse, &mut measurement, clock)?;
    let found = measurement.answer();
    if found.is_limited_by_pacing() {
        return Err(Vain::Measurement(Failure::SenderGaps));
    }
    let free = found.available.map_err(Vain::Measurement)?;
    Ok(Answer::Measured { free, capacity: found.capacity, bucket: found.bucket })
}
