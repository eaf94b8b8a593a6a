//! A growing window on a byte stream.

use std::io::{self, Read};
use std::ops::Range;

/// Bytes requested by one read.
const CHUNK: usize = 256 << 10;

/// Bytes of a stream that have been read but not consumed, with their position in the stream.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the byte at `start`.
    offset: u64,
    /// Whether the stream has ended.
    ended: bool,
}

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer { bytes: vec![0; CHUNK], start: 0, end: 0, offset: 0, ended: false }
    }

    /// Returns the bytes that are available.
    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the offset of the first available byte in the stream.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the stream has ended; bytes may still be available.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Removes the first `count` bytes, which must be available.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Returns a range of the `used` bytes that were consumed last, which stay in place until the next read.
    pub(super) fn consumed(&self, used: usize, range: Range<usize>) -> &[u8] {
        let from = self.start - used;
        &self.bytes[from + range.start..from + range.end]
    }

    /// Reads once, so that at most `CHUNK` bytes and at least one are added unless the stream has ended;
    /// `wanted` is the number of bytes that must fit.
    pub(super) fn fill(&mut self, input: &mut impl Read, wanted: usize) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted.next_multiple_of(CHUNK), 0);
        }
        loop {
            match input.read(&mut self.bytes[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
