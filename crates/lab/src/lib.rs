//! Emulated paths with a known truth.
