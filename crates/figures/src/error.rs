//! The error of drawing a figure.

/// An error of the drawing library, as text because its type depends on the backend.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure: {0}")]
pub struct CannotDraw(String);

impl CannotDraw {
    pub(crate) fn new(error: impl std::fmt::Display) -> CannotDraw {
        CannotDraw(error.to_string())
    }
}

impl<E: std::error::Error + Send + Sync> From<plotters::drawing::DrawingAreaErrorKind<E>> for CannotDraw {
    fn from(error: plotters::drawing::DrawingAreaErrorKind<E>) -> CannotDraw {
        CannotDraw::new(error)
    }
}
