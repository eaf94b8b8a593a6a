//! The servers under attack and their use of resources.

use super::path::{Path, SERVERS};
use super::{Failure, run};
use headway_net::TlsServer;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bounds for one server: resident memory in kB, threads, open files; and the kernel's memory for all sockets
/// of both, in kB.
const MOST: Resources = Resources { rss: 100_000, threads: 170, files: 450, sockets: 400_000 };

/// Bound on the log in bytes per second: two lines about sessions, and one line per minute with the counters.
const MAX_LOG: f64 = 600.0;

pub(crate) struct Servers {
    pub(crate) program: PathBuf,
    pub(crate) plain: Serve,
    pub(crate) tls: Serve,
    pub(crate) fingerprint: String,
    folder: PathBuf,
}

/// A server process; killed on drop.
pub(crate) struct Serve {
    child: Child,
    pub(crate) port: u16,
}

impl Serve {
    fn start(path: &Path, program: &PathBuf, more: &[&str], log: File) -> Result<Serve, Failure> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let child = path
            .command(SERVERS, program)
            .args(["serve", "--port", &port.to_string()])
            .args(more)
            .env_remove("HEADWAY_TOKEN")
            .env_remove("RUST_LOG")
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Serve { child, port })
    }

    /// Returns a path in /proc. `ip netns exec` becomes the server, so the child's PID is the server's.
    fn proc(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.child.id()))
    }

    /// Reads a number from `/proc/PID/status`.
    fn status(&self, key: &str) -> Result<u64, Failure> {
        number(&fs::read_to_string(self.proc("status"))?, key)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number that follows `word`.
fn number(text: &str, word: &str) -> Result<u64, Failure> {
    let mut words = text.split_whitespace().skip_while(|found| *found != word);
    Ok(words.nth(1).ok_or_else(|| format!("no {word}"))?.parse()?)
}

impl Servers {
    pub(crate) fn start(path: &Path) -> Result<Servers, Failure> {
        // Examples are built into a subfolder of the program's folder.
        let program = std::env::current_exe()?.ancestors().nth(2).ok_or("no folder")?.join("headway");
        let folder = std::env::temp_dir().join(format!("hostile-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let [certificate, key, log] = ["cert.pem", "key.pem", "log"].map(|name| folder.join(name));
        // RSA, whose signatures cost a server the most.
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=hostile", "-days", "2"]);
        run(openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key))?;
        let fingerprint = TlsServer::from_files(&certificate, &key)?.fingerprint();
        let plain = Serve::start(path, &program, &[], File::create(&log)?)?;
        let files = [certificate, key].map(|file| file.to_string_lossy().into_owned());
        let full = File::options().write(true).open("/dev/full")?;
        let tls = Serve::start(path, &program, &["--tls-cert", &files[0], "--tls-key", &files[1]], full)?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(Servers { program, plain, tls, fingerprint, folder })
    }

    /// Returns the resources that both servers use now.
    pub(crate) fn resources(&self, path: &Path) -> Result<Resources, Failure> {
        let most = |key| Ok::<_, Failure>(self.plain.status(key)?.max(self.tls.status(key)?));
        let files = |serve: &Serve| Ok::<_, Failure>(fs::read_dir(serve.proc("fd"))?.count() as u64);
        let output = path.command(SERVERS, "cat").arg("/proc/net/sockstat").output()?;
        let text = String::from_utf8(output.stdout)?;
        // Pages of 4 kB per kind of socket.
        let pages = |kind| {
            let line = text.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
            number(line, "mem")
        };
        Ok(Resources {
            rss: most("VmRSS:")?,
            threads: most("Threads:")?,
            files: files(&self.plain)?.max(files(&self.tls)?),
            sockets: 4 * (pages("TCP:")? + pages("UDP:")?),
        })
    }

    /// Ends both servers with SIGTERM, as an operator does; returns the log.
    pub(crate) fn end(&mut self, time: Duration) -> Result<Log, Failure> {
        for serve in [&mut self.plain, &mut self.tls] {
            run(Command::new("kill").args(["-TERM", &serve.child.id().to_string()]))?;
            let status = serve.child.wait()?;
            if !status.success() {
                return Err(format!("a server ended with {status}").into());
            }
        }
        let mut text = String::new();
        File::open(self.folder.join("log"))?.read_to_string(&mut text)?;
        let last = text.lines().last().unwrap_or_default().to_owned();
        Ok(Log { bytes: text.len(), lines: text.lines().count(), time, last })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The resources a server uses.
#[derive(Clone, Copy)]
pub(crate) struct Resources {
    rss: u64,
    threads: u64,
    files: u64,
    sockets: u64,
}

impl Resources {
    pub(crate) fn max(self, other: Resources) -> Resources {
        Resources {
            rss: self.rss.max(other.rss),
            threads: self.threads.max(other.threads),
            files: self.files.max(other.files),
            sockets: self.sockets.max(other.sockets),
        }
    }

    /// Whether all values are within bounds.
    pub(crate) fn hold(self) -> bool {
        self.rss <= MOST.rss
            && self.threads <= MOST.threads
            && self.files <= MOST.files
            && self.sockets <= MOST.sockets
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { rss, threads, files, sockets } = self;
        write!(
            f,
            "{rss} kB resident, {threads} threads, {files} open files, {sockets} kB in all sockets of the kernel"
        )
    }
}

/// The size and last line of a server's log.
pub(crate) struct Log {
    bytes: usize,
    lines: usize,
    time: Duration,
    last: String,
}

impl Log {
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }

    pub(crate) fn holds(&self) -> bool {
        // A burst of one minute's worth is allowed.
        self.bytes as f64 <= MAX_LOG * (self.time.as_secs_f64() + 60.0)
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "log: {} bytes in {} lines, {:.0} bytes a second", self.bytes, self.lines, self.rate())?;
        write!(f, "  {}", self.last)
    }
}
