//! The protocol between a lab's users and its daemon: one JSON request per line, one JSON answer per line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headway_record::ControlInterval;
use headway_units::{Direction, Instant};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::emulator::Command;
use crate::error::Error;
use crate::header_counts::HeaderCounts;
use crate::spec::{Cross, Edge, PathSpec, Spec, load_captures};
use crate::state::CONTROL;
use crate::truth::Interval;

/// The emulator answers within one tick (10 ms); a much longer silence means that the machine is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How far in the future a requested time may lie.
const MAX_SYNC: Duration = Duration::from_secs(60);
/// Longest request in bytes. A changed path is sent with its delay traces: those of both directions for ten
/// minutes, with a point per millisecond, take half of this.
const MAX_REQUEST: u64 = 64 << 20;
/// How long a connection may ask nothing: each has a thread. Ours ask at once, and once.
const MAX_IDLE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    SetCross(Vec<Cross>),
    /// The same, and the times of links that vary count from now.
    Begin(Vec<Cross>),
    /// Numbers of links, and their new paths.
    SetPaths(Vec<(usize, PathSpec)>),
    Sync(Instant),
    Status,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Since(Instant),
    Synced,
    Status(Box<Status>),
    Error(String),
}

/// The present configuration of a lab and its latest intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The links, in the order of the scenario.
    pub links: Vec<LinkStatus>,
    /// The cross traffic.
    pub cross: Vec<Cross>,
}

/// The present configuration of a link and its latest intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Its two directions.
    pub path: PathSpec,
    /// The latest completed interval of the forward direction; `None` right after the start.
    pub forward: Option<Interval>,
    /// The latest completed interval of the reverse direction; `None` right after the start.
    pub reverse: Option<Interval>,
    /// Frames of the forward direction that were dropped because they are larger than the MTU.
    #[serde(default)]
    pub forward_oversized: u64,
    /// Frames of the reverse direction that were dropped because they are larger than the MTU.
    #[serde(default)]
    pub reverse_oversized: u64,
    /// What the router at the queue of the forward direction did; `None` unless there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_router: Option<RouterStatus>,
    /// What the router at the queue of the reverse direction did; `None` unless there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_router: Option<RouterStatus>,
}

/// What an explicit router did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// The packets since the link came up, by their headers.
    pub headers: HeaderCounts,
    /// The latest control interval; `None` before the end of the first.
    pub latest: Option<ControlInterval>,
}

impl Status {
    /// Returns the status of a lab that is coming up.
    pub(crate) fn new(spec: &Spec) -> Status {
        let link = |link: &Edge| LinkStatus {
            name: link.name.clone(),
            path: link.path.clone(),
            ..LinkStatus::default()
        };
        Status { links: spec.links.iter().map(link).collect(), cross: spec.cross.clone() }
    }
}

/// The daemon's side of the protocol: the state shared by all connections.
pub(crate) struct Control {
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) commands: Mutex<Sender<Command>>,
    pub(crate) wake: UnixStream,
    /// The scenario with which the lab was brought up.
    pub(crate) spec: Spec,
}

impl Control {
    /// Answers requests until the client closes the connection, is silent for long, or sends a
    /// request that is too long.
    ///
    /// Only this user and root can reach the socket: nobody else may enter the folder of labs.
    pub(crate) fn serve(&self, stream: UnixStream) {
        let Ok(mut out) = stream.try_clone() else { return };
        if stream.set_read_timeout(Some(MAX_IDLE)).is_err() {
            return;
        }
        let mut stream = BufReader::new(stream);
        while let Ok(Some(line)) = read_request(&mut stream) {
            let too_long = line.len() as u64 > MAX_REQUEST;
            let answer = if too_long {
                Answer::Error(format!("a request may have {} MB at most", MAX_REQUEST / 1_000_000))
            } else {
                match serde_json::from_slice(&line) {
                    Ok(request) => self.answer(request).unwrap_or_else(Answer::Error),
                    Err(error) => Answer::Error(format!("not a request: {error}")),
                }
            };
            let mut text = serde_json::to_string(&answer).unwrap_or_default();
            text.push('\n');
            if out.write_all(text.as_bytes()).is_err() || too_long {
                return;
            }
        }
    }

    fn answer(&self, request: Request) -> Result<Answer, String> {
        match request {
            Request::SetCross(cross) => self.set_cross(cross, false),
            Request::Begin(cross) => self.set_cross(cross, true),
            Request::SetPaths(paths) => {
                self.check_lines(&paths)?;
                let since = self.send(ANSWER_TIMEOUT, |answer| Command::Paths(paths.clone(), answer))?;
                self.update(|status| {
                    for (link, path) in paths {
                        status.links[link].path = path;
                    }
                });
                Ok(Answer::Since(since))
            }
            Request::Sync(until) => {
                let now = clock::now();
                // Compared as times, because the difference to one from a forged request need not fit.
                if until > now + headway_units::Duration::from(MAX_SYNC) {
                    return Err("the requested time is more than a minute ahead".to_owned());
                }
                let ahead = (until - now).to_std();
                self.send(ahead + ANSWER_TIMEOUT, |answer| Command::Sync(until, answer))?;
                Ok(Answer::Synced)
            }
            Request::Status => match self.status.lock() {
                Ok(status) => Ok(Answer::Status(Box::new(status.clone()))),
                Err(_) => Err("the lab's status is unavailable (a thread panicked)".to_owned()),
            },
        }
    }

