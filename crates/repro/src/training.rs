//! Models that scikit-learn trains: a child process with the Python package `headway`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headway_learned::Model;
use serde_json::Value;

use crate::context::Error;
use crate::job::Job;

/// Names the Python interpreter that has the package; otherwise `python3` is asked.
const INTERPRETER: &str = "HEADWAY_PYTHON";
/// How long a child is left alone before it is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// A model, and how well the training says that it does.
#[derive(Debug)]
pub(crate) struct Trained {
    /// `None` for one that has no model file.
    pub(crate) model: Option<Model>,
    pub(crate) scores: Value,
}

/// Trains models on a table: `data` is `streams` or `windows`, and `options` are those of
/// `python -m headway.train`.
///
/// # Errors
/// [`Error::NoTraining`] where there is no package, [`Error::Training`] if it fails, and
/// [`Error::Interrupted`].
pub(crate) fn train(
    job: &Job<'_>,
    folder: &Path,
    data: &str,
    tables: &[PathBuf],
    models: &[&str],
    options: &[&str],
) -> Result<Vec<Trained>, Error> {
    let interpreter = interpreter();
    check(&interpreter)?;
    let mut command = Command::new(&interpreter);
    command.args(["-m", "headway.train", data]).args(tables).arg("--json").arg("--output").arg(folder);
    models.iter().for_each(|model| {
        command.args(["--model", model]);
    });
    command.args(options);
    // Several trainings run at once, each on one processor.
    command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
    let [out, errors] = ["scores.json", "errors.txt"].map(|name| folder.join(name));
    let create = |path: &Path| File::create(path).map_err(|error| failed(&error));
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&errors)?);
    let child = command.spawn().map_err(|error| failed(&error))?;
    if !wait(job, child)? {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        return Err(Error::Training(said.trim().lines().last().unwrap_or("it gave no reason").to_owned()));
    }
    let scores = std::fs::read(&out).map_err(|error| failed(&error))?;
    let scores: Value = serde_json::from_slice(&scores).map_err(|error| failed(&error))?;
    models.iter().map(|model| read(folder, model, &scores)).collect()
}

/// Checks that models can be trained, before anything is made for it.
///
/// # Errors
/// [`Error::NoTraining`].
pub(crate) fn require() -> Result<(), Error> {
    check(&interpreter())
}

fn interpreter() -> OsString {
    std::env::var_os(INTERPRETER).unwrap_or_else(|| OsString::from("python3"))
}

fn read(folder: &Path, name: &str, scores: &Value) -> Result<Trained, Error> {
    let model = match File::open(folder.join(name).with_extension("json")) {
        Ok(mut file) => {
            let mut text = Vec::new();
            file.read_to_end(&mut text).map_err(|error| failed(&error))?;
            Some(Model::parse(&text).map_err(|error| failed(&error))?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(&error)),
    };
    Ok(Trained { model, scores: scores[name].clone() })
}

/// Checks that there is a Python with the package.
fn check(interpreter: &OsString) -> Result<(), Error> {
    let mut command = Command::new(interpreter);
    command.args(["-c", "import headway.train"]).stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let reason = said.trim().lines().last().unwrap_or("it cannot be imported").to_owned();
            Err(Error::NoTraining { interpreter: interpreter.display().to_string(), reason })
        }
        Err(error) => Err(Error::NoTraining {
            interpreter: interpreter.display().to_string(),
            reason: error.to_string(),
        }),
    }
}

/// Waits for a child; returns whether it succeeded. It is ended when the work is cancelled.
fn wait(job: &Job<'_>, mut child: Child) -> Result<bool, Error> {
    loop {
        if let Some(status) = child.try_wait().map_err(|error| failed(&error))? {
            return Ok(status.success());
        }
        if let Err(cancelled) = job.check() {
            // It may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            return Err(cancelled);
        }
        std::thread::sleep(PAUSE);
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::Training(error.to_string())
}
