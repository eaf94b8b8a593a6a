//! Streams as arrays, and as the records that estimators take.

use std::path::PathBuf;

use headway_estimate::stream::{Arrival, StreamRecord, TableStream, parse_table};
use headway_units::{Bytes, Duration, Instant, Rate};
use numpy::{IntoPyArray as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{HeadwayError, wrong};
use crate::parts::{Parts, same_length};

/// What stands for a packet that did not arrive, and for an unknown rate.
pub(crate) const LOST: i64 = -1;

/// The arrays of `headway.Streams`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct StreamArrays<'py> {
    sent_ns: PyReadonlyArray1<'py, i64>,
    received_ns: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    gap_ns: Option<PyReadonlyArray1<'py, i64>>,
    average_bps: Option<PyReadonlyArray1<'py, i64>>,
    free_bps: Option<PyReadonlyArray1<'py, i64>>,
    packet_wire_bytes: u64,
}

/// The same without the interpreter, checked.
pub(crate) struct Streams<'a> {
    pub(crate) parts: Parts<'a>,
    pub(crate) packet: Bytes,
    sent: &'a [i64],
    received: &'a [i64],
    gap: Option<&'a [i64]>,
    average: Option<&'a [i64]>,
    free: Option<&'a [i64]>,
}

impl<'py> StreamArrays<'py> {
    /// Checks lengths; [`Streams::fill`] checks the values.
    pub(crate) fn streams(&self) -> PyResult<Streams<'_>> {
        let (sent, received) = (self.sent_ns.as_slice()?, self.received_ns.as_slice()?);
        same_length("received_ns", received.len(), "sent_ns", sent.len())?;
        let parts = Parts::new(self.offsets.as_slice()?, sent.len())?;
        let gap = optional(&self.gap_ns)?;
        let average = optional(&self.average_bps)?;
        let free = optional(&self.free_bps)?;
        gap.map_or(Ok(()), |gap| same_length("gap_ns", gap.len(), "sent_ns", sent.len()))?;
        for (argument, values) in [("average_bps", average), ("free_bps", free)] {
            values.map_or(Ok(()), |values| {
                same_length(argument, values.len(), "the list of streams", parts.len())
            })?;
        }
        let packet = Bytes::new(self.packet_wire_bytes);
        Ok(Streams { parts, packet, sent, received, gap, average, free })
    }
}

fn optional<'a>(array: &'a Option<PyReadonlyArray1<'_, i64>>) -> PyResult<Option<&'a [i64]>> {
    Ok(array.as_ref().map(|array| array.as_slice()).transpose()?)
}

impl Streams<'_> {
    /// Whether the scheduled gaps are known.
    pub(crate) fn are_scheduled(&self) -> bool {
        self.gap.is_some()
    }

    /// Writes stream `index` into `stream`, whose memory is used again.
    ///
    /// # Errors
    /// Names the array with a value that no time can have.
    pub(crate) fn fill(&self, index: usize, stream: &mut TableStream) -> PyResult<()> {
        let range = self.parts.range(index);
        let record = &mut stream.record;
        record.id = u32::try_from(index).unwrap_or(u32::MAX);
        record.packet = self.packet;
        record.arrivals.clear();
        let mut before = 0;
        for (at, packet) in range.clone().enumerate() {
            let (sent, received) = (self.sent[packet], self.received[packet]);
            if sent < before {
                let reason =
                    if sent < 0 { "is negative" } else { "is earlier than that of the packet before" };
                return Err(wrong(
                    "sent_ns",
                    format_args!("the time of packet {at} of stream {index} {reason}"),
                ));
            }
            if received < LOST {
                return Err(wrong(
                    "received_ns",
                    format_args!("the time of packet {at} of stream {index} is negative"),
                ));
            }
            before = sent;
            record.arrivals.push(Arrival {
                index: at as u32,
                size: self.packet,
                sent: Instant::from_ns(sent as u64),
                received: (received != LOST).then(|| Instant::from_ns(received as u64)),
            });
        }
        record.intended.clear();
        if let Some(gap) = self.gap {
            // The first packet has no gap before it.
            let gaps = gap[range].iter().skip(1);
            if let Some(at) = gaps.clone().position(|gap| *gap < 0) {
                return Err(wrong(
                    "gap_ns",
                    format_args!("the gap before packet {} of stream {index} is negative", at + 1),
                ));
            }
            record.intended.extend(gaps.copied().map(Duration::from_ns));
        }
        record.average = rate(self.average, index).unwrap_or_else(|| average(record));
        stream.free = rate(self.free, index);
        Ok(())
    }
}

