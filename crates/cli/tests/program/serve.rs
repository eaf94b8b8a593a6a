//! `headway serve` as operators run it: real processes with logs that cannot be written and
//! files without an end.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::{PROGRAM, was_busy};
use headway_net::protocol::{Message, Preamble, encode};
use headway_net::{Limits, Server, ServerConfig};
use headway_units::Rate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Far longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A `headway serve` that ends with the test.
struct Serve {
    child: Child,
    port: u16,
}

impl Serve {
    fn start(stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Serve {
        // The output may be unreadable, so the port cannot be read from it; a free one is chosen in advance.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(PROGRAM)
            .args([
                "serve",
                "--json",
                "--bind",
                "127.0.0.1",
                "--max-rate",
                "20 Mb/s",
                "--report-every",
                "1 s",
            ])
            .args(["--port", &port.to_string()])
            .env_remove("HEADWAY_TOKEN")
            .env_remove("RUST_LOG")
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut serve = Serve { child, port };
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert_eq!(serve.child.try_wait().unwrap(), None, "the server ended");
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        serve
    }

    /// Sends a signal and waits for the server to end.
    fn end(&mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "{signal} does not end it");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs an honest client that measures from the server to here.
    fn measure(&self) {
        // Senders of several tests would disturb each other.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock();
        let output = measure(self.port, &["--reverse"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        if was_busy(&output) {
            return;
        }
        assert!(output.status.success(), "{stderr}");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(line["available_bps"].as_f64().unwrap() > 18e6, "{line}");
    }

    /// Acts as a stranger who completes the handshake but never proves an address.
    fn stranger(&self) {
        let Ok(mut tcp) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else { return };
        let hello = Message::ClientHello { nonce: [1; 32], padding: vec![0; 64] };
        let _ = tcp.write_all(&Preamble::new(0).to_bytes());
        for message in [hello, Message::ClientProof { proof: None }] {
            let _ = tcp.write_all(&encode(&message).unwrap());
        }
        // Preamble, hello and welcome, or whatever comes.
        let _ = tcp.set_read_timeout(Some(Duration::from_millis(50)));
        let _ = tcp.read(&mut [0; 200]);
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(port: u16, more: &[&str]) -> Output {
    let port = port.to_string();
    Command::new(PROGRAM)
        .args(["measure", "127.0.0.1", "--json", "--port", &port])
        .args(more)
        .env_remove("HEADWAY_TOKEN")
        .output()
        .unwrap()
}

/// Serves, measures and is stopped with outputs that cannot be written.
fn goes_on(stdout: impl Into<Stdio>, stderr: impl Into<Stdio>, signal: Signal) {
    let mut serve = Serve::start(stdout, stderr);
    (0..20).for_each(|_| serve.stranger());
    serve.measure();
    assert!(serve.end(signal).success());
}

#[test]
fn a_full_disk_stops_neither_the_service_nor_a_signal() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    goes_on(full(), full(), Signal::SIGTERM);
}

#[test]
fn a_closed_pipe_stops_neither_the_service_nor_a_signal() {
    let closed = || std::io::pipe().unwrap().1;
    goes_on(closed(), closed(), Signal::SIGINT);
}

#[test]
fn a_pipe_that_nobody_reads_stops_neither_the_service_nor_a_signal() {
    let unread = || {
        let (reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        (reader, writer)
    };
    let (out, err) = (unread(), unread());
    goes_on(out.1, err.1, Signal::SIGTERM);
}

/// Fills a pipe and leaves it in blocking mode.
fn fill(pipe: &std::io::PipeWriter) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut writer = pipe;
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

#[test]
fn strangers_are_summed_up_in_the_log_and_not_listed() {
    // A pipe needs no room on a disk, and has room for all of such a log.
    let (mut log, to_log) = std::io::pipe().unwrap();
    let mut serve = Serve::start(Stdio::null(), to_log);
    // Before the strangers, who connect from the same network and exhaust its connection rate.
    serve.measure();
    (0..200).for_each(|_| serve.stranger());
    assert!(serve.end(Signal::SIGTERM).success());
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    let about_sessions = text.lines().filter(|line| line.contains("peer")).count();
    assert_eq!(about_sessions, 2, "the honest session was opened and ended, strangers have no line:\n{text}");
    let last = text.lines().last().unwrap();
    assert!(last.contains("stopped") && !last.contains("sessions_unproved: 0"), "{last}");
}

/// Asserts that a command fails soon with code 1 and one sentence.
fn fails(command: &mut Command, words: &str) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains(words), "{stderr}");
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("HEADWAY_TOKEN");
    command
}

#[test]
fn files_without_an_end_are_refused() {
    let serve = |more: &[&str]| program(&[&["serve", "--port", "0"], more].concat());
    let measure = |more: &[&str]| program(&[&["measure", "127.0.0.1"], more].concat());
    fails(&mut serve(&["--token-file", "/dev/zero"]), "larger than 4096 bytes");
    fails(&mut serve(&["--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"]), "/dev/zero");
    fails(&mut measure(&["--token-file", "/dev/zero"]), "larger than 4096 bytes");
    fails(&mut measure(&["--tls-ca", "/dev/zero"]), "/dev/zero");
}

#[test]
fn a_token_that_cannot_be_read_does_not_open_the_server() {
    let token = std::ffi::OsStr::from_bytes(b"sixteen bytes and \xff");
    fails(program(&["serve", "--port", "0"]).env("HEADWAY_TOKEN", token), "HEADWAY_TOKEN");
}

#[test]
fn servers_that_announce_nothing_useful_are_refused() {
    let limits = |bps, stream_packets| Limits {
        reverse_rate: Rate::from_bps(bps),
        stream_packets,
        ..Limits::default()
    };
    for (limits, words) in [
        (limits(0, 16_384), "--max-rate"),
        (limits(1, 16_384), "--max-rate"),
        (limits(999_999, 16_384), "--max-rate"),
        (limits(u64::MAX, 0), "--max-stream-packets"),
    ] {
        let bind = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let server = Server::bind(ServerConfig { bind, port: 0, limits, ..ServerConfig::default() }).unwrap();
        let (port, handle) = (server.port(), server.handle());
        let thread = std::thread::spawn(move || server.run());
        let output = measure(port, &["--reverse"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
        assert!(stderr.contains(words), "{stderr}");
        handle.stop();
        thread.join().unwrap().unwrap();
    }
}
