//! Random numbers: one independent generator for every component, all derived from the seed of the run.

use rand::SeedableRng;
pub use rand_pcg::Pcg64Mcg;

/// The generator of component `id` of kind `kind` in a run with this seed.
///
/// Components draw from their own generators, so adding one does not change what the others see.
pub fn generator(seed: u64, kind: &str, id: u64) -> Pcg64Mcg {
    // FNV-1a over kind, id and seed, then SplitMix64 inside `seed_from_u64`.
    let bytes = kind.bytes().chain(id.to_le_bytes()).chain(seed.to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Pcg64Mcg::seed_from_u64(hash)
}
