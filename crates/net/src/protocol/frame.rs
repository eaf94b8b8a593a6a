//! Frames on the control connection: a big-endian u32 length followed by that many bytes of
//! one encoded message.

use super::message::Message;

/// The longest frame body in bytes: enough for the report of the longest stream, and little memory for an
/// attacker to claim.
pub const MAX_FRAME: usize = 256 * 1024;

/// Length of the length field in bytes.
const LENGTH_LEN: usize = 4;

/// The reason why bytes on the control connection are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced length is above [`MAX_FRAME`] or above the reader's current limit.
    #[error("frame of {0} bytes is too long")]
    TooLong(usize),
    /// The body is not a known message.
    #[error("frame is not a known message")]
    Unknown,
    /// The message ends before its frame does.
    #[error("frame has {0} bytes after its message")]
    Trailing(usize),
}

/// Encodes one message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`] if the message does not fit into [`MAX_FRAME`], [`FrameError::Unknown`] if it
/// cannot be encoded at all.
pub fn encode(message: &Message) -> Result<Vec<u8>, FrameError> {
    let mut frame = postcard::to_extend(message, vec![0; LENGTH_LEN]).map_err(|_| FrameError::Unknown)?;
    let body = frame.len() - LENGTH_LEN;
    let length = u32::try_from(body).ok().filter(|_| body <= MAX_FRAME).ok_or(FrameError::TooLong(body))?;
    frame[..LENGTH_LEN].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Parses one message from the body of a frame.
///
/// # Errors
/// [`FrameError::Unknown`] or [`FrameError::Trailing`].
pub fn parse(body: &[u8]) -> Result<Message, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(FrameError::Trailing(rest.len())),
        Err(_) => Err(FrameError::Unknown),
    }
}

/// Reassembles messages from chunks of any size.
///
/// After an error the frame boundaries are lost and the connection must be closed.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { buffer: Vec::new(), limit: MAX_FRAME }
    }
}

impl Decoder {
    /// Creates a decoder that refuses frame bodies longer than `limit` bytes, at most [`MAX_FRAME`].
    pub(crate) fn with_limit(limit: usize) -> Decoder {
        Decoder { buffer: Vec::new(), limit: limit.min(MAX_FRAME) }
    }

    /// Changes the longest frame body allowed from now on, at most [`MAX_FRAME`].
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_FRAME);
    }

    /// Adds bytes received from the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Any [`FrameError`]; a frame that is too long is refused as soon as its length is known.
    pub fn take(&mut self) -> Result<Option<Message>, FrameError> {
        let Some((length, rest)) = self.buffer.split_first_chunk::<LENGTH_LEN>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = parse(body)?;
        self.buffer.drain(..LENGTH_LEN + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_of_single_bytes() {
        let frame = encode(&Message::Ping { number: 300 }).unwrap();
        let mut decoder = Decoder::default();
        for (i, byte) in frame.iter().enumerate() {
            assert_eq!(decoder.take(), Ok(None), "after {i} bytes");
            decoder.push(&[*byte]);
        }
        assert_eq!(decoder.take(), Ok(Some(Message::Ping { number: 300 })));
        assert_eq!(decoder.take(), Ok(None));
    }

    #[test]
    fn long_trailing_and_unknown_frames_are_refused() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_be_bytes());
        assert_eq!(decoder.take(), Err(FrameError::TooLong(u32::MAX as usize)));

        let mut frame = encode(&Message::Ping { number: 1 }).unwrap();
        frame.push(0);
        assert_eq!(parse(&frame[LENGTH_LEN..]), Err(FrameError::Trailing(1)));
        assert_eq!(parse(&[250]), Err(FrameError::Unknown));
        assert_eq!(parse(&[]), Err(FrameError::Unknown));

        let mut decoder = Decoder::with_limit(8);
        decoder.push(&9u32.to_be_bytes());
        assert_eq!(decoder.take(), Err(FrameError::TooLong(9)));
    }
}
