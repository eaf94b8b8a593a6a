//! Streams as CSV text with one line per packet, for running estimators again.

use std::path::Path;

use super::record::{Arrival, StreamRecord};
use headway_units::config_error::ConfigError;
use headway_units::{Bytes, Duration, Instant, Rate};

/// A stream from a table, with the truth if the table has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStream {
    /// The record; `intended` is empty unless the table has the scheduled gaps.
    pub record: StreamRecord,
    /// The available bandwidth while the stream was sent.
    pub free: Option<Rate>,
}

/// Names of the columns, the long one first; all numbers are integers in the unit of the long name.
const COLUMNS: [(&str, &str); 8] = [
    ("stream", "stream"),
    ("index", "index"),
    ("sent_ns", "sent"),
    ("received_ns", "received"),
    ("packet_wire_bytes", "packet"),
    ("average_bps", "average"),
    ("gap_ns", "gap"),
    ("free_bps", "free"),
];
const STREAM: usize = 0;
const INDEX: usize = 1;
const SENT: usize = 2;
const RECEIVED: usize = 3;
const PACKET: usize = 4;
const AVERAGE: usize = 5;
const GAP: usize = 6;
const FREE: usize = 7;

/// Parses a table of streams; the first line names the columns, in any order.
///
/// Needed are `stream`, `index`, `sent_ns` and `received_ns`, the last one empty for a lost packet; optional
/// are `packet_wire_bytes`, for which `packet` stands in, `average_bps` (default: from the send times),
/// `gap_ns` (the scheduled gap before the packet) and `free_bps`. Packets of a stream are on adjacent lines,
/// in the order of their indices from 0. `path` is named in errors.
///
/// # Errors
/// Errors name the line at fault.
pub fn parse_table(text: &str, path: &Path, packet: Option<Bytes>) -> Result<Vec<TableStream>, ConfigError> {
    let mut lines = Lines { text, path, start: 0 };
    let (header, columns) = lines.header()?;
    if columns[PACKET].is_none() && packet.is_none() {
        return Err(lines.wrong(header, "has no column `packet_wire_bytes`: say how large packets are"));
    }
    let mut table = Table { columns, packet: packet.unwrap_or_default(), streams: Vec::new() };
    while let Some((start, line)) = lines.next_line() {
        if !line.trim().is_empty() {
            table.add(line).map_err(|reason| lines.wrong(start, &reason))?;
        }
    }
    if table.streams.is_empty() {
        return Err(lines.wrong(header, "has no packets below its header"));
    }
    table.streams.iter_mut().for_each(fill_average);
    Ok(table.streams)
}

/// The lines of the text, with the positions at which they start.
struct Lines<'a> {
    text: &'a str,
    path: &'a Path,
    start: usize,
}

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Option<(usize, &'a str)> {
        let start = self.start;
        let line = self.text[start..].split_inclusive('\n').next()?;
        self.start += line.len();
        Some((start, line.trim_end_matches(['\n', '\r'])))
    }

    fn wrong(&self, start: usize, reason: &str) -> ConfigError {
        ConfigError::at(self.text, self.path, Some(start..start), reason)
    }

    /// Reads the first line; returns where it starts and the position of every column.
    fn header(&mut self) -> Result<(usize, [Option<usize>; COLUMNS.len()]), ConfigError> {
        let (start, line) = self.next_line().unwrap_or((0, ""));
        let mut columns = [None; COLUMNS.len()];
        for (position, name) in line.split(',').map(str::trim).enumerate() {
            let known = COLUMNS.iter().position(|(long, short)| name == *long || name == *short);
            let Some(column) = known else {
                let all: Vec<&str> = COLUMNS.iter().map(|(long, _)| *long).collect();
                return Err(self.wrong(start, &format!("`{name}` is none of the columns {}", all.join(", "))));
            };
            if columns[column].replace(position).is_some() {
                return Err(self.wrong(start, &format!("has the column `{name}` twice")));
            }
        }
        match [STREAM, INDEX, SENT, RECEIVED].into_iter().find(|column| columns[*column].is_none()) {
            Some(column) => Err(self.wrong(start, &format!("has no column `{}`", COLUMNS[column].0))),
            None => Ok((start, columns)),
        }
    }
}

/// The streams read so far.
struct Table {
    columns: [Option<usize>; COLUMNS.len()],
    /// Size of packets in tables that do not say it.
    packet: Bytes,
    streams: Vec<TableStream>,
}

