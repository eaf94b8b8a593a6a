//! Which connections and times of a capture are used, in words like those of `tcpdump`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use headway_units::{Duration, Instant};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::headers::{Endpoint, Tcp};

/// Most parentheses and negations within each other.
const DEEPEST: usize = 64;
/// What can be said, for errors.
const WORDS: &str = "host ADDRESS, net PREFIX, port NUMBER, after TIME and before TIME, joined with and, or, not and \
                     parentheses";

/// A condition on the connection that a segment belongs to, and on the time when it was captured.
///
/// Either end of a connection can fulfil a condition, so that both directions are kept:
///
/// ```
/// use headway_passive::Filter;
///
/// let filter: Filter = "host 192.0.2.7 and not (port 22 or port 6000-6063)".parse()?;
/// let times: Filter = "net 2001:db8::/32 and after 10 s and before 2026-01-31T12:00:00Z".parse()?;
/// # Ok::<(), headway_passive::FilterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Condition);

/// A condition.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// Addresses whose first bits are those of this one.
    Net(IpAddr, u8),
    Ports(u16, u16),
    After(Time),
    Before(Time),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Time {
    At(Instant),
    /// After the first packet of the capture.
    SinceFirst(Duration),
}

/// Why a filter cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A word that has no meaning where it is.
    #[error("`{word}` is not understood; a filter says {WORDS}")]
    Word {
        /// The word.
        word: String,
    },
    /// The filter ends where something must follow.
    #[error("something is missing after `{word}`; a filter says {WORDS}")]
    End {
        /// The last word.
        word: String,
    },
    /// The filter says nothing.
    #[error("it is empty; a filter says {WORDS}")]
    Empty,
    /// `src` or `dst`.
    #[error(
        "`{word}` would keep one direction of each connection, and estimates need both; say it without `{word}`"
    )]
    OneDirection {
        /// The word.
        word: String,
    },
    /// What follows a word is not what it needs.
    #[error("`{found}` is not {wanted}")]
    Value {
        /// What was found.
        found: String,
        /// What is needed, with an example.
        wanted: &'static str,
    },
    /// Too many parentheses within each other.
    #[error("there are more than {DEEPEST} parentheses or negations within each other")]
    Deep,
}

impl Filter {
    /// Whether a segment captured at a time, in a capture that began at `first`, is used.
    pub(crate) fn passes(&self, tcp: &Tcp, at: Instant, first: Instant) -> bool {
        self.0.holds([tcp.source, tcp.destination], at, first)
    }

    /// Whether a connection between two ends passes at a time, where `after` and `before`
    /// may count from `first`.
    pub fn includes(&self, ends: [SocketAddr; 2], at: Instant, first: Instant) -> bool {
        let ends = ends.map(|end| Endpoint { address: end.ip().to_canonical(), port: end.port() });
        self.0.holds(ends, at, first)
    }
}

impl Condition {
    fn holds(&self, ends: [Endpoint; 2], at: Instant, first: Instant) -> bool {
        let end = |is: &dyn Fn(&Endpoint) -> bool| ends.iter().any(is);
        match self {
            Condition::Net(net, bits) => end(&|end| contains(*net, *bits, end.address)),
            Condition::Ports(least, most) => end(&|end| (*least..=*most).contains(&end.port)),
            Condition::After(time) => at >= time.instant(first),
            Condition::Before(time) => at < time.instant(first),
            Condition::Not(condition) => !condition.holds(ends, at, first),
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(ends, at, first)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(ends, at, first)),
        }
    }
}

impl Time {
    fn instant(self, first: Instant) -> Instant {
        match self {
            Time::At(at) => at,
            Time::SinceFirst(time) => first + time,
        }
    }
}

/// Whether an address begins with the first `bits` of a network's.
fn contains(net: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => {
            (net.to_bits() ^ address.to_bits()).checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(net), IpAddr::V6(address)) => {
            (net.to_bits() ^ address.to_bits()).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('!', " ! ");
        let spaced = spaced.replace("&&", " and ").replace("||", " or ");
        let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
        if words.words.is_empty() {
            return Err(FilterError::Empty);
        }
        let condition = words.any(0)?;
        match words.peek() {
            None => Ok(Filter(condition)),
            Some(word) => Err(FilterError::Word { word: word.to_owned() }),
        }
    }
}

