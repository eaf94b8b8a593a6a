//! All entries of a table of the kernel.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::{from_mut, null, null_mut};

use libbpf_rs::MapCore;

/// Entries that the kernel is asked for at once: with half a kilobyte each, two megabytes.
const BATCH: usize = 4_096;

/// Calls `visit` with the key and the value of each entry of a hash table. What is there all the time is
/// visited once, what comes or goes meanwhile once or not at all.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn for_each(map: &impl MapCore, visit: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    in_batches(BATCH, map, visit)
}

fn in_batches(batch: usize, map: &impl MapCore, mut visit: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let [key, value] = [map.key_size(), map.value_size()].map(|size| size as usize);
    let (mut keys, mut values) = (vec![0_u8; key * batch], vec![0_u8; value * batch]);
    // The bucket where the kernel goes on; none at the beginning.
    let mut from: Option<u32> = None;
    loop {
        let (mut count, mut next) = ((keys.len() / key) as u32, 0_u32);
        // SAFETY: a bucket is an integer of this size, and there is room for as many keys and
        // values as `count` says.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from.as_mut().map_or(null_mut(), |bucket| from_mut(bucket).cast()),
                from_mut(&mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                null(),
            )
        };
        match -result {
            // The next bucket has more entries than there is room for.
            libc::ENOSPC => {
                keys.resize(2 * keys.len(), 0);
                values.resize(2 * values.len(), 0);
                continue;
            }
            libc::EINTR => continue,
            // ENOENT is said with the last bucket, and by nothing else: a batch is hardly ever full,
            // as buckets come whole.
            0 | libc::ENOENT => {}
            reason => return Err(io::Error::from_raw_os_error(reason)),
        }
        let found = keys.chunks_exact(key).zip(values.chunks_exact(value)).take(count as usize);
        found.for_each(|(key, value)| visit(key, value));
        if result != 0 {
            return Ok(());
        }
        from = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use libbpf_rs::{MapFlags, MapHandle, MapType};

    use super::*;

    /// More than in two batches.
    const ENTRIES: u32 = 12_000;

    /// A table with room for `size`, in which there are `entries`; none if this user may not make one.
    fn table(size: u32, entries: u32) -> Option<MapHandle> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let table = MapHandle::create(MapType::Hash, Some("entries"), 4, 8, size, &options)
            .inspect_err(|reason| println!("skipped: no table of BPF here ({reason})"))
            .ok()?;
        for number in 0..entries {
            let value = u64::from(number).to_ne_bytes();
            table.update(&number.to_ne_bytes(), &value, MapFlags::ANY).unwrap();
        }
        Some(table)
    }

    /// What a visit of each entry finds.
    fn numbers(batch: usize, table: &MapHandle) -> Vec<u32> {
        let mut numbers = Vec::new();
        in_batches(batch, table, |key, value| {
            let number = u32::from_ne_bytes(key.try_into().unwrap());
            assert_eq!(value, u64::from(number).to_ne_bytes());
            numbers.push(number);
        })
        .unwrap();
        numbers
    }

    #[test]
    fn each_of_many_entries_is_visited_once() {
        // Full and nearly empty, with as many entries as a batch has, none, and in batches that are less
        // than most buckets have.
        for (size, entries, batch) in [
            (ENTRIES, ENTRIES, BATCH),
            (65_536, ENTRIES, BATCH),
            (65_536, BATCH as u32, BATCH),
            (65_536, 0, BATCH),
            (ENTRIES, ENTRIES, 1),
        ] {
            let Some(table) = table(size, entries) else { return };
            let numbers = numbers(batch, &table);
            let different: HashSet<u32> = numbers.iter().copied().collect();
            assert_eq!((numbers.len(), different.len()), (entries as usize, entries as usize));
        }
    }
}
