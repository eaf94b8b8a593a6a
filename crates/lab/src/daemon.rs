//! The process behind a lab: creates the namespaces, runs the emulator, answers requests and cleans up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::base::{Base, Folder, Lock};
use crate::control::{Control, Status};
use crate::emulator::{Emulator, prioritise};
use crate::error::Error;
use crate::interface;
use crate::layout::{Place, places};
use crate::life::{self, Ending};
use crate::namespace::{self, Holder};
use crate::netns_processes::{processes_in, sweep};
use crate::port::Port;
use crate::process::{Process, boot, close_all_but};
use crate::spec::{Spec, load_captures};
use crate::start::{READY, STAY, Start};
use crate::state::{CONTROL, Interface, State};
use crate::writer::Writer;

/// How long programs in the nodes may take to exit after SIGTERM before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the holders may take to kill the remaining programs.
const HOLDERS_GRACE: Duration = Duration::from_secs(5);

/// Runs the daemon: the hidden command `lab daemon`. The process must have one thread.
///
/// Standard input carries the start line. End of file after that means that the starter died, unless the line
/// `stay` came first. Standard output gets one line: `ready`, or a sentence saying what went wrong.
///
/// # Errors
/// If the lab cannot be brought up; the error has then been reported on standard output.
pub fn run() -> Result<(), Error> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(Error::system("read the start line"))?;
    let start: Start = serde_json::from_str(&line).map_err(|e| Error::Daemon(format!("start line: {e}")))?;
    // Drop descriptors inherited from the starter: somebody may be waiting for end of file on them.
    close_all_but(&[start.lock]);
    match Daemon::set_up(&start) {
        Ok(daemon) => daemon.serve(),
        Err(error) => {
            // Fails if the starter was killed, when nobody reads the output any more.
            let _ = writeln!(io::stdout(), "{error}");
            Err(error)
        }
    }
}

struct Daemon {
    folder: Folder,
    state: State,
    holders: Vec<Holder>,
    /// Held until the process exits.
    _lock: Lock,
    listener: UnixListener,
    signals: UnixStream,
    control: Arc<Control>,
}

impl Daemon {
    fn set_up(start: &Start) -> Result<Daemon, Error> {
        let mut spec = start.spec.clone();
        load_captures(&mut spec.cross)?;
        let spec = &spec;
        let gone = || Error::NotUp(start.name.clone());
        let folder = Base::open()?.ok_or_else(gone)?.find(&start.name)?.ok_or_else(gone)?;
        let lock = inherited(start.lock, &folder)?;
        // A session of its own: keys pressed in the starter's terminal do not reach it, and it gets a
        // scheduling group of its own. setsid fails only for a process group leader.
        let _ = nix::unistd::setsid();
        for refusal in prioritise() {
            tracing::info!("{refusal}");
        }
        // A daemon must not keep a file system busy. Its own files have absolute paths.
        let _ = std::env::set_current_dir("/");
        let rootless = namespace::enter_router()?;
        let places = places(&spec.links);
        let holders = connect(spec, &places, &lock)?;
        let open = |port| Port::open(&port_name(port)).map_err(Error::system("open a packet socket"));
        let ports = (0..2 * spec.links.len()).map(open).collect::<Result<_, _>>()?;

        // Threads may be started from here on.
        let signals = signals().map_err(Error::system("listen for signals"))?;
        let writer = Writer::create(folder.path(), spec.lane_names())?;
        let path = folder.path().join(CONTROL);
        let listener = UnixListener::bind(&path).map_err(|e| Error::file("listen at", &path, e))?;

        let (wake, woken) = UnixStream::pair().map_err(Error::system("make a pipe to the emulator"))?;
        wake.set_nonblocking(true).map_err(Error::system("set up the pipe to the emulator"))?;
        let status = Arc::new(Mutex::new(Status::new(spec)));
        let (commands, incoming) = channel();
        let (reports, reported) = channel();
        let failed = Error::system("watch the ports");
        let emulator = Emulator::new(spec, ports, incoming, woken, reports).map_err(failed)?;
        let failed = Error::system("start a thread");
        thread::Builder::new().name("emulator".into()).spawn(move || emulator.run()).map_err(failed)?;
        let shared = Arc::clone(&status);
        let failed = Error::system("start a thread");
        thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.write(&reported, &shared))
            .map_err(failed)?;
        let control = Control { status, commands: Mutex::new(commands), wake, spec: spec.clone() };

