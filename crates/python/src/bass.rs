//! BASS over arrays of gaps.

use headway_estimate::{Gaps, Settings};
use headway_units::{Bytes, Duration, Rate};
use numpy::{IntoPyArray as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::wrong;
use crate::interrupt::in_steps;
use crate::parts::{Parts, same_length};

/// What is left of all streams.
#[derive(Default)]
struct Smoothed {
    send: Vec<i64>,
    receive: Vec<i64>,
    offsets: Vec<i64>,
    first: Vec<i64>,
    passes: Vec<u32>,
}

/// Removes the effects of interrupt coalescing and bursts from gaps; see `headway.bass`.
#[pyfunction]
#[pyo3(signature = (send_gap_ns, receive_gap_ns, offsets, packet_wire_bytes, capacity_bps, window))]
pub(crate) fn bass<'py>(
    py: Python<'py>,
    send_gap_ns: PyReadonlyArray1<'py, i64>,
    receive_gap_ns: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    packet_wire_bytes: u64,
    capacity_bps: f64,
    window: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (send, receive) = (send_gap_ns.as_slice()?, receive_gap_ns.as_slice()?);
    same_length("receive_gap_ns", receive.len(), "send_gap_ns", send.len())?;
    let parts = Parts::new(offsets.as_slice()?, send.len())?;
    let settings = Settings::for_link(Bytes::new(packet_wire_bytes), Rate::from_bps_f64(capacity_bps));
    let denoise = settings.denoise.with_window(window);
    let mut smoothed = Smoothed::new(send.len(), parts.len());
    let (mut gaps, mut means) = (Gaps::default(), Vec::new());
    in_steps(
        py,
        parts.len(),
        |part| parts.end(part),
        |step| {
            for part in step {
                let range = parts.range(part);
                fill(&mut gaps.send, &send[range.clone()], "send_gap_ns", part)?;
                fill(&mut gaps.receive, &receive[range], "receive_gap_ns", part)?;
                // What remains of a stream that is refused is of no use.
                let outcome = denoise.apply(&mut gaps, &mut means).ok();
                smoothed.push(&gaps, outcome.map(|outcome| (outcome.first, outcome.count)));
            }
            Ok(())
        },
    )?;
    smoothed.into_dict(py)
}

/// Copies gaps.
fn fill(into: &mut Vec<Duration>, gaps: &[i64], argument: &str, part: usize) -> PyResult<()> {
    into.clear();
    into.extend(gaps.iter().copied().map(Duration::from_ns));
    match gaps.iter().position(|gap| *gap < 0) {
        Some(at) => Err(wrong(argument, format_args!("gap {at} of stream {part} is negative"))),
        None => Ok(()),
    }
}

impl Smoothed {
    fn new(gaps: usize, streams: usize) -> Smoothed {
        Smoothed {
            send: Vec::with_capacity(gaps),
            receive: Vec::with_capacity(gaps),
            offsets: vec![0],
            first: Vec::with_capacity(streams),
            passes: Vec::with_capacity(streams),
        }
    }

    /// Adds a stream of which the gaps from `first` on remain after so many passes; `None` if it is refused.
    fn push(&mut self, gaps: &Gaps, kept: Option<(usize, u32)>) {
        if kept.is_some() {
            self.send.extend(gaps.send.iter().map(|gap| gap.ns()));
            self.receive.extend(gaps.receive.iter().map(|gap| gap.ns()));
        }
        let (first, passes) = kept.unwrap_or_default();
        self.offsets.push(self.send.len() as i64);
        self.first.push(first as i64);
        self.passes.push(passes);
    }

    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("send_gap_ns", self.send.into_pyarray(py))?;
        dict.set_item("receive_gap_ns", self.receive.into_pyarray(py))?;
        dict.set_item("offsets", self.offsets.into_pyarray(py))?;
        dict.set_item("first", self.first.into_pyarray(py))?;
        dict.set_item("passes", self.passes.into_pyarray(py))?;
        Ok(dict)
    }
}
