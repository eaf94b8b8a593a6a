//! Certificates generated for tests.

use headway_net::{TlsClient, TlsServer};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// A certificate for 127.0.0.1 with its key, in files that are removed on drop.
pub(crate) struct Certificate {
    directory: PathBuf,
}

impl Certificate {
    /// `name` separates the files of tests in the same process.
    pub(crate) fn new(name: &str) -> Certificate {
        let directory = std::env::temp_dir().join(format!("headway-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a writable directory");
        let names = ["127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        std::fs::write(directory.join("cert.pem"), made.cert.pem()).expect("a writable directory");
        let key = made.signing_key.serialize_pem();
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(true).mode(0o600).open(directory.join("key.pem"));
        file.and_then(|mut file| file.write_all(key.as_bytes())).expect("a writable directory");
        Certificate { directory }
    }

    pub(crate) fn server(&self) -> TlsServer {
        TlsServer::from_files(&self.directory.join("cert.pem"), &self.directory.join("key.pem"))
            .expect("the files just written")
    }

    pub(crate) fn client(&self) -> TlsClient {
        TlsClient::with_authorities(&self.directory.join("cert.pem")).expect("the files just written")
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
