//! The connection to `headway serve`: options, errors and signals of the commands that measure.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use clap::Args;
use headway_estimate::measure::Failure;
use headway_net::{ConnectOptions, FamilyChoice, Host, NetError, TlsClient};
use headway_units::Duration;

use crate::exit::{Code, Failed};
use crate::token;

/// Help for `--port`, whose default depends on the host's text.
static PORT_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Port of the server, for TCP and UDP; also as HOST:PORT or [IPv6]:PORT [default: {}]",
        headway_net::DEFAULT_PORT
    )
});

/// Options of every command that connects to a server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    #[arg(long, short, value_name = "PORT", help = PORT_HELP.as_str(), value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Use IPv4 only.
    #[arg(long, short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only.
    #[arg(long, short = '6')]
    ipv6: bool,
    /// File with the token that both ends prove to know; also in the variable HEADWAY_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Encrypt the control connection and trust the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Encrypt the control connection and trust only the certificate with this SHA-256, as
    /// `headway serve` prints it.
    #[arg(long, value_name = "HEX", conflicts_with = "tls_ca")]
    tls_fingerprint: Option<String>,
    /// Time limit for each answer of the server.
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    timeout: Duration,
}

impl ConnectionArgs {
    /// Returns the options for a connection to `host`.
    ///
    /// # Errors
    /// When the arguments contradict each other, or a file cannot be read: nothing that
    /// trying again could mend.
    pub fn options(&self, host: &Host) -> Result<ConnectOptions, Failed> {
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => FamilyChoice::V4,
            (_, true) => FamilyChoice::V6,
            _ => FamilyChoice::Any,
        };
        Ok(ConnectOptions {
            port: self.port_of(host)?,
            family,
            token: token::read(self.token_file.as_deref())?,
            tls: self.tls()?,
            timeout: self.timeout.to_std(),
            ..ConnectOptions::new(&host.name)
        })
    }

    /// Returns the file with the token, if one was named.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    fn port_of(&self, host: &Host) -> Result<u16, Failed> {
        match (host.port, self.port) {
            (Some(one), Some(other)) if one != other => {
                let reason =
                    anyhow::anyhow!("the port is {one} in the host and {other} in --port; give it once");
                Err(Failed::new(Code::Arguments, reason))
            }
            (one, other) => Ok(one.or(other).unwrap_or(headway_net::DEFAULT_PORT)),
        }
    }

    fn tls(&self) -> Result<Option<TlsClient>, Failed> {
        let client = match (&self.tls_ca, &self.tls_fingerprint) {
            (Some(path), _) => TlsClient::with_authorities(path),
            (_, Some(fingerprint)) => TlsClient::with_fingerprint(fingerprint),
            _ => return Ok(None),
        };
        Ok(client.map(Some)?)
    }
}

/// Sets `interrupted` on SIGINT and SIGTERM; a second signal ends the program at once.
///
/// # Errors
/// If no handler can be installed.
pub fn stop_on_signals(interrupted: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    Ok(())
}

/// Returns the error of the network with its exit code.
pub fn net_failure(error: NetError) -> Failed {
    Failed::new(net_code(&error), error)
}

/// Returns the exit code for an error of the network.
pub fn net_code(error: &NetError) -> Code {
    match error {
        NetError::UnknownHost { .. }
        | NetError::NoAddress { .. }
        | NetError::Unreachable { .. }
        | NetError::NoneReachable { .. }
        | NetError::NotHeadway { .. }
        | NetError::ConnectionLost(_)
        | NetError::Timeout(..)
        | NetError::Protocol(_) => Code::Unreachable,
        NetError::VersionMismatch { .. }
        | NetError::TlsRequired
        | NetError::TlsMissing
        | NetError::Tls(_)
        | NetError::TokenRequired
        | NetError::WrongToken
        | NetError::TokenUnknown
        | NetError::ServerRawSocket
        | NetError::Refused(_) => Code::Refused,
        NetError::UdpBlockedForward { .. }
        | NetError::UdpBlockedReverse { .. }
        | NetError::UdpOtherAddress
        | NetError::MtuTooSmall { .. } => Code::Blocked,
        NetError::Interrupted => Code::Interrupted,
        _ => Code::Other,
    }
}

/// Returns the exit code for a measurement that gives no answer.
pub fn failure_code(failure: Failure) -> Code {
    match failure {
        Failure::AllLost => Code::Blocked,
        _ => Code::Untrustworthy,
    }
}