/// The values of one line.
struct Row {
    stream: u32,
    arrival: Arrival,
    average: Option<Rate>,
    gap: Option<Duration>,
    free: Option<Rate>,
}

impl Table {
    /// Adds the packet on a line; the error is the reason why it is not one.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let row = self.row(line)?;
        let id = row.stream;
        // Numbers may begin anew, with another session.
        if row.arrival.index == 0 || self.streams.last().is_none_or(|last| last.record.id != id) {
            let record = StreamRecord {
                id,
                packet: row.arrival.size,
                average: row.average.unwrap_or_default(),
                intended: Vec::new(),
                arrivals: Vec::new(),
            };
            self.streams.push(TableStream { record, free: row.free });
        }
        let Some(TableStream { record, free }) = self.streams.last_mut() else { return Ok(()) };
        let next = record.arrivals.len();
        if row.arrival.index as usize != next {
            let index = row.arrival.index;
            return Err(format!("has packet {index} of stream {id} where packet {next} is due"));
        }
        if row.arrival.size != record.packet || row.free != *free {
            return Err(format!("stream {id} has another packet size or `free_bps` in the line before"));
        }
        if next > 0 {
            record.intended.extend(row.gap);
        }
        record.arrivals.push(row.arrival);
        Ok(())
    }

    fn row(&self, line: &str) -> Result<Row, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let expected = self.columns.iter().flatten().count();
        if fields.len() != expected {
            return Err(format!("has {} values instead of {expected}", fields.len()));
        }
        let optional = |column: usize| {
            let Some(position) = self.columns[column] else { return Ok(None) };
            match fields[position] {
                "" => Ok(None),
                text => text.parse::<u64>().map(Some).map_err(|_| wrong_number(text, column, position)),
            }
        };
        let needed = |column: usize| {
            optional(column)?.ok_or_else(|| format!("has no value for `{}`", COLUMNS[column].0))
        };
        let number = |column: usize| {
            let value = needed(column)?;
            u32::try_from(value).map_err(|_| format!("{value} is too large for `{}`", COLUMNS[column].0))
        };
        let size = optional(PACKET)?.map_or(self.packet, Bytes::new);
        if size == Bytes::ZERO {
            return Err("has a packet of 0 bytes".to_owned());
        }
        Ok(Row {
            stream: number(STREAM)?,
            arrival: Arrival {
                index: number(INDEX)?,
                size,
                sent: Instant::from_ns(needed(SENT)?),
                received: optional(RECEIVED)?.map(Instant::from_ns),
            },
            average: optional(AVERAGE)?.map(Rate::from_bps),
            gap: optional(GAP)?.map(|ns| Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))),
            free: optional(FREE)?.map(Rate::from_bps),
        })
    }
}

/// Says what is wrong with the text of a column, which is at this position, and what to do about it.
fn wrong_number(text: &str, column: usize, position: usize) -> String {
    let digits = text.strip_prefix('-').filter(|rest| !rest.is_empty()).unwrap_or(text);
    let wrong = match digits.parse::<f64>() {
        Err(_) => "is no number; all are whole ones, without a unit",
        Ok(_) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            "is no whole number; round it, and write all its digits"
        }
        Ok(_) if digits.len() == text.len() => "is too large; it must be below 2^64",
        Ok(_) => match column {
            SENT | RECEIVED => {
                "is negative; add the same time to all of that column, so that none is below 0"
            }
            STREAM | INDEX => "is negative; number streams and their packets from 0",
            FREE => "is negative; write 0 where nothing was available",
            GAP => "is negative; packets are sent one after the other, so gaps are at least 0",
            _ => "is negative; leave it empty where it is not known",
        },
    };
    format!("`{text}` in column {} (`{}`) {wrong}", position + 1, COLUMNS[column].0)
}

