//! The file of a trained model that a scenario names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use headway_learned::Model;
use headway_units::ConfigError;
use serde::Deserialize;

/// A trained model, from a file whose name is relative to the folder of the scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct ModelFile {
    file: PathBuf,
    #[serde(skip)]
    model: Option<Arc<Model>>,
}

impl ModelFile {
    /// Reads the file; `key` names it in errors.
    pub(crate) fn load(&mut self, folder: &Path, key: &str) -> Result<(), ConfigError> {
        let path = folder.join(&self.file);
        let wrong = |why: String| ConfigError::new(key, &format!("{}: {why}", path.display()));
        let text = headway_input::text(&path, Model::MOST_BYTES as u64);
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let model = Model::parse(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        self.model = Some(Arc::new(model));
        Ok(())
    }

    /// Returns its name as written.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    /// Returns the model, once the scenario has been read.
    pub const fn model(&self) -> Option<&Arc<Model>> {
        self.model.as_ref()
    }
}
