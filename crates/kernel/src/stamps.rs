//! A receiver for TCP Rapid, whose ACKs tell when segments have arrived (`bpf/stamps.bpf.c`).

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::{Map, MapCore as _, MapInfo, Object};

use crate::cgroup;
use crate::controller::StampOptions;
use crate::error::Error;
use crate::loader::{load, set_options};
use crate::query::{program_ids, read_counters};
use crate::telemetry::StampCounters;

impl StampOptions {
    /// Returns the prefix of peers and its mask as IPv6, which IPv4 is a part of (RFC 4291, section 2.5.5.2).
    fn prefix(&self) -> [u128; 2] {
        let Some(prefix) = self.to else { return [0; 2] };
        let (address, bits) = match prefix.address() {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 96 + u32::from(prefix.bits())),
            IpAddr::V6(address) => (address, u32::from(prefix.bits())),
        };
        [u128::from(address), u128::MAX.checked_shl(128 - bits).unwrap_or(0)]
    }

    fn to_bytes(self) -> Vec<u8> {
        let namespace = self.namespace.cookie.to_ne_bytes();
        let prefix = self.prefix().map(u128::to_be_bytes);
        let port = u32::from(self.port.unwrap_or(0));
        // Its keys are random.
        let offset = RandomState::new().hash_one(0) as u32;
        [&namespace[..], &prefix[0], &prefix[1], &port.to_ne_bytes(), &offset.to_ne_bytes()].concat()
    }
}

/// A receiver that is on, until it is dropped or its process ends.
#[derive(Debug)]
pub struct StampReceiver {
    // Declared before `object`, so that dropping detaches first.
    _programs: [OwnedFd; 2],
    object: Object,
}

impl StampReceiver {
    /// Has ACKs tell when segments have arrived, of connections that are opened from now on.
    ///
    /// # Errors
    /// When the kernel does not support it, or the user lacks privileges.
    pub fn load(options: &StampOptions) -> Result<StampReceiver, Error> {
        crate::support::check()?;
        crate::support::check_casts()?;
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/stamps.bpf.o"));
        let set = |open: &mut _| set_options(open, &options.to_bytes());
        let object = load(object, "the receiver of TCP Rapid", set)?;
        let notes = cgroup::attach(&object, "hw_note_arrival", cgroup::PACKETS)?;
        let writes = cgroup::attach(&object, "hw_stamp_acks", cgroup::EVENTS)?;
        Ok(StampReceiver { _programs: [notes, writes], object })
    }

    /// Returns the BPF ID of the map with the counters, for [`stamp_counters`](crate::stamp_counters).
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn counters_map(&self) -> Result<u32, Error> {
        Ok(MapInfo::new(self.map()?.as_fd()).map_err(Error::bpf("inspect a BPF map"))?.info.id)
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn counters(&self) -> Result<StampCounters, Error> {
        read_counters(&self.map()?)
    }

    /// Returns the BPF IDs of the programs, for [`cpu_time`](crate::cpu_time).
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        program_ids(&self.object)
    }

    fn map(&self) -> Result<Map<'_>, Error> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        map.ok_or_else(|| Error::Internal("the receiver has no counters".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::default::Namespace;

    fn prefix(text: &str) -> [u128; 2] {
        let to = Some(text.parse().expect("a prefix"));
        StampOptions { namespace: Namespace { number: 0, cookie: 0 }, port: None, to }.prefix()
    }

    #[test]
    fn prefixes_of_ipv4_are_prefixes_of_ipv6() {
        let address = |text: &str| u128::from(text.parse::<Ipv6Addr>().expect("an address"));
        assert_eq!(prefix("192.0.2.0/24"), [address("::ffff:192.0.2.0"), u128::MAX << 8]);
        assert_eq!(prefix("0.0.0.0/0"), [address("::ffff:0.0.0.0"), u128::MAX << 32]);
        assert_eq!(prefix("2001:db8::/32"), [address("2001:db8::"), u128::MAX << 96]);
        assert_eq!(prefix("::/0"), [0, 0]);
    }
}