    fn set_cross(&self, mut cross: Vec<Cross>, begins: bool) -> Result<Answer, String> {
        load_captures(&mut cross).map_err(|e| e.to_string())?;
        let since = self.send(ANSWER_TIMEOUT, |answer| Command::Cross(cross.clone(), begins, answer))?;
        self.update(|status| status.cross = cross);
        Ok(Answer::Since(since))
    }

    /// Rejects other links than those of this lab, and other lines: the alias of an interface tells them.
    fn check_lines(&self, paths: &[(usize, PathSpec)]) -> Result<(), String> {
        for (number, path) in paths {
            let link = self.spec.links.get(*number).ok_or("the lab has no such link")?;
            if Direction::BOTH.iter().any(|way| path.side(*way).line != link.path.side(*way).line) {
                return Err("`line` cannot be changed while the lab is up".to_owned());
            }
        }
        Ok(())
    }

    fn send<T>(&self, timeout: Duration, make: impl FnOnce(Sender<T>) -> Command) -> Result<T, String> {
        let (answer, answered) = channel();
        let gone = || "the emulator has ended".to_owned();
        self.commands.lock().map_err(|_| gone())?.send(make(answer)).map_err(|_| gone())?;
        // One byte wakes the emulator. A full socket buffer means that a wake-up is pending anyway.
        let _ = (&self.wake).write(&[1]);
        answered.recv_timeout(timeout).map_err(|_| "the emulator does not answer".to_owned())
    }

    fn update(&self, change: impl FnOnce(&mut Status)) {
        if let Ok(mut status) = self.status.lock() {
            change(&mut status);
        }
    }
}

/// Reads a line, or as much of it as shows that it is too long; `None` at the end.
fn read_request(stream: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = stream.take(MAX_REQUEST + 1).read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}

/// Sends a request to the daemon of the lab in `folder` and returns its answer.
pub(crate) fn ask(folder: &Path, request: &Request) -> Result<Answer, Error> {
    let path = folder.join(CONTROL);
    let mut stream = UnixStream::connect(&path).map_err(|e| Error::file("reach the lab at", &path, e))?;
    let mut line = serde_json::to_string(request).unwrap_or_default();
    line.push('\n');
    let sent = stream.write_all(line.as_bytes());
    let mut text = String::new();
    let read = BufReader::new(stream).read_line(&mut text);
    match serde_json::from_str(&text) {
        // Also where the lab did not read all of the request.
        Ok(Answer::Error(message)) => Err(Error::Daemon(message)),
        Ok(answer) => Ok(answer),
        Err(_) => {
            sent.map_err(Error::system("ask the lab"))?;
            read.map_err(Error::system("read from the lab"))?;
            Err(Error::Daemon("the lab ended before it answered".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use headway_scenario::{LinkSpec, Scenario};
    use headway_units::Rate;

    use super::*;

    /// Serves a connection without an emulator behind it; returns the other end.
    fn served() -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (rate, delay) = (Rate::from_bps(1_000_000), headway_units::Duration::ZERO);
        let spec = Spec::of(&Scenario::of(vec![LinkSpec::at("client", "server", rate, delay)])).unwrap();
        let control = Control {
            status: Arc::new(Mutex::new(Status::new(&spec))),
            commands: Mutex::new(channel().0),
            wake: UnixStream::pair().unwrap().0,
            spec,
        };
        thread::spawn(move || control.serve(theirs));
        ours
    }

    #[test]
    fn requests_are_answered_until_one_is_too_long() {
        let stream = served();
        let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut ask = |request: &[u8]| {
            // The end of one that is too long finds the connection closed.
            let _ = (&stream).write_all(request);
            answers.next().and_then(Result::ok)
        };
        let longest = usize::try_from(MAX_REQUEST).unwrap();
        let padded = [b"\"status\"", &b" ".repeat(longest - 9)[..], b"\n"].concat();
        assert_eq!(padded.len(), longest);
        for request in [&b"\"status\"\n"[..], &padded] {
            let answer = ask(request).unwrap();
            assert!(answer.starts_with("{\"status\""), "{answer}");
        }
        assert!(ask(b"{}\n").unwrap().contains("not a request"));
        let answer = ask(&b"x".repeat(longest + 100_000)).unwrap();
        assert_eq!(answer, "{\"error\":\"a request may have 67 MB at most\"}");
        assert_eq!(ask(b"\"status\"\n"), None);
    }
}
