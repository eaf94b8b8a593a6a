//! Passive estimates from the segments of a TCP transfer in arrays (SABES).

use headway_estimate::sabes::{
    Estimate, Flags, Form, Limit, Segment, Settings, Side, Transfer, Way, WindowRefusal, Windows,
};
use headway_learned::Task;
use headway_units::{Bytes, Duration, Instant, Rate};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::Columns;
use crate::errors::wrong;
use crate::interrupt::in_steps;
use crate::model::Model;
use crate::parts::same_length;

/// Bits of the flags of a TCP header.
const FIN: i64 = 1;
const SYN: i64 = 2;
const RST: i64 = 4;
const ACK: i64 = 16;

/// The segments of a transfer, in the order in which they passed the tap. What is optional is -1
/// where it is not there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SegmentArrays<'py> {
    at_ns: PyReadonlyArray1<'py, i64>,
    is_ack: PyReadonlyArray1<'py, i64>,
    sequence: PyReadonlyArray1<'py, i64>,
    acknowledgement: PyReadonlyArray1<'py, i64>,
    payload_bytes: PyReadonlyArray1<'py, i64>,
    headers_ip_bytes: PyReadonlyArray1<'py, i64>,
    window: PyReadonlyArray1<'py, i64>,
    flags: PyReadonlyArray1<'py, i64>,
    window_scale: PyReadonlyArray1<'py, i64>,
    mss_bytes: PyReadonlyArray1<'py, i64>,
    timestamp: PyReadonlyArray1<'py, i64>,
    echo: PyReadonlyArray1<'py, i64>,
    sack: PyReadonlyArray1<'py, i64>,
}

/// The same without the interpreter, by name and with the largest value.
struct Segments<'a>([(&'static str, &'a [i64], i64); 13]);

impl<'py> SegmentArrays<'py> {
    fn segments(&self) -> PyResult<Segments<'_>> {
        let most = i64::from(u32::MAX);
        let columns = [
            ("at_ns", self.at_ns.as_slice()?, i64::MAX),
            ("is_ack", self.is_ack.as_slice()?, 1),
            ("sequence", self.sequence.as_slice()?, most),
            ("acknowledgement", self.acknowledgement.as_slice()?, most),
            ("payload_bytes", self.payload_bytes.as_slice()?, most),
            ("headers_ip_bytes", self.headers_ip_bytes.as_slice()?, most),
            ("window", self.window.as_slice()?, i64::from(u16::MAX)),
            ("flags", self.flags.as_slice()?, i64::from(u16::MAX)),
            ("window_scale", self.window_scale.as_slice()?, i64::from(u8::MAX)),
            ("mss_bytes", self.mss_bytes.as_slice()?, i64::from(u16::MAX)),
            ("timestamp", self.timestamp.as_slice()?, most),
            ("echo", self.echo.as_slice()?, most),
            ("sack", self.sack.as_slice()?, 1),
        ];
        let length = columns[0].1.len();
        columns.iter().try_for_each(|(name, values, _)| same_length(name, values.len(), "at_ns", length))?;
        Ok(Segments(columns))
    }
}

/// Columns that a segment may lack: the window scale and those after it but the last.
const OPTIONAL: std::ops::Range<usize> = 8..12;

impl Segments<'_> {
    fn len(&self) -> usize {
        self.0[0].1.len()
    }

    /// Returns segment `index`.
    fn segment(&self, index: usize) -> PyResult<Segment> {
        let mut values = [0; 13];
        for (place, (name, column, most)) in self.0.iter().enumerate() {
            let least = if OPTIONAL.contains(&place) { -1 } else { 0 };
            values[place] = column[index];
            if !(least..=*most).contains(&values[place]) {
                return Err(wrong(name, format_args!("element {index} is not from {least} to {most}")));
            }
        }
        let [at, is_ack, sequence, number, payload, headers, window, flags, scale, mss, stamp, echo, sack] =
            values;
        let has = |flag: i64| flags & flag != 0;
        Ok(Segment {
            at: Instant::from_ns(at as u64),
            way: if is_ack == 1 { Way::Acks } else { Way::Data },
            sequence: sequence as u32,
            acknowledgement: has(ACK).then_some(number as u32),
            payload: payload as u32,
            headers: headers as u32,
            window: window as u16,
            flags: Flags { syn: has(SYN), fin: has(FIN), rst: has(RST) },
            window_scale: u8::try_from(scale).ok(),
            mss: u16::try_from(mss).ok(),
            cut: false,
            sack: sack == 1,
            timestamps: u32::try_from(stamp).ok().zip(u32::try_from(echo).ok()),
        })
    }
}

