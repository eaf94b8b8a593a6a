//! The process behind a lab: makes the namespaces, runs the emulator, answers, and cleans up.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::{Desk, Live};
use crate::emulator::{Emulator, prioritise};
use crate::error::Error;
use crate::interface;
use crate::namespace::{self, Holder, INTERFACE};
use crate::port::Port;
use crate::process::Process;
use crate::spec::Spec;
use crate::state::{self, CONTROL, Node, State};
use crate::writer::TruthLog;

/// How long processes in the nodes may take to end by themselves before they are killed.
const GRACE: Duration = Duration::from_secs(1);

/// What the starter writes on the daemon's standard input, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) owned: bool,
    pub(crate) spec: Spec,
}

/// The line on standard output that says that the lab is up.
pub(crate) const READY: &str = "ready";

/// Runs the daemon: the whole of the hidden command `lab daemon`; call it while the process has one thread.
///
/// Standard input carries the start line; for an owned lab its end then means that the owner died.
/// Standard output gets one line: `ready`, or the sentence that says what went wrong.
///
/// # Errors
/// When the lab cannot be brought up; this was already reported on standard output.
pub fn run() -> Result<(), Error> {
    let mut line = String::new();
    BufReader::with_capacity(1, io::stdin())
        .read_line(&mut line)
        .map_err(Error::system("read the start line"))?;
    let start: Start = serde_json::from_str(&line).map_err(|e| Error::Daemon(format!("start line: {e}")))?;
    match Daemon::set_up(&start) {
        Ok(daemon) => daemon.serve(start.owned),
        Err(error) => {
            println!("{error}");
            Err(error)
        }
    }
}

struct Daemon {
    folder: PathBuf,
    holders: [Holder; 2],
    listener: UnixListener,
    signals: UnixStream,
    desk: Arc<Desk>,
}

impl Daemon {
    fn set_up(start: &Start) -> Result<Daemon, Error> {
        let spec = &start.spec;
        // A session of its own: keys pressed in the starter's terminal do not reach it, and it has a
        // scheduling group of its own. It fails only for one who leads a session already.
        let _ = nix::unistd::setsid();
        for refusal in prioritise() {
            tracing::info!("{refusal}");
        }
        // No file system is kept busy by a daemon. Its own files have absolute names.
        let _ = std::env::set_current_dir("/");
        let rootless = namespace::enter_router()?;
        let nodes = Node::pair();
        let holders = connect(&nodes, spec.mtu)?;
        let open = |name| Port::open(name).map_err(Error::system("open a packet socket"));
        let (client, server) = (open("client")?, open("server")?);

        // Threads may start from here on.
        let signals = signals().map_err(Error::system("listen for signals"))?;
        let log = TruthLog::create(&start.folder)?;
        let path = start.folder.join(CONTROL);
        let listener = UnixListener::bind(&path).map_err(|e| Error::file("listen at", &path, e))?;

        let (wake, woken) = UnixStream::pair().map_err(Error::system("make a pipe to the emulator"))?;
        wake.set_nonblocking(true).map_err(Error::system("set up the pipe to the emulator"))?;
        let live = Arc::new(Mutex::new(Live {
            path: spec.path(),
            cross: spec.cross.clone(),
            forward: None,
            reverse: None,
        }));
        let (orders, ordered) = channel();
        let (reports, reported) = channel();
        let emulator = Emulator::new(spec, client, server, ordered, woken, reports);
        let failed = Error::system("start a thread");
        thread::Builder::new().name("emulator".into()).spawn(move || emulator.run()).map_err(failed)?;
        let shared = Arc::clone(&live);
        let failed = Error::system("start a thread");
        thread::Builder::new()
            .name("truth".into())
            .spawn(move || log.write(&reported, &shared))
            .map_err(failed)?;
        let desk = Desk { live, orders: Mutex::new(orders), wake, mtu: spec.mtu };

        let [client, server] = nodes;
        let state = State {
            name: start.name.clone(),
            daemon: Process::this().ok_or_else(|| Error::Daemon("there is no /proc".to_owned()))?,
            nodes: vec![(client, holders[0].process), (server, holders[1].process)],
            rootless,
            spec: spec.clone(),
        };
        state.write(&start.folder)?;
        Ok(Daemon { folder: start.folder.clone(), holders, listener, signals, desk: Arc::new(desk) })
    }

