//! Model files and their answers.

mod allocation;
mod answers;
mod hostile;
mod reference;
mod shipped;
mod support;
