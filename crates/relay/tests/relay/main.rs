//! Relays between real connections on loopback.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use headway_relay::{Counts, Ended, Leg, Loop, Options, Reason, Relay, Target};
use headway_telemetry::TcpInfo;

/// How long anything may take that must happen soon.
const TIMEOUT: Duration = Duration::from_secs(20);

fn options(target: &[SocketAddr]) -> Options {
    Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        target: Target::Host(target.to_vec()),
        legs: [Leg::default(), Leg::default()],
        buffer: 10_000,
        connections: 100,
        idle: TIMEOUT,
    }
}

/// A relay that works in another thread.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Counts, Vec<Ended>, usize)>,
}

impl Running {
    fn new(options: Options) -> Running {
        let mut relay = Relay::listen(options).unwrap();
        relay.check().unwrap();
        let (address, stop) = (relay.addresses()[0], Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let (mut ended, mut most) = (Vec::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                ended.extend(relay.work(Duration::from_millis(1)).unwrap());
                most = most.max(relay.counts().open);
            }
            (relay.counts(), ended, most)
        });
        Running { address, stop, thread }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Returns its counters, what has ended, and how many were open at most.
    fn end(self) -> (Counts, Vec<Ended>, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn target() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Bytes in which every position can be told.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place * 7 + place / 251) as u8).collect()
}

/// An address of this host where no program listens.
fn nobody() -> SocketAddr {
    target().1
}

#[test]
fn an_end_that_has_said_all_still_hears_the_other_one() {
    let (listener, address) = target();
    let relay = Running::new(options(&[address]));
    let server = spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        stream.write_all(&bytes(2_000_000)).unwrap();
        heard
    });
    let mut client = relay.connect();
    client.write_all(&bytes(1_000_000)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(server.join().unwrap() == bytes(1_000_000) && answer == bytes(2_000_000));
    let (counts, ended, _) = relay.end();
    assert_eq!((ended.len(), ended[0].reason), (1, Reason::Complete));
    assert_eq!((ended[0].bytes, counts.bytes), ([1_000_000, 2_000_000], [1_000_000, 2_000_000]));
    assert_eq!((counts.open, counts.ended), (0, [1, 0, 0, 0]));
}

#[test]
fn both_directions_flow_at_a_time() {
    let (listener, address) = target();
    let relay = Running::new(options(&[address]));
    let server = spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut echo = stream.try_clone().unwrap();
        std::io::copy(&mut stream, &mut echo).unwrap();
    });
    let client = relay.connect();
    let mut reader = client.try_clone().unwrap();
    let reader = spawn(move || {
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).unwrap();
        heard
    });
    (&client).write_all(&bytes(3_000_000)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(reader.join().unwrap() == bytes(3_000_000));
    server.join().unwrap();
    relay.end();
}

