//! Logarithm, power of two and moving average in fixed point.

/// Fraction bits of the share of marked segments.
pub const FRACTION_BITS: u32 = 20;

unsafe extern "C" {
    safe fn hw_product(a: u64, b: u64, shift: u32) -> u64;
    /// Returns the binary logarithm, rounded down; `x` from 1 to 2^63 - 1 and the result have `bits` fraction
    /// bits, 1 to 30 (ls-aimd 2.7).
    #[link_name = "hw_log2"]
    pub safe fn log2(x: u64, bits: u32) -> i64;
    /// Returns 2^-x within 0.3 %; `x` and the result have 16 fraction bits.
    #[link_name = "hw_exp2_negative"]
    pub safe fn exp2_negative(x: u32) -> u32;
    /// Moves `average` towards `fraction`, 0 to 2^20, with weight 2^-`shift`; the average is kept multiplied by
    /// 2^`shift` (ls-aimd 2.11).
    #[link_name = "dctcp_average"]
    pub safe fn average(average: u32, fraction: u32, shift: u32) -> u32;
    /// Returns `a` `b` / `divisor` rounded to the nearest integer, halves up; the largest number if that
    /// or infinity is larger.
    #[link_name = "hw_scale"]
    pub safe fn scale(a: u64, b: u64, divisor: u64) -> u64;
}

/// Returns `a` `b` / 2^`shift` rounded to the nearest integer, halves up; the largest number if that is
/// larger. `shift` is 1 to 63.
pub fn product(a: u64, b: u64, shift: u32) -> u64 {
    hw_product(a, b, shift.clamp(1, 63))
}
