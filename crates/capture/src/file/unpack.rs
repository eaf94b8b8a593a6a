//! Unpacks compressed streams as they are read.

use std::fmt;
use std::io::{self, Chain, Cursor, Read, Take};

use flate2::read::MultiGzDecoder;

/// The first bytes of a stream, and the rest of it.
type Whole<R> = Chain<Take<Cursor<[u8; 2]>>, R>;

/// A stream that is unpacked if it is compressed with gzip, and read as it is otherwise.
/// Its memory is bounded.
pub struct Unpacked<R: Read>(State<R>);

enum State<R: Read> {
    /// The first bytes, which tell the format, have not all arrived.
    Unknown {
        input: Option<R>,
        first: [u8; 2],
        known: usize,
    },
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<Whole<R>>>),
}

impl<R: Read> Unpacked<R> {
    /// Creates a stream; nothing is read until it is.
    pub fn new(input: R) -> Unpacked<R> {
        Unpacked(State::Unknown { input: Some(input), first: [0; 2], known: 0 })
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let State::Unknown { input, first, known } = &mut self.0 {
            let Some(mut stream) = input.take() else { return Ok(0) };
            let count = stream.read(&mut first[*known..]);
            let more = *count.as_ref().unwrap_or(&0);
            *known += more;
            if *known < first.len() && (count.is_err() || more > 0) {
                *input = Some(stream);
                count?;
                continue;
            }
            let whole = Cursor::new(*first).take(*known as u64).chain(stream);
            self.0 = match first {
                [0x1f, 0x8b] => State::Gzip(Box::new(MultiGzDecoder::new(whole))),
                _ => State::Plain(whole),
            };
        }
        match &mut self.0 {
            State::Plain(stream) => stream.read(out),
            State::Gzip(stream) => match stream.read(out) {
                // Cut off: what was unpacked counts, as with a capture that is cut off.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                result => result,
            },
            State::Unknown { .. } => Ok(0),
        }
    }
}

impl<R: Read> fmt::Debug for Unpacked<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 {
            State::Unknown { .. } => "unknown",
            State::Plain(_) => "plain",
            State::Gzip(_) => "gzip",
        };
        f.debug_tuple("Unpacked").field(&state).finish()
    }
}