/// Computes the average rate of a stream that has none in the table; it stays zero for a single packet.
fn fill_average(stream: &mut TableStream) {
    let record = &mut stream.record;
    if let (Rate::ZERO, [first, .., last]) = (record.average, &record.arrivals[..]) {
        let gaps = record.arrivals.len() as u64 - 1;
        record.average = Rate::of(record.packet * gaps, last.sent - first.sent).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<TableStream>, String> {
        parse_table(text, Path::new("s.csv"), None).map_err(|mistake| mistake.to_string())
    }

    const HEADER: &str = "stream,index,packet_wire_bytes,average_bps,sent_ns,received_ns\n";

    #[test]
    fn a_table_is_split_into_streams() {
        let streams =
            parse(&format!("{HEADER}4,0,1538,99,10,1000\n4,1,1538,99,20,\n7,0,1538,5,30,40\n")).unwrap();
        assert_eq!(streams.len(), 2);
        let first = &streams[0].record;
        assert_eq!((first.id, first.packet, first.average), (4, Bytes::new(1538), Rate::from_bps(99)));
        assert_eq!((first.arrivals[1].sent, first.arrivals[1].received), (Instant::from_ns(20), None));
        assert_eq!((streams[0].free, first.intended.len()), (None, 0));
    }

    #[test]
    fn columns_have_any_order_and_the_rest_follows_from_the_times() {
        let text = "received,sent,index,stream,free,gap\n9000,0,0,0,500,\n19000,10000,1,0,500,9990\n";
        let streams = parse_table(text, Path::new("s.csv"), Some(Bytes::new(1250))).unwrap();
        let TableStream { record, free } = &streams[0];
        assert_eq!((record.average, *free), (Rate::from_mbps(1_000.0), Some(Rate::from_bps(500))));
        assert_eq!(record.intended, [Duration::from_ns(9_990)]);
        assert!(parse(text).unwrap_err().starts_with("s.csv, line 1: has no column `packet_wire_bytes`"));
    }

    #[test]
    fn a_number_that_cannot_be_is_shown_with_its_place_and_what_to_do() {
        let header = "stream,index,packet,average,sent,received,gap,free\n";
        let right = ["1", "0", "1538", "9", "10", "20", "0", "5"];
        for (column, text, expected) in [
            (4, "-7", "(`sent_ns`) is negative; add the same time to all of that column"),
            (5, "-1", "(`received_ns`) is negative; add the same time"),
            (0, "-1", "(`stream`) is negative; number streams"),
            (1, "-1", "(`index`) is negative; number streams"),
            (2, "-1538", "(`packet_wire_bytes`) is negative; leave it empty"),
            (3, "-1", "(`average_bps`) is negative; leave it empty"),
            (6, "-1", "(`gap_ns`) is negative; packets are sent"),
            (7, "-99999999999999999999", "(`free_bps`) is negative; write 0"),
            (4, "-0.5", "(`sent_ns`) is no whole number; round it"),
            (4, "1e9", "(`sent_ns`) is no whole number; round it, and write all its digits"),
            (4, "18446744073709551616", "(`sent_ns`) is too large; it must be below 2^64"),
            (5, "5 ns", "(`received_ns`) is no number; all are whole ones, without a unit"),
            (5, "-", "(`received_ns`) is no number"),
        ] {
            let mut fields = right;
            fields[column] = text;
            let found = parse(&format!("{header}{}\n", fields.join(","))).unwrap_err();
            let expected = format!("s.csv, line 2: `{text}` in column {} {expected}", column + 1);
            assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
        }
    }

    #[test]
    fn mistakes_name_the_line() {
        let cases = [
            ("1,0,1538,1,2\n", "line 2: has 5 values instead of 6"),
            (
                "1,0,1538,1,2,3\n\n1,1,1538,1,x,3\n",
                "line 4: `x` in column 5 (`sent_ns`) is no number; all are",
            ),
            ("1,0,1538,1,,3\n", "line 2: has no value for `sent_ns`"),
            ("1,1,1538,1,2,3\n", "line 2: has packet 1 of stream 1 where packet 0 is due"),
            ("1,0,0,1,2,3\n", "line 2: has a packet of 0 bytes"),
            ("5000000000,0,9,1,2,3\n", "line 2: 5000000000 is too large for `stream`"),
            ("1,0,1538,1,2,3\n1,1,100,1,2,3\n", "line 3: stream 1 has another packet size"),
            (
                "1,0,9,1,2,3\n2,0,9,1,2,3\n1,1,9,1,2,3\n",
                "line 4: has packet 1 of stream 1 where packet 0 is due",
            ),
            ("", "line 1: has no packets"),
        ];
        for (body, expected) in cases {
            let found = parse(&format!("{HEADER}{body}")).unwrap_err();
            assert!(
                found.starts_with(&format!("s.csv, {expected}")),
                "found    {found}\nexpected {expected}"
            );
        }
        for (header, expected) in [
            ("", "`` is none of the columns stream, index"),
            ("stream,index,sent_ns\n", "has no column `received_ns`"),
            ("stream,index,sent_ns,sent\n", "has the column `sent` twice"),
            ("measure,sent_ns\n", "`measure` is none of the columns"),
        ] {
            let found = parse(header).unwrap_err();
            assert!(found.starts_with(&format!("s.csv, line 1: {expected}")), "{found}");
        }
    }
}
