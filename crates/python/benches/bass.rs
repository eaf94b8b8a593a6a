//! BASS over a file of gaps, for `bench/python.py`: `bass FILE GAPS TIMES` prints how long it took, as JSON.
//!
//! The file has all send gaps and then all receive gaps, each an i64 in nanoseconds, in streams of `GAPS`.
//! One loop only denoises; the other one keeps what remains of every stream, as the package does.

use std::hint::black_box;
use std::time::Instant;

use headway_estimate::{Gaps, Settings};
use headway_units::Duration;

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [file, gaps, times] = &arguments[..] else {
        println!("Run by bench/python.py.");
        return;
    };
    let (gaps, times): (usize, usize) = (gaps.parse().expect("a number"), times.parse().expect("a number"));
    let bytes = std::fs::read(file).expect("a file");
    let numbers: Vec<i64> = bytes.as_chunks().0.iter().map(|number| i64::from_ne_bytes(*number)).collect();
    let (send, receive) = numbers.split_at(numbers.len() / 2);
    let took = |keep: bool| -> Vec<f64> {
        let once = |_| {
            let begin = Instant::now();
            black_box(denoise(send, receive, gaps, keep));
            begin.elapsed().as_secs_f64()
        };
        (0..times).map(once).collect()
    };
    println!("{}", serde_json::json!({ "Rust": took(false), "Rust that keeps the gaps": took(true) }));
}

fn denoise(send: &[i64], receive: &[i64], size: usize, keep: bool) -> [Vec<i64>; 2] {
    let settings = Settings::default().denoise;
    let (mut gaps, mut means) = (Gaps::default(), Vec::new());
    let mut kept = [Vec::new(), Vec::new()];
    for (send, receive) in send.chunks(size).zip(receive.chunks(size)) {
        gaps.clear();
        gaps.send.extend(send.iter().copied().map(Duration::from_ns));
        gaps.receive.extend(receive.iter().copied().map(Duration::from_ns));
        let outcome = black_box(settings.apply(&mut gaps, &mut means));
        if keep && outcome.is_ok() {
            kept[0].extend(gaps.send.iter().map(|gap| gap.ns()));
            kept[1].extend(gaps.receive.iter().map(|gap| gap.ns()));
        }
    }
    kept
}
