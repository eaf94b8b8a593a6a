//! Model files of the tests.

use std::sync::LazyLock;

use headway_learned::Model;
use serde_json::Value;

/// Models of every kind with inputs and what scikit-learn answers; `reference.py` made them.
pub(crate) static REFERENCE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("reference.json")).expect("reference.py writes JSON"));

/// Returns the cases of the reference: a model file and the answers.
pub(crate) fn cases() -> &'static [Value] {
    REFERENCE["cases"].as_array().expect("a list")
}

/// Returns the first model file of the reference with this name and task.
pub(crate) fn file(name: &str, task: &str) -> Value {
    let wanted = |case: &&Value| case["model"]["name"] == name && case["model"]["task"] == task;
    cases().iter().find(wanted).expect("it is among the cases")["model"].clone()
}

/// Reads a model file.
pub(crate) fn read(file: &Value) -> Model {
    Model::parse(file.to_string().as_bytes()).expect("a model file")
}

/// Returns why a file is refused.
pub(crate) fn refusal(file: &Value) -> String {
    Model::parse(file.to_string().as_bytes()).expect_err("it is wrong").to_string()
}