/// The words of a filter, and how many were understood.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Result<&'a str, FilterError> {
        let word = self.peek().ok_or_else(|| {
            let word = self.words.last().copied().unwrap_or_default().to_owned();
            FilterError::End { word }
        })?;
        self.next += 1;
        Ok(word)
    }

    /// Whether the next word is this one, which is then taken.
    fn is(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.next += usize::from(is);
        is
    }

    fn any(&mut self, depth: usize) -> Result<Condition, FilterError> {
        let mut conditions = vec![self.all(depth)?];
        while self.is("or") {
            conditions.push(self.all(depth)?);
        }
        Ok(if conditions.len() == 1 { conditions.remove(0) } else { Condition::Any(conditions) })
    }

    fn all(&mut self, depth: usize) -> Result<Condition, FilterError> {
        let mut conditions = vec![self.one(depth)?];
        while self.is("and") {
            conditions.push(self.one(depth)?);
        }
        Ok(if conditions.len() == 1 { conditions.remove(0) } else { Condition::All(conditions) })
    }

    fn one(&mut self, depth: usize) -> Result<Condition, FilterError> {
        if depth > DEEPEST {
            return Err(FilterError::Deep);
        }
        match self.take()? {
            "not" | "!" => Ok(Condition::Not(Box::new(self.one(depth + 1)?))),
            "(" => {
                let condition = self.any(depth + 1)?;
                match self.take()? {
                    ")" => Ok(condition),
                    word => Err(FilterError::Word { word: word.to_owned() }),
                }
            }
            "host" => address(self.take()?),
            "net" | "prefix" => net(self.take()?),
            "port" | "portrange" => ports(self.take()?),
            "after" => Ok(Condition::After(self.time()?)),
            "before" => Ok(Condition::Before(self.time()?)),
            word @ ("src" | "dst") => Err(FilterError::OneDirection { word: word.to_owned() }),
            word => Err(FilterError::Word { word: word.to_owned() }),
        }
    }

    /// A date and time, or a time since the first packet, whose unit may stand apart.
    fn time(&mut self) -> Result<Time, FilterError> {
        let word = self.take()?;
        let unit = self.peek().filter(|_| word.parse::<f64>().is_ok());
        let text = match unit {
            Some(unit) => {
                self.next += 1;
                format!("{word} {unit}")
            }
            None => word.to_owned(),
        };
        if let Ok(time) = text.parse::<Duration>()
            && time >= Duration::ZERO
        {
            return Ok(Time::SinceFirst(time));
        }
        let date = OffsetDateTime::parse(&text, &Rfc3339).ok();
        let ns = date.and_then(|date| u64::try_from(date.unix_timestamp_nanos()).ok());
        ns.map(|ns| Time::At(Instant::from_ns(ns))).ok_or(FilterError::Value {
            found: text,
            wanted: "a time: say it since the first packet (`10 s`), or with date and zone (`2026-01-31T12:00:00Z`)",
        })
    }
}

fn value(found: &str, wanted: &'static str) -> FilterError {
    FilterError::Value { found: found.to_owned(), wanted }
}

fn address(text: &str) -> Result<Condition, FilterError> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address: IpAddr = bare.parse().map_err(|_| {
        value(text, "an address such as 192.0.2.7 or 2001:db8::7; names and networks are not looked up here")
    })?;
    Ok(Condition::Net(address, if address.is_ipv4() { 32 } else { 128 }))
}

fn net(text: &str) -> Result<Condition, FilterError> {
    let wrong = || value(text, "a prefix such as 192.0.2.0/24 or 2001:db8::/32");
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
    Ok(Condition::Net(address, bits))
}