#[test]
fn a_client_that_does_not_read_stops_the_target_and_loses_nothing() {
    let (listener, address) = target();
    let mut options = options(&[address]);
    options.legs[1].window = Some(20_000);
    let relay = Running::new(options);
    let mut client = relay.connect();
    let (mut server, _) = listener.accept().unwrap();
    // It has stopped when a write of little finds no room for half a second.
    server.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let all = bytes(64 << 20);
    let mut written = 0;
    while written < all.len() {
        match server.write(&all[written..][..1000]) {
            Ok(count) => written += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
    }
    // The buffers of the kernel at three sockets, and 10 kB of the relay.
    assert!(written < all.len() / 2, "{written}");
    drop(server);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert!(heard == all[..written]);
    let (counts, ..) = relay.end();
    // The client's end is open.
    assert_eq!((counts.open, counts.bytes), (1, [0, written as u64]));
}

#[test]
fn the_window_that_is_announced_stays_below_the_limit() {
    let (listener, address) = target();
    let mut limited = options(&[address]);
    // As much as a link of 100 Mb/s holds in 1.6 ms.
    limited.legs[1].window = Some(20_000);
    let windows = |options: Options| {
        let relay = Running::new(options);
        let mut client = relay.connect();
        let (mut server, _) = listener.accept().unwrap();
        let reader = spawn(move || std::io::copy(&mut client, &mut std::io::sink()).unwrap());
        let mut most = TcpInfo::of(&server).window_seen();
        for part in bytes(4_000_000).chunks(10_000) {
            server.write_all(part).unwrap();
            most = most.max(TcpInfo::of(&server).window_seen());
        }
        drop(server);
        assert_eq!(reader.join().unwrap(), 4_000_000);
        relay.end();
        most
    };
    let (Some(limited), Some(free)) = (windows(limited), windows(options(&[address]))) else {
        println!("SKIPPED: this kernel does not tell the windows");
        return;
    };
    assert!(limited <= 20_000 && free > 60_000, "{limited} {free}");
}

#[test]
fn more_clients_than_places_wait_their_turn() {
    let (listener, address) = target();
    let mut few = options(&[address]);
    few.connections = 5;
    let relay = Running::new(few);
    let server = spawn(move || {
        for _ in 0..60 {
            let mut stream = listener.accept().unwrap().0;
            let mut word = [0; 4];
            stream.read_exact(&mut word).unwrap();
            stream.write_all(&word).unwrap();
        }
    });
    let clients: Vec<TcpStream> = (0..60).map(|_| relay.connect()).collect();
    for (number, mut client) in clients.into_iter().enumerate() {
        client.write_all(&(number as u32).to_be_bytes()).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, (number as u32).to_be_bytes());
    }
    server.join().unwrap();
    let (counts, _, most) = relay.end();
    assert_eq!((counts.accepted, most), (60, 5));
}

#[test]
fn a_target_is_tried_at_all_its_addresses() {
    let (listener, address) = target();
    let relay = Running::new(options(&[nobody(), nobody(), address]));
    let mut client = relay.connect();
    client.write_all(b"x").unwrap();
    listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
    relay.end();
    let relay = Running::new(options(&[nobody(), nobody()]));
    let mut client = relay.connect();
    // Not a connection that was closed as usual: a client must not take that for an empty answer.
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (counts, ended, _) = relay.end();
    assert_eq!((counts.ended, ended[0].reason), ([0, 0, 1, 0], Reason::Unreachable));
}

#[test]
fn a_connection_that_breaks_breaks_the_other() {
    let (listener, address) = target();
    let relay = Running::new(options(&[address]));
    let mut client = relay.connect();
    let server = listener.accept().unwrap().0;
    client.write_all(b"more than the target reads").unwrap();
    // So that it has arrived, and closing is a reset.
    server.peek(&mut [0]).unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (counts, ..) = relay.end();
    assert_eq!(counts.ended, [0, 1, 0, 0]);
}

#[test]
fn a_silent_connection_gives_up_its_place() {
    let (listener, address) = target();
    let mut impatient = options(&[address]);
    impatient.idle = Duration::from_millis(100);
    let relay = Running::new(impatient);
    let mut client = relay.connect();
    let _server = listener.accept().unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (counts, ended, _) = relay.end();
    assert_eq!((counts.open, ended[0].reason), (0, Reason::Silent));
}

#[test]
fn who_connects_to_a_relay_for_redirected_connections_itself_is_sent_away() {
    let options = Options { target: Target::Original { mark: 0 }, ..options(&[]) };
    if let Err(reason) = Relay::listen(options.clone()) {
        println!("SKIPPED: {reason}");
        return;
    }
    let relay = Running::new(options);
    let error = relay.connect().read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let (counts, ended, _) = relay.end();
    assert_eq!((counts.accepted, counts.open, ended[0].reason), (1, 0, Reason::Unreachable));
}

