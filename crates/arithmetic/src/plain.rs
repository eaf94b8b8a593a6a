//! Structures that C code shares, as bytes.

/// A type that any bytes of its size are a value of.
///
/// # Safety
/// It must be an array, or `repr(C)`, and consist of integers.
pub unsafe trait Plain {}

// SAFETY: it is an array of integers.
unsafe impl<const N: usize> Plain for [u64; N] {}

/// Returns the value with these bytes, as they lie in the memory of this machine; `None` if their number is
/// not its size.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the bytes are as many as the value has, and each of its fields takes any.
    (bytes.len() == size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the bytes of a value.
///
/// # Safety
/// The value must have no bytes between its fields or behind them.
pub unsafe fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: the bytes are those of the value, and all are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
