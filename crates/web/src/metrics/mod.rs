//! Metrics as OpenMetrics text. Rates are in bytes per second, times in seconds.

pub(crate) mod edge;

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::assets::text;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bits in a byte.
const BITS: f64 = 8.0;

/// Names of labels, and their values.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes metrics, one after the other.
pub struct MetricWriter<'a>(DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    /// Writes a number that goes up and down. The name ends in its unit, the help has no dot at its end.
    ///
    /// # Errors
    /// If there is no room for the text.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, [(&[] as Labels<'_>, value)])
    }

    /// Writes one such number for each set of labels.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn gauges<L: AsRef<[(N, V)]>, N: AsRef<str>, V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, values, |metric, value| metric.encode_gauge(value))
    }

    /// Writes a number that only grows; `_total` is added to its name.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [(&[] as Labels<'_>, value)])
    }

    /// Writes one such number for each set of labels.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn counters<L: AsRef<[(N, V)]>, N: AsRef<str>, V: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, values, |metric, value| {
            metric.encode_counter::<NoLabelSet, u64, f64>(value, None)
        })
    }

    fn family<L: AsRef<[(N, V)]>, N: AsRef<str>, V: AsRef<str>, T>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl IntoIterator<Item = (L, T)>,
        write: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in values {
            let labels: Vec<_> =
                labels.as_ref().iter().map(|(name, text)| (name.as_ref(), text.as_ref())).collect();
            match labels.is_empty() {
                true => write(&mut metric, &value)?,
                false => write(&mut metric.encode_family(&labels)?, &value)?,
            }
        }
        Ok(())
    }

    /// Returns bytes per second, the unit of rates, for bits per second.
    pub fn bytes_per_second(bps: u64) -> f64 {
        bps as f64 / BITS
    }
}

/// What is asked for the numbers at each request.
struct Asked<F>(F);

impl<F> fmt::Debug for Asked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

impl<F: Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Asked<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut MetricWriter(encoder))
    }
}

/// All metrics of a server.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Registry>);

impl Metrics {
    pub(crate) fn new(
        write: impl Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static,
    ) -> Metrics {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Asked(write)));
        Metrics(Arc::new(registry))
    }
}

/// Answers with all metrics.
pub(crate) async fn answer(State(Metrics(registry)): State<Metrics>) -> Response {
    let mut body = String::new();
    match prometheus_client::encoding::text::encode(&mut body, &registry) {
        Ok(()) => text(OPEN_METRICS, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
