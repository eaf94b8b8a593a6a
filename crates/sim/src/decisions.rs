//! What middleboxes would do with flows, as results.

use headway_edge::Noted;
use headway_edge::evaluate::Action;
use headway_record::DecisionResult;
use headway_scenario::{MiddleboxSpec, Scenario};

use crate::build::Built;

/// Returns the latest decisions of all middleboxes of a scenario, one middlebox after the other.
pub(crate) fn decisions(scenario: &Scenario, built: &Built) -> Vec<DecisionResult> {
    let middleboxes = scenario.middlebox.iter().zip(&built.middleboxes);
    middleboxes
        .flat_map(|(spec, id)| built.network.decisions(*id).map(|noted| decision(scenario, spec, noted)))
        .collect()
}

/// Returns a decision of a middlebox as a result.
fn decision(scenario: &Scenario, spec: &MiddleboxSpec, noted: &Noted) -> DecisionResult {
    let Noted { at, judged } = noted;
    let port = judged.seen.key.port(1 - judged.seen.client);
    let group = (0..scenario.flow.len()).find(|group| MiddleboxSpec::port(*group) == port);
    let chain = &judged.decision.chain;
    DecisionResult {
        at_ns: at.ns(),
        at: spec.at.clone(),
        group: group.map_or(String::new(), |group| scenario.flow[group].group_name()),
        connection: judged.seen.number,
        behaviour: judged.behaviour.0.name().to_owned(),
        strategies: chain.iter().map(|step| step.strategy.to_owned()).collect(),
        limit_bytes: chain.iter().find_map(|step| match step.action {
            Action::Window { limit } => Some(limit.get()),
            _ => None,
        }),
        sentence: judged.decision.to_string(),
    }
}
