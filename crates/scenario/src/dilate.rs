//! Time dilation: the same scenario, slowed down (ls-aimd 4.8).

use headway_units::{Duration, Rate};

use crate::buffer::BufferSize;
use crate::controller::FlowController;
use crate::error::Error;
use crate::model::{FlowSpec, LinkSpec, Scenario, TrafficSpec};
use headway_traffic::channel::{DelayTrace, Jitter, LossBursts};
use headway_traffic::{ArrivalSpec, Traffic};

/// The largest dilation factor: a microsecond becomes a millisecond.
pub const MAX_DILATION: u32 = 1_000;

impl Scenario {
    /// Returns the same scenario with rates divided and times multiplied by `factor`, from 1 to
    /// [`MAX_DILATION`]; appends `-x10`, say, to its name.
    ///
    /// Windows, probabilities and ratios stay the same. The larger the factor, the smaller the timer error of
    /// a real-time host relative to the times of the scenario. Kernel constants are not dilated: the
    /// delayed-ACK timer, the minimum RTO, and the millisecond worth of segments that a host with
    /// segmentation offload hands to its NIC at once.
    ///
    /// # Errors
    /// When the factor is out of range; otherwise names the first item that cannot be dilated.
    pub fn dilated(&self, factor: u32) -> Result<Scenario, Error> {
        let refused = |what: &str| Error::Dilation(what.to_owned());
        if !(1..=MAX_DILATION).contains(&factor) {
            return Err(refused(&format!("the factor must lie between 1 and {MAX_DILATION}")));
        }
        let mut scenario = self.clone();
        if factor == 1 {
            return Ok(scenario);
        }
        scenario.name += &format!("-x{factor}");
        let others = [
            ("measure", self.measure.is_empty()),
            ("select", self.select.is_empty()),
            ("program", self.program.is_empty()),
            ("host", self.host.is_empty()),
        ];
        if let Some((table, _)) = others.iter().find(|(_, absent)| !absent) {
            return Err(refused(&format!("`{table}` cannot be dilated")));
        }
        let dilation = Dilation { factor };
        for time in [&mut scenario.duration, &mut scenario.warmup, &mut scenario.interval] {
            dilation.time(time);
        }
        for (index, link) in scenario.link.iter_mut().enumerate() {
            dilation
                .link(link)
                .map_err(|key| refused(&format!("`link[{index}].{key}` cannot be dilated")))?;
        }
        for flow in &mut scenario.flow {
            dilation.flow(flow);
        }
        for middlebox in &mut scenario.middlebox {
            middlebox.rate.iter_mut().chain(&mut middlebox.up).for_each(|rate| dilation.rate(rate));
        }
        for (index, change) in scenario.change.iter_mut().enumerate() {
            dilation.time(&mut change.at);
            let queue = change.queue.as_mut();
            queue
                .map_or(Ok(()), |queue| queue.dilate(factor))
                .map_err(|key| refused(&format!("`change[{index}].{key}` cannot be dilated")))?;
            if let Some(FlowController::Known(kind)) = &mut change.controller {
                *kind = kind.dilated(factor);
            }
        }
        for (index, traffic) in scenario.traffic.iter_mut().enumerate() {
            dilation.traffic(traffic).map_err(|model| {
                refused(&format!("`traffic[{index}]` of model `{model}` cannot be dilated"))
            })?;
        }
        Ok(scenario)
    }
}

/// Divides rates and multiplies times by a factor.
#[derive(Clone, Copy)]
struct Dilation {
    factor: u32,
}

impl Dilation {
    fn time(self, time: &mut Duration) {
        *time = *time * i64::from(self.factor);
    }

    fn rate(self, rate: &mut Rate) {
        *rate = Rate::from_bps(rate.bps() / u64::from(self.factor));
    }

