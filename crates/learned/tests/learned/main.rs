//! Model files and their answers.

mod allocation;
mod answers;
mod counting;
mod hostile;
mod reference;
mod shipped;
mod support;
