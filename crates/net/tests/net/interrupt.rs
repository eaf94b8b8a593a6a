//! The caller's stop flag ends any operation of a client.

use crate::common::{Running, config, steady};
use headway_net::{ConnectOptions, NetError, Session};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sets the flag while `work` runs and checks that `work` ends soon because of it.
fn interrupted<T>(flag: &Arc<AtomicBool>, work: impl FnOnce() -> Result<T, NetError>) {
    let setting = Arc::clone(flag);
    let start = Instant::now();
    let setter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        setting.store(true, Ordering::Relaxed);
    });
    let error = work().err();
    setter.join().expect("the setter does not panic");
    assert!(matches!(error, Some(NetError::Interrupted)), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn streams_end_when_interrupted() {
    let server = Running::start(config());
    for forward in [true, false] {
        let flag = Arc::new(AtomicBool::new(false));
        let options = ConnectOptions { stop: Some(Arc::clone(&flag)), ..server.options() };
        let mut session = Session::connect(&options).unwrap();
        // Three packets, ten seconds apart.
        let slow = steady(3, 10_000_000);
        interrupted(
            &flag,
            || if forward { session.send_stream(&slow) } else { session.receive_stream(&slow) },
        );
        assert!(matches!(session.ping(), Err(NetError::Interrupted)));
    }
}

#[test]
fn connecting_ends_when_interrupted() {
    // The kernel accepts connections into the backlog, and no one answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let options = ConnectOptions {
        port: silent.local_addr().unwrap().port(),
        timeout: Duration::from_secs(30),
        stop: Some(Arc::clone(&flag)),
        ..ConnectOptions::new("127.0.0.1")
    };
    interrupted(&flag, || Session::connect(&options));
    // Again, with the flag set from the start.
    assert!(matches!(Session::connect(&options), Err(NetError::Interrupted)));
}
