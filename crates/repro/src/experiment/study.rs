//! What is done in an experiment, with the parameters of each kind.

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_units::{Bytes, Duration};
use serde::Deserialize;

use super::amount::{Count, Sweep};
use super::closed_loop::{ClosedLoop, Staggered};
use super::crowds::{Compensation, Crowds};
use super::errors::Errors;
use super::groups::Groups;
use super::pairs::{Capacities, NarrowLinks, PairDelays, Prefixes};
use super::passive::{AckStamps, Passive};
use super::path::GapMechanism;
use super::procedure::Procedure;
use super::rivals::Rivals;
use super::shapers::Shapers;
use super::stream::StreamShape;
use crate::shared_link::Marking;

/// The kinds of studies. Rates are in Gb/s on the wire.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Study {
    /// Error of the gaps that a sender creates, over the rate.
    GapErrors(GapErrors),
    /// The sequence of gaps that a sender creates.
    GapSeries(GapSeries),
    /// Estimates of an excursion search on streams from different senders.
    GapEstimates(GapEstimates),
    /// Error of the gaps when many flows share a sender.
    GapFlows(GapFlows),
    /// The queue of a link shared by long flows with a short RTT.
    SharedLink(SharedLink),
    /// Throughput and bursts of a flow behind token-bucket shapers.
    Shapers(Shapers),
    /// Throughput and losses of a flow beside cross traffic.
    ClosedLoop(ClosedLoop),
    /// Shares of flows that start and end one after the other.
    Staggered(Staggered),
    /// Variation of the rate of a paced sender.
    GapBursts(GapBursts),
    /// The stream length that PRC-MT converges to.
    Lengths(Lengths),
    /// Accuracy of the decisions on single-rate streams.
    Decisions(Decisions),
    /// Error of estimates from multi-rate streams.
    Errors(Errors),
    /// The gaps of one stream at each stage of the estimator.
    Series(Series),
    /// The mean of the first gaps after an interrupt, over their number.
    Windows(Windows),
    /// Four flows that share a narrow link with explicit congestion control.
    Procedure(Procedure),
    /// Explicit congestion control beside other systems.
    Rivals(Rivals),
    /// Groups of flows that differ, at one explicit router.
    Groups(Groups),
    /// Passive estimates of the available bandwidth.
    Passive(Passive),
    /// Rates of consecutive ACKs by stamps in and behind a NIC.
    AckStamps(AckStamps),
    /// Errors of capacities from packet pairs.
    Capacities(Capacities),
    /// One-way delays of packet pairs.
    PairDelays(PairDelays),
    /// Searches for the narrow link with hidden packets.
    NarrowLinks(NarrowLinks),
    /// Capacities of the links before the narrow one.
    Prefixes(Prefixes),
    /// Queues at which RCP absorbs a growing number of flows, by formula.
    Compensation(Compensation),
    /// The queue of an RCP router while a crowd arrives.
    Crowds(Crowds),
}

/// Parameters of [`Study::SharedLink`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// Marking scheme of the link.
    pub marking: Marking,
    /// Controllers, by the name with which their measures begin.
    pub variants: BTreeMap<String, Kind>,
    /// Experiments of the thesis, `1` to `4H`, in which all variants run.
    pub settings: Vec<String>,
    /// Runs per variant and setting, with different seeds; the median is reported.
    pub runs: Count,
    /// Simulated duration of what lasts one second in the thesis.
    pub milliseconds: Count,
    /// The same duration on the Linux stack, where packets take ten times as long to compute; absent when no
    /// kernel has the controllers.
    pub kernel_milliseconds: Option<Count>,
}

/// Parameters of [`Study::GapErrors`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapErrors {
    /// Gap mechanisms.
    pub mechanisms: Vec<GapMechanism>,
    /// Wire sizes of the packets.
    pub packets: Vec<Bytes>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Sending time at each rate.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapSeries`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapSeries {
    /// The gap mechanism.
    pub mechanism: GapMechanism,
    /// Rate in Gb/s.
    pub rate: f64,
    /// Number of gaps.
    pub gaps: Count,
    /// Number of gaps in the figure.
    pub drawn: usize,
}

/// Parameters of [`Study::GapEstimates`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapEstimates {
    /// Gap mechanisms.
    pub mechanisms: Vec<GapMechanism>,
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    pub average: f64,
    /// Number of the probing rate, from 1, that is the correct estimate.
    pub right: usize,
    /// Streams per mechanism.
    pub streams: Count,
}

/// Parameters of [`Study::GapFlows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapFlows {
    /// Gap mechanisms.
    pub mechanisms: Vec<GapMechanism>,
    /// Numbers of flows.
    pub flows: Vec<usize>,
    /// Total rates of all flows in Gb/s.
    pub rates: Vec<f64>,
    /// Sending time.
    pub milliseconds: Count,
}

/// Parameters of [`Study::GapBursts`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapBursts {
    /// Gap mechanisms.
    pub mechanisms: Vec<GapMechanism>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Interval over which the rate is averaged.
    pub interval: Duration,
    /// Intervals per rate.
    pub intervals: Count,
}

/// Parameters of [`Study::Lengths`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Packets in the initial train at line rate.
    pub train: usize,
    /// Number of tunings.
    pub runs: Count,
}

/// Parameters of [`Study::Decisions`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// Names of the methods ([`headway_estimate::SingleRate`]). With ` @exit`, a method sees the gaps right
    /// behind the bottleneck; with ` @busy`, those of a NIC that another packet woke up less than one interval
    /// before.
    pub methods: Vec<String>,
    /// Stream lengths in packets.
    pub lengths: Vec<usize>,
    /// Rates in Gb/s.
    pub rates: Sweep,
    /// Streams per rate.
    pub streams: Count,
}

/// Parameters of [`Study::Series`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Shape of the streams.
    pub shape: StreamShape,
    /// Average rate of the streams in Gb/s.
    pub average: f64,
    /// Available bandwidth during the published stream, in Gb/s.
    pub available: f64,
    /// Largest relative deviation from this for a stream to qualify as an example.
    pub within: f64,
    /// Streams to search for examples.
    pub streams: Count,
}

/// Parameters of [`Study::Windows`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Rate of the streams in Gb/s.
    pub rate: f64,
    /// Packets per stream.
    pub length: usize,
    /// Largest number of gaps in a mean.
    pub longest: usize,
    /// Number of streams.
    pub streams: Count,
}
