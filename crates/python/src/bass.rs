//! BASS over arrays of gaps.

use headway_estimate::{Gaps, Settings};
use headway_units::{Bytes, Duration, Rate};
use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};

use crate::errors::wrong;
use crate::interrupt::in_steps;
use crate::parts::{Parts, same_length};

/// What is left of all streams.
struct Smoothed<'a> {
    /// Room for all gaps, of which `used` are.
    send: &'a mut [i64],
    receive: &'a mut [i64],
    used: usize,
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
    // Memory from numpy, which asks for large pages: touching small ones for the first time would be
    // a fifth of the work.
    let rooms = [PyArray1::zeros(py, send.len(), false), PyArray1::zeros(py, send.len(), false)];
    let [mut to_send, mut to_receive] = rooms.each_ref().map(|room| room.readwrite());
    let mut smoothed = Smoothed::new(to_send.as_slice_mut()?, to_receive.as_slice_mut()?, parts.len());
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
    let used = smoothed.used;
    let dict = smoothed.into_dict(py)?;
    let kept = PySlice::new(py, 0, used as isize, 1);
    for (name, room) in ["send_gap_ns", "receive_gap_ns"].into_iter().zip(&rooms) {
        dict.set_item(name, room.get_item(&kept)?)?;
    }
    Ok(dict)
}

/// Copies gaps.
fn fill(into: &mut Vec<Duration>, gaps: &[i64], argument: &str, part: usize) -> PyResult<()> {
    into.clear();
    into.extend(gaps.iter().copied().map(Duration::from_ns));
    // The sign of all together is known sooner than the place of a negative one.
    if gaps.iter().fold(0, |all, gap| all | gap) >= 0 {
        return Ok(());
    }
    let at = gaps.iter().position(|gap| *gap < 0).unwrap_or_default();
    Err(wrong(argument, format_args!("gap {at} of stream {part} is negative")))
}

impl Smoothed<'_> {
    fn new<'a>(send: &'a mut [i64], receive: &'a mut [i64], streams: usize) -> Smoothed<'a> {
        let (first, passes) = (Vec::with_capacity(streams), Vec::with_capacity(streams));
        Smoothed { send, receive, used: 0, offsets: vec![0], first, passes }
    }

    /// Adds a stream of which the gaps from `first` on remain after this many passes;
    /// `None` if it is refused.
    fn push(&mut self, gaps: &Gaps, kept: Option<(usize, u32)>) {
        if kept.is_some() {
            let room = self.used..self.used + gaps.len();
            let copy = |to: &mut [i64], from: &[Duration]| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.ns());
            };
            copy(&mut self.send[room.clone()], &gaps.send);
            copy(&mut self.receive[room.clone()], &gaps.receive);
            self.used = room.end;
        }
        let (first, passes) = kept.unwrap_or_default();
        self.offsets.push(self.used as i64);
        self.first.push(first as i64);
        self.passes.push(passes);
    }

    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("offsets", self.offsets.into_pyarray(py))?;
        dict.set_item("first", self.first.into_pyarray(py))?;
        dict.set_item("passes", self.passes.into_pyarray(py))?;
        Ok(dict)
    }
}