/// Returns the rate of a stream, if there is one.
fn rate(rates: Option<&[i64]>, index: usize) -> Option<Rate> {
    let bps = u64::try_from(rates?[index]).ok()?;
    Some(Rate::from_bps(bps))
}

/// Returns the average rate that the send times show, as for files without the column.
fn average(record: &StreamRecord) -> Rate {
    let [first, .., last] = &record.arrivals[..] else { return Rate::ZERO };
    let gaps = record.arrivals.len() as u64 - 1;
    Rate::of(record.packet * gaps, last.sent - first.sent).unwrap_or_default()
}

/// Reads a file of streams (docs/estimate.md) into arrays; see `headway.Streams.load`.
#[pyfunction]
#[pyo3(signature = (path, packet_wire_bytes))]
pub(crate) fn read_streams(
    py: Python<'_>,
    path: PathBuf,
    packet_wire_bytes: Option<u64>,
) -> PyResult<Bound<'_, PyDict>> {
    let streams = py.detach(|| {
        let text = headway_input::text(&path, headway_input::TRACE)
            .map_err(|reason| HeadwayError::new_err(format!("cannot read {}: {reason}", path.display())))?;
        let streams = parse_table(&text, &path, packet_wire_bytes.map(Bytes::new));
        streams.map_err(|mistake| HeadwayError::new_err(mistake.to_string()))
    })?;
    let sizes = streams.iter().map(|stream| stream.record.packet);
    let packet = sizes.clone().next().unwrap_or_default();
    if sizes.clone().any(|size| size != packet) {
        return Err(HeadwayError::new_err(format!("{}: packets of streams differ in size", path.display())));
    }
    let arrivals = || streams.iter().flat_map(|stream| &stream.record.arrivals);
    let ends = streams.iter().scan(0, |end, stream| {
        *end += stream.record.arrivals.len() as i64;
        Some(*end)
    });
    let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
    let dict = PyDict::new(py);
    dict.set_item("packet_wire_bytes", packet.get())?;
    dict.set_item("offsets", offsets.into_pyarray(py))?;
    let sent: Vec<i64> = arrivals().map(|one| one.sent.ns() as i64).collect();
    dict.set_item("sent_ns", sent.into_pyarray(py))?;
    let received = arrivals().map(|one| one.received.map_or(LOST, |time| time.ns() as i64));
    dict.set_item("received_ns", received.collect::<Vec<i64>>().into_pyarray(py))?;
    let averages = streams.iter().map(|stream| stream.record.average.bps() as i64);
    dict.set_item("average_bps", averages.collect::<Vec<i64>>().into_pyarray(py))?;
    let free = streams.iter().map(|stream| stream.free.map_or(LOST, |free| free.bps() as i64));
    dict.set_item("free_bps", free.collect::<Vec<i64>>().into_pyarray(py))?;
    dict.set_item("gap_ns", scheduled(&streams).map(|gaps| gaps.into_pyarray(py)))?;
    Ok(dict)
}

/// Returns the scheduled gap before every packet, 0 before the first; `None` if a stream has none.
fn scheduled(streams: &[TableStream]) -> Option<Vec<i64>> {
    if streams.iter().any(|stream| stream.record.intended.is_empty()) {
        return None;
    }
    let gaps = |stream: &TableStream| {
        let gaps: Vec<i64> = stream.record.intended.iter().map(|gap| gap.ns()).collect();
        std::iter::once(0).chain(gaps)
    };
    Some(streams.iter().flat_map(gaps).collect())
}
