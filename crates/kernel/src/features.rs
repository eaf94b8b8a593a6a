//! Features of network interfaces by the names that the kernel has for them, in `ethtool` requests.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

/// Requests (linux/ethtool.h): the sizes of sets of names, the names of one, and the
/// features of an interface.
const GET_SIZES: u32 = 0x37;
const GET_NAMES: u32 = 0x1b;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
/// The set of the names of features, and the length of a name in words of 32 bits.
const FEATURES: u32 = 4;
const NAME_WORDS: usize = 8;
/// Transmit checksums at any place in a packet, which the congestion header does not disturb.
const ANY_CHECKSUM: &str = "tx-checksum-ip-generic";
/// Those for which the NIC itself looks for TCP or UDP behind the IP header.
const TCP_CHECKSUMS: [&str; 2] = ["tx-checksum-ipv4", "tx-checksum-ipv6"];

/// Whether a feature makes one packet of several segments, or several segments of one.
pub(crate) fn merges(feature: &str) -> bool {
    matches!(feature, "tx-generic-segmentation" | "rx-gro" | "rx-lro" | "rx-gro-hw" | "rx-gro-list")
        || feature.starts_with("tx-tcp") && feature.ends_with("segmentation")
}

/// Returns the features of `active` with which a NIC would send wrong checksums behind a congestion header:
/// it expects TCP where the header is, but the kernel leaves the checksum to it because it is TCP's.
pub(crate) fn disturbed(active: &[String]) -> Vec<String> {
    if active.iter().any(|name| name == ANY_CHECKSUM) {
        return Vec::new();
    }
    active.iter().filter(|name| TCP_CHECKSUMS.contains(&name.as_str())).cloned().collect()
}

/// Returns the names of the features of an interface of this thread's network namespace that are on; none if
/// it has no features that can be read.
pub(crate) fn active(interface: &str) -> io::Result<Vec<String>> {
    let names = names(interface)?;
    // The kernel's words for each 32 features: available, requested, active, never changed.
    let mut words = vec![0; 2 + 4 * names.len().div_ceil(32)];
    (words[0], words[1]) = (GET_FEATURES, names.len().div_ceil(32) as u32);
    request(interface, &mut words)?;
    let is_on = |number: usize| words[2 + 4 * (number / 32) + 2] >> (number % 32) & 1 == 1;
    Ok(names.into_iter().enumerate().filter(|(number, _)| is_on(*number)).map(|(_, name)| name).collect())
}

/// Turns features of an interface of this thread's network namespace on or off. Those that
/// depend on them follow.
pub(crate) fn set(interface: &str, features: &[String], on: bool) -> io::Result<()> {
    if features.is_empty() {
        return Ok(());
    }
    let names = names(interface)?;
    // The kernel's words for each 32 features: which are meant, and which of them are to be on.
    let mut words = vec![0; 2 + 2 * names.len().div_ceil(32)];
    (words[0], words[1]) = (SET_FEATURES, names.len().div_ceil(32) as u32);
    for (number, _) in names.iter().enumerate().filter(|(_, name)| features.contains(name)) {
        let place = 2 + 2 * (number / 32);
        words[place] |= 1 << (number % 32);
        words[place + 1] |= u32::from(on) << (number % 32);
    }
    request(interface, &mut words)
}

/// Returns the names of all features that the kernel knows, by their numbers.
fn names(interface: &str) -> io::Result<Vec<String>> {
    let mask = if cfg!(target_endian = "big") { [0, 1 << FEATURES] } else { [1 << FEATURES, 0] };
    let mut sizes = [GET_SIZES, 0, mask[0], mask[1], 0];
    request(interface, &mut sizes)?;
    let count = sizes[4];
    let mut words = vec![0; 3 + NAME_WORDS * count as usize];
    words[..3].copy_from_slice(&[GET_NAMES, FEATURES, count]);
    request(interface, &mut words)?;
    let text = |words: &[u32]| {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    };
    Ok(words[3..].chunks(NAME_WORDS).map(text).collect())
}

/// Returns a request about an interface, which says nothing else yet.
pub(crate) fn about(interface: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    ifreq
}