/// Where the tap is and how windows are evaluated.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TapSettings {
    side: String,
    nic_bps: f64,
    window_ns: Option<i64>,
    form: String,
    framing_wire_bytes: u64,
}

impl TapSettings {
    fn settings(&self) -> PyResult<Settings> {
        let none_of =
            |argument, given: &str, names| wrong(argument, format_args!("`{given}` is none of {names}"));
        Ok(Settings {
            side: match self.side.as_str() {
                "sender" => Side::Sender,
                "receiver" => Side::Receiver,
                other => return Err(none_of("side", other, "sender, receiver")),
            },
            nic: Rate::from_bps_f64(self.nic_bps),
            windows: self.window_ns.map_or(Windows::Sliding, |ns| Windows::Tumbling(Duration::from_ns(ns))),
            form: match self.form.as_str() {
                "guarded" => Form::Guarded,
                "literal" => Form::Literal,
                other => return Err(none_of("form", other, "guarded, literal")),
            },
            framing: Bytes::new(self.framing_wire_bytes),
            ..Settings::default()
        })
    }
}

/// Estimates what is free on the path of a TCP transfer; returns the windows, and what is known of the
/// transfer. See `headway.sabes`.
#[pyfunction]
#[pyo3(signature = (segments, settings, model))]
pub(crate) fn sabes<'py>(
    py: Python<'py>,
    segments: SegmentArrays<'py>,
    settings: TapSettings,
    model: Option<PyRef<'py, Model>>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let segments = segments.segments()?;
    let mut transfer = Transfer::new(&settings.settings()?);
    if let Some(model) = model {
        transfer.set_model(model.of(&[Task::SabesNn, Task::SabesKde])?);
    }
    let mut windows = Vec::new();
    in_steps(
        py,
        segments.len(),
        |segment| segment + 1,
        |step| {
            for index in step {
                windows.extend(transfer.observe(&segments.segment(index)?));
            }
            Ok(())
        },
    )?;
    Ok((table(py, &windows)?, known(py, &transfer)?))
}

fn table<'py>(py: Python<'py>, windows: &[Estimate]) -> PyResult<Bound<'py, PyDict>> {
    let table = Columns::new(py);
    table.numbers("end_ns", windows.iter().map(|window| window.at.ns()))?;
    table.numbers("window_ns", windows.iter().map(|window| window.window.ns()))?;
    table.numbers("free_bps", windows.iter().map(|window| window.rate.bps()))?;
    table.numbers("free_low_bps", windows.iter().map(|window| window.low.bps()))?;
    table.numbers("free_high_bps", windows.iter().map(|window| window.high.bps()))?;
    table.numbers("samples", windows.iter().map(|window| window.samples))?;
    Ok(table.into_dict())
}

fn known<'py>(py: Python<'py>, transfer: &Transfer) -> PyResult<Bound<'py, PyDict>> {
    let (windows, limits, seen) = (transfer.windows(), transfer.limits(), transfer.anomalies());
    let (refused, shares) = (PyDict::new(py), PyDict::new(py));
    for reason in WindowRefusal::ALL.into_iter().filter(|reason| windows.refused(*reason) > 0) {
        refused.set_item(reason.name(), windows.refused(reason))?;
    }
    for limit in Limit::ALL {
        shares.set_item(limit.name(), limits.share(limit))?;
    }
    let dict = PyDict::new(py);
    dict.set_item("capacity_bps", transfer.capacity().map(Rate::bps))?;
    dict.set_item("rtt_ns", transfer.rtt().map(Duration::ns))?;
    dict.set_item("acknowledged_bytes", transfer.acknowledged().get())?;
    dict.set_item("windows_used", windows.used())?;
    dict.set_item("windows_refused", refused)?;
    dict.set_item("limited_share", shares)?;
    dict.set_item("retransmissions", seen.retransmissions)?;
    dict.set_item("out_of_order", seen.out_of_order)?;
    dict.set_item("duplicate_acks", seen.duplicate_acks)?;
    Ok(dict)
}
