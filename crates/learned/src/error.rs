//! What is wrong with a model file, and why a model gives no answer.

use crate::domain::Outside;

/// What is wrong with a model file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not JSON, or a field is missing, unknown or of another type.
    #[error("no model file: {0}")]
    Form(#[from] serde_json::Error),
    /// It has more bytes than [`Model::MOST_BYTES`](crate::Model::MOST_BYTES).
    #[error("has {0} bytes; a model file has at most {most}", most = crate::Model::MOST_BYTES)]
    TooLarge(usize),
    /// A value in it cannot be right.
    #[error("`{place}` {problem}")]
    Wrong {
        /// The path of the value, such as `model.trees[3].left[5]`.
        place: String,
        /// What is wrong, as the rest of a sentence.
        problem: String,
    },
}

/// Returns the error that the value at `place` is wrong.
pub(crate) fn wrong(place: impl Into<String>, problem: impl Into<String>) -> FileError {
    FileError::Wrong { place: place.into(), problem: problem.into() }
}

/// Why a model gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoAnswer {
    /// It was trained for another task.
    #[error("the model is for another task: {0}")]
    OtherTask(&'static str),
    /// The stream has another number of gaps.
    #[error("the stream has {0} gaps, and the model is for {1}")]
    OtherLength(usize, usize),
    /// The rates of the stream are spread in another way, or its packets have another size.
    #[error("the stream has another shape than those that the model was trained on")]
    OtherShape,
    /// It counts in packet times or shares of the capacity, which is not known.
    #[error("the model needs the capacity of the path, which is not known")]
    NoCapacity,
    /// It has not seen anything like this.
    #[error("{0}")]
    Unseen(Outside),
    /// Its answer is not a finite number.
    #[error("the model gives no finite number")]
    NotFinite,
}
