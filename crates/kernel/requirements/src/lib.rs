//! Nothing: what counts is the build script, which fails early and in one sentence where
//! something is missing.
