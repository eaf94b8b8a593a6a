//! Tables in CSV: a line for each stream or window.

mod stream;
mod window;

pub use stream::StreamTable;
pub use window::WindowTable;

/// Returns the names `NAME_0`, `NAME_1` and so on.
fn numbered(name: &str, count: usize) -> impl Iterator<Item = String> + '_ {
    (0..count).map(move |index| format!("{name}_{index}"))
}
