//! Links that vary with time: capacities drawn anew, outages, and bursts of losses; and radio channels.

use std::borrow::Cow;

use headway_queue::QueueSpec;
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration, RateSteps};

use crate::model::{LinkSpec, Scenario};

/// The largest number of attempts that a MAC can be set to.
const MOST_RETRIES: u32 = 255;

impl Scenario {
    /// Returns the scenario with the `rates` that a run with this seed draws for links whose
    /// capacity is `redrawn`; these keep their `rate`, the one that routers know. Both directions of
    /// a link have the same.
    pub fn drawn(&self, seed: u64) -> Cow<'_, Scenario> {
        if self.link.iter().all(|link| link.redrawn.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut scenario = self.clone();
        let varying = scenario.link.iter_mut().filter(|link| link.redrawn.is_some());
        for (number, link) in varying.enumerate() {
            if let Some((redrawn, full)) = link.redrawn.take().zip(link.rate) {
                link.rates = Some(redrawn.rates(full, self.duration, seed, number as u64));
            }
        }
        Cow::Owned(scenario)
    }
}

impl LinkSpec {
    /// Returns the rates in a run of `duration`, with outages; `None` if the rate never changes. A capacity
    /// that is redrawn must have been [drawn](Scenario::drawn).
    pub fn steps(&self, duration: Duration) -> Option<RateSteps> {
        let Some(outages) = &self.outages else { return self.rates.clone() };
        let rates = self.rates.clone().or(self.rate.map(RateSteps::constant))?;
        Some(outages.apply(&rates, duration))
    }
}

/// Checks the keys of a link that varies, in a run of this duration.
pub(crate) fn check_channel(table: &str, link: &LinkSpec, duration: Duration) -> Result<(), ConfigError> {
    let changes = [("redrawn", link.redrawn.is_some()), ("outages", link.outages.is_some())];
    let others = [
        ("trace", link.trace.is_some()),
        ("burst", link.burst.is_some()),
        ("kernel-queue", link.kernel_queue.is_some()),
    ];
    for (key, _) in changes.into_iter().filter(|(_, given)| *given) {
        let key = format!("{table}.{key}");
        if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
            return Err(ConfigError::new(&key, &format!("cannot be combined with `{other}`")));
        }
    }
    let key = format!("{table}.redrawn");
    check(&key, link.redrawn.is_none() || link.rate.is_some(), "needs a `rate`, the highest that is drawn")?;
    let timed = link.rate.is_some() || link.rates.is_some();
    check(&format!("{table}.outages"), link.outages.is_none() || timed, "needs a `rate` or `rates`")?;
    if let Some((key, rule)) = link.redrawn.and_then(|redrawn| redrawn.mistake(duration)) {
        return Err(ConfigError::new(&format!("{table}.redrawn.{key}"), rule));
    }
    if let Some((key, rule)) = link.outages.as_ref().and_then(|outages| outages.mistake()) {
        return Err(ConfigError::new(&format!("{table}.outages{key}"), rule));
    }
    Ok(())
}

/// Checks the keys of a link that is a radio channel, or has a queue that needs one.
pub(crate) fn check_wifi(table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
    let needs = link.queue.as_ref().is_some_and(QueueSpec::needs_wifi);
    let Some(wifi) = &link.wifi else {
        return check(
            &format!("{table}.queue.kind"),
            !needs,
            "needs a link with `wifi`, whose counters it reads",
        );
    };
    let key = format!("{table}.wifi");
    check(&key, link.rate.is_some(), "needs a `rate`, that of the frames")?;
    let others = [
        ("redrawn", link.redrawn.is_some()),
        ("outages", link.outages.is_some()),
        ("burst", link.burst.is_some()),
        ("kernel-queue", link.kernel_queue.is_some()),
    ];
    if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err(ConfigError::new(&key, &format!("cannot be combined with `{other}`")));
    }
    check(&format!("{key}.retries"), wifi.retries <= MOST_RETRIES, "must be at most 255")?;
    check(&format!("{key}.damage"), wifi.damage < 1.0, "must be less than 1, or nothing arrives")
}