    /// Fails with the key that cannot be dilated.
    fn link(self, link: &mut LinkSpec) -> Result<(), &'static str> {
        if link.trace.is_some() {
            return Err("trace");
        }
        if link.kernel_queue.is_some() {
            return Err("kernel-queue");
        }
        if link.wifi.is_some() {
            return Err("wifi");
        }
        // The default buffer is a time at the link's rate, too, unless it is the minimum of 64 kB.
        if let Some(rate) = link.highest_rate() {
            link.buffer = Some(BufferSize::Limit(link.buffer_at(rate)));
        }
        if let Some(rate) = &mut link.rate {
            self.rate(rate);
        }
        if let Some(rates) = &mut link.rates {
            *rates = rates.dilated(self.factor);
        }
        if let Some(peak) = &mut link.peak_rate {
            self.rate(peak);
        }
        if let Some(line) = &mut link.line {
            self.rate(line);
        }
        if let Some(police) = &mut link.police {
            self.rate(&mut police.rate);
        }
        if let Some(redrawn) = &mut link.redrawn {
            self.time(&mut redrawn.every);
        }
        if let Some(outages) = &mut link.outages {
            *outages = outages.dilated(self.factor);
        }
        self.time(&mut link.delay);
        self.wire((&mut link.loss_bursts, &mut link.jitter, &mut link.delay_trace));
        if let Some(reverse) = &mut link.reverse {
            self.wire((&mut reverse.loss_bursts, &mut reverse.jitter, &mut reverse.delay_trace));
        }
        link.queue.as_mut().map_or(Ok(()), |queue| queue.dilate(self.factor))
    }

    fn wire(self, (bursts, jitter, trace): (&mut Option<LossBursts>, &mut Jitter, &mut Option<DelayTrace>)) {
        if let Some(bursts) = bursts {
            self.time(&mut bursts.good);
            self.time(&mut bursts.bad);
        }
        *jitter = jitter.dilated(self.factor);
        if let Some(trace) = trace {
            *trace = trace.dilated(self.factor);
        }
    }

    fn flow(self, flow: &mut FlowSpec) {
        if let Some(arrivals) = &mut flow.arrivals {
            self.arrivals(arrivals);
        }
        if let FlowController::Known(kind) = &mut flow.controller {
            *kind = kind.dilated(self.factor);
        }
        self.time(&mut flow.start);
        self.time(&mut flow.stagger);
        for time in [&mut flow.stop, &mut flow.pause].into_iter().flatten() {
            self.time(time);
        }
        for rate in [&mut flow.application_rate, &mut flow.read_rate, &mut flow.line].into_iter().flatten() {
            self.rate(rate);
        }
    }

    fn arrivals(self, arrivals: &mut ArrivalSpec) {
        if let Some(rate) = &mut arrivals.rate {
            self.rate(rate);
        }
        if let Some(per_second) = &mut arrivals.per_second {
            *per_second /= f64::from(self.factor);
        }
        if let Some(lambda) = &mut arrivals.lambda {
            *lambda /= f64::from(self.factor);
        }
        let crowd = [&mut arrivals.peak, &mut arrivals.b, &mut arrivals.sigma, &mut arrivals.rtt];
        let times = arrivals.times.iter_mut().flatten().chain(&mut arrivals.think);
        for time in times.chain(crowd.into_iter().flatten()) {
            self.time(time);
        }
    }

    /// Fails with the name of the model that cannot be dilated.
    fn traffic(self, spec: &mut TrafficSpec) -> Result<(), &'static str> {
        self.time(&mut spec.start);
        if let Some(stop) = &mut spec.stop {
            self.time(stop);
        }
        let model = spec.traffic.model();
        match &mut spec.traffic {
            Traffic::Cbr { rate, .. } | Traffic::Poisson { rate, .. } | Traffic::Batches { rate, .. } => {
                self.rate(rate)
            }
            Traffic::ParetoOnOff { peak, on, off, .. } => {
                self.rate(peak);
                self.time(on);
                self.time(off);
            }
            Traffic::Pareto { rate, silence, period, .. } => {
                self.rate(rate);
                self.time(silence);
                self.time(period);
            }
            Traffic::Web { think, access, .. } => {
                self.time(think);
                self.rate(access);
            }
            // These models already divide their times by the scale.
            Traffic::Bct { scale }
            | Traffic::Sct { scale }
            | Traffic::CbrProfile { scale }
            | Traffic::Unc1 { scale }
            | Traffic::Unc2 { scale }
            | Traffic::Unc3 { scale } => *scale /= f64::from(self.factor),
            Traffic::Pcap { .. } => return Err(model),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn scenario(text: &str) -> Scenario {
        Scenario::parse(text, Path::new("x.toml"), &[]).unwrap()
    }

    const LINK: &str = "duration = \"7 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\n";
    const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\nsize = \"30 kB\"\n";

    #[test]
    fn arrivals_come_slower_with_the_network() {
        let with = |arrivals: &str| {
            let dilated =
                scenario(&format!("{LINK}{FLOW}arrivals = {{ {arrivals} }}\n")).dilated(10).unwrap();
            dilated.flow[0].arrivals.clone().unwrap()
        };
        assert_eq!(with("per-second = 50.0").per_second, Some(5.0));
        assert_eq!(with("rate = \"40 Mb/s\"").rate, Some(Rate::from_mbps(4.0)));
        let times = with("times = [\"0 s\", \"20 ms\"]").times;
        assert_eq!(times, Some(vec![Duration::ZERO, Duration::from_ms(200)]));
        let crowd = with("kind = \"laplace\", peak = \"2 s\", b = \"100 ms\"");
        assert_eq!((crowd.peak, crowd.b), (Some(Duration::from_ms(20_000)), Some(Duration::from_ms(1_000))));
    }

    #[test]
    fn what_cannot_be_dilated_is_named() {
        let plain = scenario(&format!("{LINK}{FLOW}"));
        assert_eq!(plain.dilated(1).unwrap().link[0].rate, plain.link[0].rate);
        assert!(plain.dilated(0).unwrap_err().to_string().contains("between 1 and 1000"));
        let mut other = plain.clone();
        other.link[0].kernel_queue = Some("fq_codel".parse().unwrap());
        let error = other.dilated(10).unwrap_err().to_string();
        assert!(error.contains("link[0].kernel-queue"), "{error}");
    }
}
