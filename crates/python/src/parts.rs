//! Arrays of many streams: one after the other, with the positions at which each begins.

use std::ops::Range;

use pyo3::PyResult;

use crate::errors::wrong;

/// The parts of flat arrays: part i is from `offsets[i]` up to but not including `offsets[i + 1]`.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a>(&'a [i64]);

impl<'a> Parts<'a> {
    /// Takes the offsets of arrays of this length.
    ///
    /// # Errors
    /// When they do not ascend from 0 to the length.
    pub(crate) fn new(offsets: &'a [i64], length: usize) -> PyResult<Parts<'a>> {
        let ends = offsets.first() == Some(&0) && offsets.last().is_some_and(|last| *last == length as i64);
        if !ends {
            return Err(wrong(
                "offsets",
                format_args!("must begin with 0 and end with {length}, the length of the arrays"),
            ));
        }
        match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => Err(wrong("offsets", format_args!("element {} is less than the one before", at + 1))),
            None => Ok(Parts(offsets)),
        }
    }

    /// Returns the number of parts.
    pub(crate) fn len(self) -> usize {
        self.0.len() - 1
    }

    /// Returns where part `index` is.
    pub(crate) fn range(self, index: usize) -> Range<usize> {
        self.0[index] as usize..self.end(index)
    }

    /// Returns where part `index` ends.
    pub(crate) fn end(self, index: usize) -> usize {
        self.0[index + 1] as usize
    }
}

/// Checks that two arrays are equally long.
///
/// # Errors
/// Names the argument whose `length` is not the one of `other`.
pub(crate) fn same_length(argument: &str, length: usize, other: &str, expected: usize) -> PyResult<()> {
    if length == expected {
        return Ok(());
    }
    Err(wrong(argument, format_args!("has {length} elements, but {other} has {expected}")))
}