        let nodes = places.into_iter().map(|place| place.node);
        let state = State {
            name: start.name.clone(),
            boot: boot(),
            owner: start.owner,
            ending: false,
            networks: holders.iter().map(|holder| holder.network).collect(),
            daemon: Process::this().ok_or_else(|| Error::Daemon("there is no /proc".to_owned()))?,
            nodes: nodes.zip(holders.iter().map(|holder| holder.process)).collect(),
            rootless,
            spec: spec.clone(),
        };
        state.write(&folder)?;
        Ok(Daemon { folder, state, holders, _lock: lock, listener, signals, control: Arc::new(control) })
    }

    /// Reports that the lab is up, serves requests until a request ends it, and removes everything.
    fn serve(mut self) -> Result<(), Error> {
        let mut out = io::stdout();
        let told = writeln!(out, "{READY}").and_then(|()| out.flush());
        if let Err(error) = told.and_then(|()| detach_output()) {
            tracing::warn!("nobody waits for this lab any more: {error}");
            return life::now(life::end(&mut self));
        }
        loop {
            let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let stdin = if self.state.owner.is_some() { 0 } else { -1 };
            let mut fds = [entry(self.listener.as_raw_fd()), entry(self.signals.as_raw_fd()), entry(stdin)];
            // SAFETY: three valid pollfds; a negative descriptor is ignored by poll.
            unsafe { libc::poll(fds.as_mut_ptr(), 3, -1) };
            if fds[1].revents != 0 || (fds[2].revents != 0 && !self.stays()) {
                return life::now(life::end(&mut self));
            }
            if fds[0].revents != 0
                && let Ok((stream, _)) = self.listener.accept()
            {
                let control = Arc::clone(&self.control);
                // If no thread can be created, the client sees its connection closed.
                let _ = thread::Builder::new().spawn(move || control.serve(stream));
            }
        }
    }

    /// Whether the starter released the lab; false if the starter died.
    fn stays(&mut self) -> bool {
        let mut line = String::new();
        let heard = io::stdin().read_line(&mut line);
        if heard.is_err() || line.trim_end() != STAY {
            return false;
        }
        self.state.owner = None;
        match self.state.write(&self.folder) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!("{error}");
                false
            }
        }
    }
}

impl Ending for Daemon {
    async fn close(&mut self) -> Result<(), Error> {
        State::close(&self.folder)
    }

    async fn ask_programs(&mut self) {
        let inside = |holder: &Holder| processes_in(holder.network.number, holder.process.pid);
        let programs: Vec<Process> = self.holders.iter().flat_map(inside).collect();
        let handles: Vec<_> = programs.iter().filter_map(Process::open).collect();
        for handle in &handles {
            let _ = handle.signal(libc::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        for handle in &handles {
            handle.wait_until(deadline);
        }
    }

    async fn dismiss_holders(&mut self) -> bool {
        self.holders.iter().for_each(Holder::dismiss);
        let deadline = Instant::now() + HOLDERS_GRACE;
        let gone = |holder: &Holder| {
            let ended = holder.process.open().is_none_or(|handle| handle.wait_until(deadline));
            // It is our child: unless reaped it would stay in the process table as a zombie
            // until we exit, or longer.
            let flags = Some(nix::sys::wait::WaitPidFlag::WNOHANG);
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(holder.process.pid), flags);
            ended
        };
        self.holders.iter().all(gone)
    }

    async fn sweep(&mut self) {
        // This process is already in the user namespace of the lab.
        self.state.networks.iter().for_each(|network| sweep(*network, false));
    }

    async fn remove(&mut self) -> Result<(), Error> {
        self.folder.remove()
    }
}

/// Takes over the lock inherited from the starter and sets close-on-exec, so that child
/// processes do not inherit it.
fn inherited(number: RawFd, folder: &Folder) -> Result<Lock, Error> {
    // SAFETY: the descriptor is only compared, and rejected if it is not open.
    let is_ours = number > 2 && folder.is_lock(&unsafe { BorrowedFd::borrow_raw(number) });
    if !is_ours {
        return Err(Error::Daemon("this command is only for `headway lab up`".to_owned()));
    }
    // SAFETY: open, as checked above, and nobody else in this process uses it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(Error::system("keep the lab's lock"))?;
    Ok(Lock(file))
}

/// Returns the name of a port's interface: ports `2 k` and `2 k + 1` belong to the ends of link `k`.
fn port_name(port: usize) -> String {
    format!("port{port}")
}

/// Creates the nodes and connects them to this process's namespace.
fn connect(spec: &Spec, places: &[Place], lock: &Lock) -> Result<Vec<Holder>, Error> {
    let mtu = spec.mtu;
    interface::sysctl(&[("ipv6/conf/default/disable_ipv6", "1"), ("ipv6/conf/all/disable_ipv6", "1")])?;
    let mut holders =
        places.iter().map(|place| Holder::fork(place, mtu, lock)).collect::<Result<Vec<_>, _>>()?;
    let mut batch = String::new();
    for (place, holder) in places.iter().zip(&holders) {
        let pid = holder.process.pid;
        for Interface { name, link, .. } in &place.node.interfaces {
            let port = port_name(spec.port(link, &place.node.name));
            batch += &format!(
                "link add {port} mtu {mtu} type veth peer name {name} mtu {mtu} netns {pid}\n\
                 link set {port} up\n"
            );
        }
    }
    interface::ip("the emulator", &batch)?;
    for port in 0..2 * spec.links.len() {
        interface::offloads_off(&port_name(port));
    }
    // All nodes at once, because each starts `ip`.
    holders.iter_mut().try_for_each(Holder::configure)?;
    holders.iter_mut().try_for_each(Holder::configured)?;
    Ok(holders)
}

/// Returns a stream that becomes readable when the process gets a termination signal.
fn signals() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Closes the pipe on which the starter waited, so that the starter and other readers see end of file.
fn detach_output() -> io::Result<()> {
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    // SAFETY: both are open descriptors; the old standard output is closed by the call.
    if unsafe { libc::dup2(null.as_raw_fd(), 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
