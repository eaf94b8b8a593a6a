//! A transfer by TCP over one of the parallel paths.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use anyhow::Context as _;
use headway_units::{Bytes, Duration};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

use super::Stage;
use crate::endpoint;
use crate::error::Error;
use crate::lab::TICK;

/// The congestion controller of users.
const CONTROLLER: &str = "cubic";
/// Written and read at a time.
const CHUNK: usize = 1 << 16;

/// Sends over a path from home to the server: so many bytes, or as many as there is time for. Returns what
/// has arrived, and the time that it took.
pub(super) fn transfer(
    stage: &Stage<'_>,
    path: usize,
    size: Option<Bytes>,
    longest: Duration,
) -> Result<(Bytes, Duration), Error> {
    let network = stage.network;
    let address = stage.lab.interface(&network.server, network.link(path))?.v4;
    let listener = stage.lab.inside(&network.server, || listen(address))??;
    let to = listener.local_addr()?;
    let clock = Clock::now();
    let deadline = clock + longest.to_std();
    let socket = stage.lab.inside(&network.home, || endpoint::socket(CONTROLLER))??;
    let Some(sender) = connect(socket, to, stage, deadline)? else {
        return Ok((Bytes::ZERO, clock.elapsed().into()));
    };
    let (receiver, _) = listener.accept()?;
    for stream in [&sender, &receiver] {
        stream.set_write_timeout(Some(TICK))?;
        stream.set_read_timeout(Some(TICK))?;
    }
    let arrived = AtomicU64::new(0);
    let took = thread::scope(|scope| {
        let reading = scope.spawn(|| read(receiver, &arrived, stage, deadline));
        write(&sender, size, stage, deadline);
        let ended = reading.join().unwrap_or_else(|failed| std::panic::resume_unwind(failed));
        // What is still on its way must not load the path any longer.
        let _ = Socket::from(sender).set_linger(Some(Span::ZERO));
        ended - clock
    });
    Ok((Bytes::new(arrived.into_inner()), took.into()))
}

/// Connects until there is no time left, or the run ends: a path that is down does not answer.
fn connect(
    socket: Socket,
    to: SocketAddr,
    stage: &Stage<'_>,
    deadline: Clock,
) -> Result<Option<TcpStream>, Error> {
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Ok(None),
        _ => {}
    }
    while Clock::now() < deadline && !stage.has_ended() {
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut polled, PollTimeout::from(TICK.as_millis() as u16))? > 0 {
            let is_open = socket.take_error()?.is_none();
            socket.set_nonblocking(false)?;
            return Ok(is_open.then(|| TcpStream::from(socket)));
        }
    }
    Ok(None)
}

fn listen(address: Ipv4Addr) -> Result<TcpListener, Error> {
    let socket = endpoint::socket(CONTROLLER)?;
    socket.bind(&SocketAddrV4::new(address, 0).into()).context("cannot listen")?;
    socket.listen(1).context("cannot listen")?;
    Ok(socket.into())
}

/// Writes until all is written, or there is no time left.
fn write(mut stream: &TcpStream, size: Option<Bytes>, stage: &Stage<'_>, deadline: Clock) {
    let zeros = [0; CHUNK];
    let mut left = size.map_or(u64::MAX, Bytes::get);
    while left > 0 && Clock::now() < deadline && !stage.has_ended() {
        let chunk = left.min(CHUNK as u64) as usize;
        match stream.write(&zeros[..chunk]) {
            Ok(written) => left -= written as u64,
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// Reads until all has arrived, or there is no time left; returns when that was.
fn read(mut stream: TcpStream, arrived: &AtomicU64, stage: &Stage<'_>, deadline: Clock) -> Clock {
    let mut buffer = vec![0; CHUNK];
    while Clock::now() < deadline && !stage.has_ended() {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => drop(arrived.fetch_add(size as u64, Ordering::Relaxed)),
            Err(error) if is_timeout(&error) => {}
            Err(_) => break,
        }
    }
    let _ = Socket::from(stream).set_linger(Some(Span::ZERO));
    Clock::now()
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
