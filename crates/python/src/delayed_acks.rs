//! Gaps from delayed ACKs, in arrays.

use headway_estimate::Gaps;
use headway_estimate::stream::DelayedAcks;
use headway_units::Duration;
use numpy::{IntoPyArray as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::wrong;
use crate::interrupt::in_steps;
use crate::parts::same_length;

/// Spreads the intervals between timestamped packets over the packets that they cover; see
/// `headway.normalise`.
#[pyfunction]
#[pyo3(signature = (send_gap_ns, stamp_us, packets))]
pub(crate) fn normalise<'py>(
    py: Python<'py>,
    send_gap_ns: PyReadonlyArray1<'py, i64>,
    stamp_us: PyReadonlyArray1<'py, i64>,
    packets: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (send, stamps) = (send_gap_ns.as_slice()?, stamp_us.as_slice()?);
    same_length("stamp_us", stamps.len(), "send_gap_ns", send.len())?;
    let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
    let (mut sent, mut received, mut offsets) = (Vec::new(), Vec::new(), vec![0i64]);
    in_steps(
        py,
        send.len(),
        |packet| packet + 1,
        |step| {
            for packet in step {
                if send[packet] < 0 {
                    return Err(wrong("send_gap_ns", format_args!("gap {packet} is negative")));
                }
                // The stamp wraps around, so its low 32 bits are what an ACK carries.
                acks.push(Duration::from_ns(send[packet]), Some(stamps[packet] as u32));
                while acks.take(packets, &mut gaps) {
                    sent.extend(gaps.send.iter().map(|gap| gap.ns()));
                    received.extend(gaps.receive.iter().map(|gap| gap.ns()));
                    offsets.push(sent.len() as i64);
                }
            }
            Ok(())
        },
    )?;
    let dict = PyDict::new(py);
    dict.set_item("send_gap_ns", sent.into_pyarray(py))?;
    dict.set_item("receive_gap_ns", received.into_pyarray(py))?;
    dict.set_item("offsets", offsets.into_pyarray(py))?;
    Ok(dict)
}
