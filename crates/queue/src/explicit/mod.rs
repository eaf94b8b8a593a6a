//! What explicit congestion control needs beside a router: the header's encoding and the
//! rules of its two ends.
//!
//! Routers write into the header how much faster the sender may become (XCP) or how fast it may be (RCP),
//! receivers return that, and senders set their windows from it. The router itself is
//! [`headway_arithmetic::explicit`].

mod echo;
mod header;
mod log;
mod option;
mod sender;
mod window;

pub use echo::Echo;
pub use header::{FEEDBACK, HEADER_BYTES, HeaderError, PROTOCOL, decode, encode};
pub use headway_arithmetic::explicit::{
    ANY_RATE, FRACTION_BITS, Format, Header, Heard, Record, VERSION_RCP, VERSION_XCP,
};
pub use log::{LOG_RECORD_BYTES, LOG_VERSION, LogError, decode_record, encode_record};
pub use option::{OPTION_BYTES, OPTION_FEEDBACK, OPTION_KIND, OptionError, decode_option, encode_option};
pub use sender::{Request, Share, share, spacing_at_rate, throughput, to_header_time};
pub use window::{LARGEST_WINDOW, PACED_WINDOW, WINDOW_BITS, Window};

#[cfg(test)]
mod tests;
