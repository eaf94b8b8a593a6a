//! Servers, each in a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use headway_edge::snapshot::Snapshot;
use headway_history::Reader;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::access::{Access, Token};
use crate::choice::Choice;
use crate::http::{self, Listener};
use crate::metrics::{MetricWriter, Metrics, edge};
use crate::routes;
use crate::shown::Shown;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others can reach the address, and there is no token.
    #[error(
        "others can reach {0}, so it needs a token of at least 16 characters; 127.0.0.1 and [::1] need none"
    )]
    NeedsToken(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The thread could not start.
    #[error("cannot start a thread that answers requests")]
    Thread(#[source] io::Error),
}

/// A page with what a router knows, and its metrics. It ends when it is dropped.
pub struct Server {
    shown: Arc<Shown>,
    address: SocketAddr,
    _worker: Worker,
}

impl Server {
    /// Begins to listen; port 0 takes a free one. With a history, viewers can look back further than an hour.
    ///
    /// # Errors
    /// If the address is reachable for others and there is no token, or is not to be had.
    pub fn start(listen: SocketAddr, token: Option<Token>, history: Option<Reader>) -> Result<Server, Error> {
        let shown = Arc::new(Shown::new(run(), history));
        let (viewed, counted) = (Arc::clone(&shown), Arc::clone(&shown));
        let metrics = Metrics::new(move |writer| edge::write(&counted, writer));
        let (door, address) = Door::tcp(listen, token)?;
        let routes = |access| routes::page(Arc::clone(&viewed), metrics.clone(), access);
        let worker = Worker::start(vec![door], routes)?;
        Ok(Server { shown, address, _worker: worker })
    }

    /// Shows a snapshot. It waits for no viewer: the newest snapshot wins, and no decision of
    /// the last 200 is lost.
    pub fn publish(&self, snapshot: &Snapshot) {
        self.shown.publish(snapshot);
    }

    /// Returns the address with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Returns a number that tells this run from others, whole in a browser, whose numbers have 53 bits.
fn run() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Metrics without a page. It ends when it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    _worker: Worker,
}

impl MetricsServer {
    /// Begins to listen; port 0 takes a free one. `write` is called for each request.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start(
        listen: SocketAddr,
        token: Option<Token>,
        write: impl Fn(&mut MetricWriter<'_>) -> std::fmt::Result + Send + Sync + 'static,
    ) -> Result<MetricsServer, Error> {
        let metrics = Metrics::new(write);
        let (door, address) = Door::tcp(listen, token)?;
        let worker = Worker::start(vec![door], |access| routes::metrics_only(metrics.clone(), access))?;
        Ok(MetricsServer { address, _worker: worker })
    }

    /// Returns the address with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Where those who look at a choice among paths come from.
pub struct ChoiceDoors {
    address: Option<SocketAddr>,
    doors: Vec<Door>,
}

impl ChoiceDoors {
    /// Begins to listen at an address, where port 0 takes a free one, at a Unix socket, or at both; whoever
    /// can connect to the socket may look. Starts no thread.
    ///
    /// # Errors
    /// If the address is reachable for others and there is no token, or is not to be had.
    pub fn open(
        listen: Option<(SocketAddr, Option<Token>)>,
        socket: Option<UnixListener>,
    ) -> Result<ChoiceDoors, Error> {
        let (door, address) = listen.map(|(listen, token)| Door::tcp(listen, token)).transpose()?.unzip();
        Ok(ChoiceDoors { address, doors: door.into_iter().chain(socket.map(Door::Unix)).collect() })
    }
}

/// A choice among paths, as its caller tells it in JSON. It ends when it is dropped.
pub struct ChoiceServer {
    choice: Arc<Choice>,
    address: Option<SocketAddr>,
    _worker: Worker,
}

impl ChoiceServer {
    /// Begins to answer; until another is given, this is the state.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(doors: ChoiceDoors, state: &impl Serialize) -> Result<ChoiceServer, Error> {
        let choice = Arc::new(Choice::new(run(), state));
        let worker = Worker::start(doors.doors, |access| routes::choice(Arc::clone(&choice), access))?;
        Ok(ChoiceServer { choice, address: doors.address, _worker: worker })
    }

    /// Takes a state for those who ask from now on; event streams do not show it.
    pub fn refresh(&self, state: &impl Serialize) {
        self.choice.refresh(state);
    }

    /// Shows a state, and the decisions since the last one. It waits for no viewer: the newest state wins,
    /// and no decision of the last 64 is lost.
    pub fn publish(&self, state: &impl Serialize, decisions: &[impl Serialize]) {
        self.choice.publish(state, decisions);
    }

    /// Returns the address with the port, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

/// Where viewers come from.
enum Door {
    Tcp(TcpListener, Access),
    Unix(UnixListener),
}

impl Door {
    /// Returns one at an address, and the address with the port that it has.
    fn tcp(listen: SocketAddr, token: Option<Token>) -> Result<(Door, SocketAddr), Error> {
        if Access::new(listen, token.clone()).is_none() {
            return Err(Error::NeedsToken(listen));
        }
        let cannot = |error| Error::Listen(listen, error);
        let listener = TcpListener::bind(listen).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let access = Access::new(address, token).ok_or(Error::NeedsToken(listen))?;
        Ok((Door::Tcp(listener, access), address))
    }

    fn access(&self) -> Access {
        match self {
            Door::Tcp(_, access) => access.clone(),
            Door::Unix(_) => Access::Connected,
        }
    }

    /// Opens it, within a runtime.
    fn open(self) -> io::Result<Listener> {
        match self {
            Door::Tcp(listener, _) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(Listener::Tcp)
            }
            Door::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener).map(Listener::Unix)
            }
        }
    }
}

/// The thread with the runtime.
struct Worker {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(doors: Vec<Door>, routes: impl Fn(Access) -> Router) -> Result<Worker, Error> {
        // The other thread reads the history.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = runtime.map_err(Error::Thread)?;
        for door in doors {
            let routes = routes(door.access());
            let _inside = runtime.enter();
            let listener = door.open().map_err(Error::Thread)?;
            runtime.spawn(http::serve(listener, routes));
        }
        let (end, ended) = oneshot::channel();
        let work = move || {
            runtime.block_on(async move {
                // Dropped with its tasks at the end, which closes all connections.
                let _ = ended.await;
            });
        };
        let thread = std::thread::Builder::new().name("page".to_owned()).spawn(work);
        let thread = thread.map_err(Error::Thread)?;
        Ok(Worker { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