fn ports(text: &str) -> Result<Condition, FilterError> {
    let wrong = || value(text, "a port such as 443, or a range such as 8000-8099");
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let [least, most] = [least, most].map(|port| port.parse::<u16>().map_err(|_| wrong()));
    let (least, most) = (least?, most?);
    if least <= most { Ok(Condition::Ports(least, most)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use headway_estimate::sabes::Segment;

    use super::*;

    const FIRST: u64 = 1_769_860_800_000_000_000;

    fn tcp(source: &str, destination: &str) -> Tcp {
        let end = |text: &str| {
            let (address, port) = text.rsplit_once(' ').unwrap();
            Endpoint { address: address.parse().unwrap(), port: port.parse().unwrap() }
        };
        Tcp {
            source: end(source),
            destination: end(destination),
            segment: Segment { headers: 40, ..Segment::default() },
            blocks: 0,
            identification: 0,
            outgoing: None,
        }
    }

    #[test]
    fn a_connection_passes_in_both_directions() {
        let v4 = tcp("192.0.2.7 40000", "198.51.100.2 443");
        let back = tcp("198.51.100.2 443", "192.0.2.7 40000");
        let v6 = tcp("2001:db8::7 40000", "2001:db9::1 8080");
        for (text, expected) in [
            ("host 192.0.2.7", [true, true, false]),
            ("host 2001:db8::7", [false, false, true]),
            ("host 192.0.2.8", [false, false, false]),
            ("net 198.51.0.0/16", [true, true, false]),
            ("net 198.51.100.255/24", [true, true, false]),
            ("net 198.51.101.0/24", [false, false, false]),
            ("prefix 0.0.0.0/0", [true, true, false]),
            ("net 2001:db8::/31", [false, false, true]),
            ("net 2001:db9::1/128", [false, false, true]),
            ("net 2001:dba::/32", [false, false, false]),
            ("port 443", [true, true, false]),
            ("port 8000-8099", [false, false, true]),
            ("not port 443", [false, false, true]),
            ("port 443 and host 192.0.2.7", [true, true, false]),
            ("port 443 and host 192.0.2.8 or port 8080", [false, false, true]),
            ("port 443 and (host 192.0.2.7 or port 8080)", [true, true, false]),
            ("!(port 443||port 8080)", [false, false, false]),
            ("not not port 443 && port 40000", [true, true, false]),
        ] {
            let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let passes = [&v4, &back, &v6].map(|tcp| filter.passes(tcp, Instant::ZERO, Instant::ZERO));
            assert_eq!(passes, expected, "{text}");
            let ends = |tcp: &Tcp| [tcp.source, tcp.destination].map(|end| (end.address, end.port).into());
            let includes =
                [&v4, &back, &v6].map(|tcp| filter.includes(ends(tcp), Instant::ZERO, Instant::ZERO));
            assert_eq!(includes, expected, "{text}");
        }
    }

    #[test]
    fn times_are_since_the_first_packet_or_with_a_date() {
        let tcp = tcp("192.0.2.7 1", "192.0.2.8 2");
        // 2026-01-31T12:00:00Z is FIRST.
        for (text, from_ms, to_ms) in [
            ("after 10 s", 10_000, u64::MAX),
            ("before 1500ms", 0, 1_500),
            ("after 1.5 s and before 2 s", 1_500, 2_000),
            ("after 2026-01-31T12:00:10Z", 10_000, u64::MAX),
            ("before 2026-01-31T13:00:02.5+01:00", 0, 2_500),
        ] {
            let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            for ms in [0, 1_499, 1_500, 1_999, 2_000, 2_499, 2_500, 9_999, 10_000, 20_000] {
                let at = Instant::from_ns(FIRST + ms * 1_000_000);
                let passes = filter.passes(&tcp, at, Instant::from_ns(FIRST));
                assert_eq!(passes, (from_ms..to_ms).contains(&ms), "{text} at {ms}");
            }
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_can_be_said() {
        let error = |text: &str| text.parse::<Filter>().unwrap_err().to_string();
        assert!(error("").starts_with("it is empty; a filter says host ADDRESS"));
        assert!(error("tcp").starts_with("`tcp` is not understood; a filter says host"));
        assert!(error("port 80 port 443").starts_with("`port` is not understood"));
        assert!(error("host").starts_with("something is missing after `host`"));
        assert!(error("(port 80").starts_with("something is missing after `80`"));
        assert!(error("port 80)").starts_with("`)` is not understood"));
        assert!(error("src host 192.0.2.7").contains("one direction"));
        assert!(error("host example.org").starts_with("`example.org` is not an address such as"));
        assert!(error("net 192.0.2.0/33").starts_with("`192.0.2.0/33` is not a prefix such as 192.0.2.0/24"));
        assert!(error("port 65536").starts_with("`65536` is not a port"));
        assert!(error("port 9-8").starts_with("`9-8` is not a port"));
        assert!(error("after noon").starts_with("`noon` is not a time: say it since the first packet"));
        assert!(
            error("after 10").contains("something is missing") || error("after 10").contains("not a time")
        );
        assert!(error(&format!("{}port 1", "not ".repeat(100))).contains("more than 64"));
        assert!(error(&format!("{}port 1", "(".repeat(100_000))).contains("more than 64"));
    }
}
