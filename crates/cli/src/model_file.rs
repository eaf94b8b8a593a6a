//! The files of trained models that commands name.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use headway_learned::Model;

/// Reads a model file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Arc<Model>> {
    let text = headway_input::text(path, Model::MOST_BYTES as u64)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let model = Model::parse(text.as_bytes());
    Ok(Arc::new(model.with_context(|| path.display().to_string())?))
}
