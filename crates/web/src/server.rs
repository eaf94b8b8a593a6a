//! Servers, each in a thread of its own.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use headway_edge::snapshot::Snapshot;
use headway_history::Reader;
use tokio::sync::oneshot;

use crate::access::{Access, Token};
use crate::http;
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
    Listen(SocketAddr, #[source] std::io::Error),
    /// The thread could not start.
    #[error("cannot start a thread for {0}")]
    Thread(SocketAddr, #[source] std::io::Error),
}

/// A page with what a router knows, and its metrics. It ends when it is dropped.
pub struct Server {
    shown: Arc<Shown>,
    worker: Worker,
}

impl Server {
    /// Begins to listen; port 0 takes a free one. With a history, viewers can look back further than an hour.
    ///
    /// # Errors
    /// If the address is reachable for others and there is no token, or is not to be had.
    pub fn start(listen: SocketAddr, token: Option<Token>, history: Option<Reader>) -> Result<Server, Error> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Whole in a browser, whose numbers have 53 bits.
        let shown = Arc::new(Shown::new(since_1970.as_millis() as u64, history));
        let (viewed, counted) = (Arc::clone(&shown), Arc::clone(&shown));
        let metrics = Metrics::new(move |writer| edge::write(&counted, writer));
        let worker = Worker::start(listen, token, |access| routes::page(viewed, metrics, access))?;
        Ok(Server { shown, worker })
    }

    /// Shows a snapshot. It waits for no viewer: the newest snapshot wins, and no decision of the last 200 is lost.
    pub fn publish(&self, snapshot: &Snapshot) {
        self.shown.publish(snapshot);
    }

    /// Returns the address with the port.
    pub fn address(&self) -> SocketAddr {
        self.worker.address
    }
}

/// Metrics without a page. It ends when it is dropped.
pub struct MetricsServer(Worker);

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
        Worker::start(listen, token, |access| routes::metrics_only(metrics, access)).map(MetricsServer)
    }

    /// Returns the address with the port.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// The thread with the runtime.
struct Worker {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(
        listen: SocketAddr,
        token: Option<Token>,
        routes: impl FnOnce(Access) -> Router,
    ) -> Result<Worker, Error> {
        let cannot = |error| Error::Listen(listen, error);
        if Access::new(listen, token.clone()).is_none() {
            return Err(Error::NeedsToken(listen));
        }
        let listener = TcpListener::bind(listen).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let access = Access::new(address, token).ok_or(Error::NeedsToken(listen))?;
        let routes = routes(access);
        // The other thread reads the history.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = runtime.map_err(|error| Error::Thread(listen, error))?;
        let (end, ended) = oneshot::channel();
        let work = move || {
            runtime.block_on(async move {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    tokio::spawn(http::serve(listener, routes));
                }
                // Dropped with its tasks at the end, which closes all connections.
                let _ = ended.await;
            });
        };
        let thread = std::thread::Builder::new().name("page".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::Thread(listen, error))?;
        Ok(Worker { address, end: Some(end), thread: Some(thread) })
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