    /// Says that the lab is up, serves until it shall end, and removes everything.
    fn serve(self, owned: bool) -> Result<(), Error> {
        let mut out = io::stdout();
        let told = writeln!(out, "{READY}").and_then(|()| out.flush());
        if let Err(error) = told.and_then(|()| detach_output()) {
            tracing::warn!("nobody waits for this lab any more: {error}");
            return self.clean_up();
        }
        loop {
            let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let stdin = if owned { 0 } else { -1 };
            let mut fds = [entry(self.listener.as_raw_fd()), entry(self.signals.as_raw_fd()), entry(stdin)];
            // SAFETY: three valid pollfds; a negative descriptor is ignored by poll.
            unsafe { libc::poll(fds.as_mut_ptr(), 3, -1) };
            if fds[1].revents != 0 || fds[2].revents != 0 {
                return self.clean_up();
            }
            if fds[0].revents != 0
                && let Ok((stream, _)) = self.listener.accept()
            {
                let desk = Arc::clone(&self.desk);
                // When no thread can be had the asker sees its connection closed.
                let _ = thread::Builder::new().spawn(move || desk.serve(stream));
            }
        }
    }

    /// Ends what runs in the nodes; the nodes themselves and their links end with this process.
    fn clean_up(self) -> Result<(), Error> {
        let guests: Vec<Process> =
            self.holders.iter().flat_map(|holder| namespace::inhabitants(holder.process)).collect();
        let handles: Vec<_> = guests.iter().filter_map(Process::open).collect();
        for handle in &handles {
            let _ = handle.signal(libc::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        for handle in &handles {
            if !handle.wait_until(deadline) {
                let _ = handle.signal(libc::SIGKILL);
            }
        }
        for holder in &self.holders {
            if let Some(handle) = holder.process.open() {
                let _ = handle.signal(libc::SIGKILL);
                handle.wait_until(Instant::now() + GRACE);
            }
            // Our child: without this it would stay in the process table until we end, or longer.
            let flags = Some(nix::sys::wait::WaitPidFlag::WNOHANG);
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(holder.process.pid), flags);
        }
        state::remove(&self.folder)
    }
}

/// Makes the nodes and links them to this process's namespace.
fn connect(nodes: &[Node; 2], mtu: u32) -> Result<[Holder; 2], Error> {
    let [client, server] = nodes;
    interface::sysctl(&[("ipv6/conf/default/disable_ipv6", "1"), ("ipv6/conf/all/disable_ipv6", "1")])?;
    let mut holders = [Holder::fork(client, server, mtu)?, Holder::fork(server, client, mtu)?];
    let mut batch = String::new();
    for (name, holder) in ["client", "server"].iter().zip(&holders) {
        let pid = holder.process.pid;
        batch += &format!(
            "link add {name} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} netns {pid}\n\
             link set {name} up\n"
        );
    }
    interface::ip("router", &batch)?;
    for (name, holder) in ["client", "server"].iter().zip(&mut holders) {
        interface::offloads_off(name)?;
        holder.configure()?;
    }
    Ok(holders)
}

/// A stream that becomes readable when the process is asked to end.
fn signals() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Closes the pipe on which the starter waited, so that it and its readers see the end of it.
fn detach_output() -> io::Result<()> {
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    // SAFETY: both are open descriptors; the old standard output is closed by the call.
    if unsafe { libc::dup2(null.as_raw_fd(), 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The file that gets what the daemon has to say.
pub(crate) fn log(folder: &Path) -> Result<File, Error> {
    let path = folder.join(state::LOG);
    File::create(&path).map_err(|e| Error::file("make", &path, e))
}
