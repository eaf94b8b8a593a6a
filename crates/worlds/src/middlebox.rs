//! A middlebox of a run: a hidden command that does at a node what `headway edge` does at a router.

use headway_record::MiddleboxResult;
use headway_scenario::{MiddleboxEnd, MiddleboxSpec};

use crate::error::Error;

/// The only argument of a helper that is a middlebox; its plan is the first line of standard input.
pub(crate) const COMMAND: &str = "middlebox";

/// Works as the plan on standard input says (JSON in one line) until a signal arrives, and
/// prints what has passed.
#[cfg(feature = "bpf")]
pub(crate) fn run() -> Result<(), Error> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use anyhow::Context as _;
    use headway_edge::Monitor;
    use headway_kernel::{EdgeInterface, EdgeOptions, EdgeSession};
    use headway_scenario::MiddleboxPlan;

    use crate::endpoint::{READY, print, termination};

    let ended: Arc<AtomicBool> = termination()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the plan")?;
    let plan: MiddleboxPlan =
        serde_json::from_str(&line).context("this command is only for runs with a middlebox")?;
    let sides = [EdgeInterface::find(&plan.lan)?, EdgeInterface::find(&plan.wan)?];
    let options = EdgeOptions::of(&plan.policy);
    // Where connections count by their number, nothing is to be judged.
    let mut monitor = plan.policy.follows_rtt().then(|| Monitor::new(&plan.policy, plan.rates));
    let mut session = EdgeSession::start(sides, &options, &plan.policy, plan.policy.capacity(plan.rates))?;
    print(READY)?;
    while !ended.load(Ordering::Relaxed) {
        let due = session.work()?;
        if let Some(monitor) = monitor.as_mut().filter(|_| due.look) {
            session.look(monitor, |_| Default::default())?;
        }
    }
    let counted = session.counters()?;
    print(&serde_json::to_string(&MiddleboxEnd {
        connections: counted.begun,
        lowered: counted.lowered,
        unattended: counted.unattended,
    })?)
}

/// Says that there are no programs for a middlebox in this build.
#[cfg(not(feature = "bpf"))]
pub(crate) fn run() -> Result<(), Error> {
    Err(headway_kernel::Error::NotBuilt.into())
}

/// Returns the result of a middlebox that has ended.
pub(crate) fn result((spec, end): (&MiddleboxSpec, &MiddleboxEnd)) -> MiddleboxResult {
    let MiddleboxEnd { connections, lowered, unattended: _ } = *end;
    MiddleboxResult { at: spec.at.clone(), connections, acks: None, lowered }
}