/// Makes an `ethtool` request, whose answer replaces the words behind it. Without an answer they stay zero.
fn request(interface: &str, words: &mut [u32]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    let mut ifreq = about(interface);
    ifreq.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the words have the sizes that they state, and outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut ifreq) };
    match io::Error::last_os_error() {
        error if result < 0 && error.raw_os_error() != Some(libc::EOPNOTSUPP) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    use std::thread;

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::device::Interface;
    use crate::instance::{Changed, Notes};

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn only_checksums_that_expect_tcp_are_in_the_way() {
        for (active, disturbed_by) in [
            (&["tx-checksum-ip-generic", "tx-tcp-segmentation"][..], &[][..]),
            (
                &["tx-checksum-ipv4", "tx-checksum-ipv6", "rx-checksum"],
                &["tx-checksum-ipv4", "tx-checksum-ipv6"],
            ),
            (&["tx-checksum-ipv4", "tx-scatter-gather"], &["tx-checksum-ipv4"]),
            // The kernel asks for the general one first.
            (&["tx-checksum-ipv4", "tx-checksum-ip-generic"], &[]),
            (&["tx-checksum-sctp", "rx-gro"], &[]),
            (&[], &[]),
        ] {
            assert_eq!(disturbed(&named(active)), named(disturbed_by), "{active:?}");
        }
    }

    /// Runs `test` in a network namespace with the interface `eth0`; says so if that cannot be here.
    fn with_interface(test: fn()) {
        let inside = move || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                println!("SKIPPED: this host does not allow network namespaces ({error}); run as root");
                return;
            }
            let made = Command::new("ip").args(["link", "add", "eth0", "type", "veth"]).status();
            match made {
                Ok(status) => assert!(status.success()),
                Err(error) => return println!("SKIPPED: cannot run `ip` ({error}); install iproute2"),
            }
            test();
        };
        thread::spawn(inside).join().unwrap();
    }

    #[test]
    fn a_restored_interface_has_the_features_that_were_turned_off() {
        with_interface(|| {
            let before = active("eth0").unwrap();
            assert!(before.contains(&ANY_CHECKSUM.to_owned()), "{before:?}");
            let interface = Interface::here("eth0").unwrap();
            // A virtual interface finds TCP's checksum behind any header.
            assert_eq!(interface.checksums, [""; 0]);
            let interface = Interface { checksums: named(&[ANY_CHECKSUM]), ..interface };
            interface.change().unwrap();
            let during = active("eth0").unwrap();
            assert!(!during.contains(&ANY_CHECKSUM.to_owned()), "{during:?}");
            // Segmentation needs checksums: it goes and comes back with them.
            assert!(!during.contains(&"tx-tcp-segmentation".to_owned()), "{during:?}");
            interface.restore().unwrap();
            assert_eq!(active("eth0").unwrap(), before);
        });
    }

    /// Set in a copy of this test that changes an interface and is killed: the copy's interface.
    const KILLED: &str = "HEADWAY_TEST_KILLED";

    /// Notes an interface, changes it as an end does at a NIC that finds TCP only behind IP,
    /// and waits to be killed.
    fn change_until_killed(name: &str) {
        let interface = Interface { checksums: named(&[ANY_CHECKSUM]), ..Interface::here(name).unwrap() };
        let changed = Changed { interface, by: "killed".to_owned() };
        Notes::lock().unwrap().keep_interface(&changed).unwrap();
        changed.interface.change().unwrap();
        println!("ready");
        loop {
            thread::park();
        }
    }

    /// No virtual interface has these checksums without the general one, so the test stands in for the NIC,
    /// and turns off what a virtual interface has.
    #[test]
    fn what_a_killed_program_turned_off_is_restored_from_its_note() {
        if let Ok(name) = std::env::var(KILLED) {
            change_until_killed(&name);
        }
        with_interface(|| {
            if !nix::unistd::geteuid().is_root() {
                return println!("SKIPPED: only root can leave notes");
            }
            let before = (active("eth0").unwrap(), Interface::here("eth0").unwrap());
            let me = "features::tests::what_a_killed_program_turned_off_is_restored_from_its_note";
            let mut copy = Command::new(std::env::current_exe().unwrap());
            let copy = copy.args([me, "--exact", "--nocapture"]).env(KILLED, "eth0").stdout(Stdio::piped());
            let mut copy = copy.spawn().unwrap();
            let mut lines = BufReader::new(copy.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().ends_with("ready")));
            copy.kill().unwrap();
            copy.wait().unwrap();
            assert!(!active("eth0").unwrap().contains(&ANY_CHECKSUM.to_owned()));
            let mut notes = Notes::lock().unwrap();
            let namespace = before.1.namespace;
            let mut left = notes.interfaces_left_behind();
            left.retain(|changed| changed.interface.namespace == namespace);
            assert_eq!(left.len(), 1, "{left:?}");
            notes.restore_interface(&left[0]).unwrap();
            assert_eq!((active("eth0").unwrap(), Interface::here("eth0").unwrap()), before);
            assert!(
                notes.interfaces_left_behind().iter().all(|changed| changed.interface.namespace != namespace)
            );
        });
    }

    #[test]
    fn offloads_that_merge_segments_are_turned_off_and_on() {
        with_interface(|| {
            let interface = Interface::here("eth0").unwrap();
            let before = interface.merging().unwrap();
            for name in ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation"] {
                assert!(before.contains(&name.to_owned()), "{before:?}");
            }
            let interface = Interface { offloads: before.clone(), ..interface };
            interface.change().unwrap();
            assert_eq!(interface.merging().unwrap(), [""; 0]);
            interface.restore().unwrap();
            assert_eq!(interface.merging().unwrap(), before);
        });
    }

    #[test]
    fn a_feature_that_cannot_be_turned_off_is_refused() {
        with_interface(|| {
            let interface = Interface::here("eth0").unwrap();
            // The loopback interface never computes checksums.
            let checksums = named(&[ANY_CHECKSUM]);
            let interface = Interface { name: "lo".to_owned(), checksums, ..interface };
            let refused = interface.change().map_err(|error| error.to_string());
            assert!(refused.as_ref().is_err_and(|text| text.contains("stays on")), "{refused:?}");
        });
    }
}
