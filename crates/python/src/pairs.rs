//! Packet pairs and trains in arrays: the capacity and the place of the narrow link.

use headway_estimate::Bound as Within;
use headway_estimate::hire::{Search, Settings as SearchSettings, Step};
use headway_estimate::ppdd::{Pairs, Settings};
use headway_estimate::stream::{Arrival, StreamRecord};
use headway_units::{Bytes, Instant, Rate};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{HeadwayError, wrong};
use crate::parts::same_length;
use crate::streams::LOST;

/// Names of filters.
const FILTERS: [&str; 4] = ["weights", "lowest", "quantiles", "literal"];

/// Returns the settings of the filter of this name.
fn settings(filter: &str) -> PyResult<Settings> {
    match filter {
        "weights" => Ok(Settings::default()),
        "lowest" => Ok(Settings::lowest_delays()),
        "quantiles" => Ok(Settings::quantiles()),
        "literal" => Ok(Settings::literal()),
        _ => Err(wrong("filter", format_args!("`{filter}` is none of {}", FILTERS.join(", ")))),
    }
}

/// The packets of pairs, or the first and last ones of trains, in the order sent.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PairArrays<'py> {
    sent_ns: PyReadonlyArray2<'py, i64>,
    received_ns: PyReadonlyArray2<'py, i64>,
    packet_wire_bytes: u64,
    hidden: u32,
}

impl PairArrays<'_> {
    fn packet(&self) -> Bytes {
        Bytes::new(self.packet_wire_bytes)
    }

    /// Returns a record of the pairs that `is_wanted`.
    fn record(&self, is_wanted: impl Fn(usize) -> bool) -> PyResult<StreamRecord> {
        let (sent, received) = (self.sent_ns.as_slice()?, self.received_ns.as_slice()?);
        same_length("received_ns", received.len(), "sent_ns", sent.len())?;
        let packet = self.packet();
        let mut arrivals = Vec::new();
        for place in (0..sent.len()).filter(|place| is_wanted(place / 2)) {
            let (pair, last) = (place / 2, place % 2);
            if sent[place] < 0 || (last == 1 && sent[place] < sent[place - 1]) {
                return Err(wrong("sent_ns", format_args!("row {pair} is negative or does not ascend")));
            }
            if received[place] < LOST {
                return Err(wrong("received_ns", format_args!("row {pair} is negative")));
            }
            // Hidden packets are between the two.
            let index = pair as u32 * (self.hidden + 2) + last as u32 * (self.hidden + 1);
            let received = u64::try_from(received[place]).ok().map(Instant::from_ns);
            let sent = Instant::from_ns(sent[place] as u64);
            arrivals.push(Arrival { index, size: packet, sent, received });
        }
        Ok(StreamRecord { packet, arrivals, ..StreamRecord::default() })
    }
}

/// Estimates the capacity of the narrow link from packet pairs; see `headway.ppdd`.
#[pyfunction]
#[pyo3(signature = (pairs, filter))]
pub(crate) fn ppdd<'py>(
    py: Python<'py>,
    pairs: PairArrays<'py>,
    filter: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = settings(filter)?;
    let record = pairs.record(|_| true)?;
    let mut usable = Pairs::of_trains(pairs.packet(), pairs.hidden, settings);
    let capacity = py.detach(|| {
        usable.add_stream(&record);
        usable.capacity()
    });
    let capacity = capacity.map_err(|reason| HeadwayError::new_err(reason.to_string()))?;
    let dict = PyDict::new(py);
    dict.set_item("capacity_bps", capacity.rate.bps())?;
    dict.set_item("low_bps", capacity.low.bps())?;
    dict.set_item("high_bps", capacity.high.bps())?;
    dict.set_item("confidence", capacity.confidence)?;
    dict.set_item("is_clear", capacity.is_clear())?;
    dict.set_item("bound", if capacity.bound == Within::AtLeast { "at_least" } else { "within" })?;
    dict.set_item("pairs", capacity.pairs)?;
    dict.set_item("selected", capacity.selected)?;
    dict.set_item("clean", capacity.clean)?;
    dict.set_item("raw_mode_bps", usable.raw_mode().map(Rate::bps))?;
    dict.set_item("capprobe_bps", usable.capprobe().map(Rate::bps))?;
    Ok(dict)
}

/// Locates the narrow link with trains whose inner packets died on the way; see `headway.hire`.
#[pyfunction]
#[pyo3(signature = (trains, ttl, narrow_bps, hops))]
pub(crate) fn hire<'py>(
    py: Python<'py>,
    trains: PairArrays<'py>,
    ttl: PyReadonlyArray1<'py, i64>,
    narrow_bps: f64,
    hops: u32,
) -> PyResult<(u32, f64)> {
    let ttl = ttl.as_slice()?;
    same_length("ttl", ttl.len(), "sent_ns", trains.sent_ns.as_slice()?.len() / 2)?;
    if let Some(at) = ttl.iter().position(|ttl| !(1..=i64::from(hops)).contains(ttl)) {
        return Err(wrong("ttl", format_args!("element {at} is not from 1 to {hops}, the number of hops")));
    }
    let usual = SearchSettings::for_hops(hops);
    // There are no more trains than these.
    let settings = SearchSettings { hidden: trains.hidden, most_trains: usual.trains, ..usual };
    let mut search = Search::new(trains.packet(), Rate::from_bps_f64(narrow_bps), settings);
    for hop in 1..=hops {
        search.observe(hop, &trains.record(|train| ttl[train] == i64::from(hop))?);
    }
    match py.detach(|| search.next_step()) {
        Step::Done(Ok(location)) => Ok((location.hop, location.confidence)),
        Step::Done(Err(reason)) => Err(HeadwayError::new_err(reason.to_string())),
        Step::Send { ttl: hop, trains } => Err(wrong(
            "ttl",
            format_args!("{trains} more trains are needed whose hidden packets expire at hop {hop}"),
        )),
    }
}