#[test]
fn what_cannot_be_had_is_said() {
    let said = |change: &dyn Fn(&mut Options)| {
        let mut options = options(&[nobody()]);
        change(&mut options);
        match Relay::listen(options) {
            Ok(relay) => relay.check().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    let (_listener, taken) = target();
    assert!(
        said(&|options| options.listen = vec![taken]).starts_with(&format!("cannot listen on {taken}: "))
    );
    let unknown = Some("no-such-law".to_owned());
    assert!(
        said(&|options| options.legs[0].controller = unknown.clone())
            .contains("no congestion controller `no-such-law`")
    );
    assert!(
        said(&|options| options.legs[1].controller = unknown.clone()).contains("connections to the target")
    );
    assert!(said(&|options| options.connections = 1 << 30).contains("open files"));
}

/// Returns whether a client gets an answer from behind a relay.
fn is_answered(mut client: TcpStream) -> bool {
    let _ = client.write_all(b"x");
    matches!(client.read(&mut [0]), Ok(1))
}

#[test]
fn a_relay_that_is_its_own_target_refuses_what_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let listen = vec![SocketAddr::from(([0, 0, 0, 0], address.port()))];
    let mut relay = Relay::listen(Options { listen, ..options(&[address]) }).unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let reads = spawn(move || is_answered(client));
    while relay.counts().ended.iter().sum::<u64>() == 0 {
        relay.work(Duration::from_millis(1)).unwrap();
    }
    assert!(!reads.join().unwrap());
    assert_eq!((relay.counts().accepted, relay.take_loop()), (1, Some(Loop::Itself(address))));
    assert_eq!(relay.take_loop(), None);
}

#[test]
fn two_relays_whose_targets_are_each_other_leave_places_for_others() {
    let listeners = [target(), target()];
    let [one, two] = listeners.each_ref().map(|(_, address)| *address);
    drop(listeners);
    let looped = |listen: SocketAddr, target: SocketAddr| {
        Relay::listen(Options { listen: vec![listen], connections: 16, ..options(&[target]) }).unwrap()
    };
    let mut relays = [looped(one, two), looped(two, one)];
    let mut found = None;
    let client = TcpStream::connect(one).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let reads = spawn(move || is_answered(client));
    let mut full = false;
    while found.is_none() {
        for relay in &mut relays {
            relay.work(Duration::from_millis(1)).unwrap();
            full |= relay.counts().open == 16;
            found = found.or(relay.take_loop());
        }
    }
    assert!(full && !reads.join().unwrap(), "all places were taken, and the client gets an error");
    assert_eq!(found, Some(Loop::Over(one.ip(), 4)));
    // Another one is refused sooner, and places stay free meanwhile.
    let client = TcpStream::connect(one).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let reads = spawn(move || is_answered(client));
    while !reads.is_finished() {
        for relay in &mut relays {
            relay.work(Duration::from_millis(1)).unwrap();
            assert!(relay.counts().open <= 8, "{:?}", relay.counts());
        }
    }
    assert!(!reads.join().unwrap());
}

/// Reads all that has come; returns whether nothing more will.
fn is_at_end(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn clients_of_one_address_may_have_all_places_though_the_target_says_nothing() {
    let (listener, address) = target();
    let running = Running::new(Options { connections: 8, ..options(&[address]) });
    let clients: Vec<TcpStream> = (0..8).map(|_| running.connect()).collect();
    let targets: Vec<TcpStream> = (0..8).map(|_| listener.accept().unwrap().0).collect();
    for mut client in &clients {
        client.write_all(b"a line of a log").unwrap();
    }
    // One is ended, to see whether others follow.
    let ended = |targets: &[TcpStream]| targets.iter().filter(|target| is_at_end(target)).count();
    while ended(&targets) == 0 {}
    let again = running.connect();
    let mut last = listener.accept().unwrap().0;
    (&again).write_all(b"x").unwrap();
    last.read_exact(&mut [0]).unwrap();
    assert_eq!(ended(&targets), 1);
    drop((clients, again));
    running.end();
}
