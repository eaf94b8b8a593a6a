//! Records of control intervals as bytes: a version, then all fields in little-endian order (xcp-rcp 1.6).

use headway_arithmetic::explicit::Record;

/// The version of this layout, the first byte of every record.
pub const LOG_VERSION: u8 = 1;

/// Calls a macro with the fields of a record in the order of the layout.
macro_rules! fields {
    ($each:ident) => {
        $each!(
            time interval average_rtt input_bytes input_packets input_rate capacity backlog_bytes queue_bytes rate
            feedback positive negative positive_scale negative_scale weighted kappa tau xi epsilon growth drops rejected
            backlog_packets queue_packets law n beta admits_slowly bounded
        )
    };
}

/// Bytes of a record: the version, 23 fields of eight and seven of four.
pub const LOG_RECORD_BYTES: usize = 1 + 23 * 8 + 7 * 4;

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// They end too early.
    #[error("{0} bytes are too few for a record of {LOG_RECORD_BYTES}")]
    Truncated(usize),
    /// The layout is another one.
    #[error("version {0} of records is unknown")]
    Version(u8),
}

/// Encodes a record.
pub fn encode_record(record: &Record) -> [u8; LOG_RECORD_BYTES] {
    let mut bytes = [0; LOG_RECORD_BYTES];
    bytes[0] = LOG_VERSION;
    let mut at = 1;
    macro_rules! write {
        ($($field:ident)+) => {
            $(
                let field = record.$field.to_le_bytes();
                bytes[at..at + field.len()].copy_from_slice(&field);
                at += field.len();
            )+
        };
    }
    fields!(write);
    debug_assert_eq!(at, LOG_RECORD_BYTES);
    bytes
}

/// Decodes the record at the beginning of `bytes`.
///
/// # Errors
/// With too few bytes or another version.
pub fn decode_record(bytes: &[u8]) -> Result<Record, LogError> {
    let Some(bytes) = bytes.first_chunk::<LOG_RECORD_BYTES>() else {
        return Err(LogError::Truncated(bytes.len()));
    };
    if bytes[0] != LOG_VERSION {
        return Err(LogError::Version(bytes[0]));
    }
    let mut rest = &bytes[1..];
    let mut record = Record::default();
    macro_rules! read {
        ($($field:ident)+) => { $(take(&mut rest, &mut record.$field);)+ };
    }
    fields!(read);
    Ok(record)
}

/// A number of a record.
trait Number: Sized {
    fn from_start(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)+) => {
        $(
            impl Number for $number {
                fn from_start(bytes: &mut &[u8]) -> Option<$number> {
                    let (first, rest) = bytes.split_first_chunk()?;
                    *bytes = rest;
                    Some(<$number>::from_le_bytes(*first))
                }
            }
        )+
    };
}
numbers!(u64 i64 u32);

/// Reads a number into `place`; the caller has checked that there are enough bytes.
fn take<N: Number>(bytes: &mut &[u8], place: &mut N) {
    if let Some(number) = N::from_start(bytes) {
        *place = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let record = Record {
            time: 1,
            feedback: -2,
            xi: i64::MIN,
            rejected: u64::MAX,
            law: 8,
            bounded: u32::MAX,
            ..Record::default()
        };
        let bytes = encode_record(&record);
        assert_eq!(decode_record(&bytes), Ok(record));
        assert_eq!(&bytes[..10], &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn cut_records_and_other_versions_are_refused() {
        let mut bytes = encode_record(&Record::default());
        for length in 0..LOG_RECORD_BYTES {
            assert_eq!(decode_record(&bytes[..length]), Err(LogError::Truncated(length)));
        }
        bytes[0] = 2;
        assert_eq!(decode_record(&bytes), Err(LogError::Version(2)));
    }
}
