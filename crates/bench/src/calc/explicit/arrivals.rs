//! Crowds of flows on the command line: `--arrivals laplace:peak=20s,b=1s --flows 5000`.

use clap::Args;
use headway_formulas::explicit::{Arrivals, Crowd, MAX_SHAPE};
use headway_units::Duration;

use super::super::time;
use super::number;

/// The forms, for error messages.
const FORMS: &str = "`laplace:peak=20s,b=1s`, `normal:peak=10s,sigma=2s` or `erlang:k=4,lambda=1`";
/// Longest time in a distribution; sums of a few hundred of them are far from overflowing.
const LONGEST: Duration = Duration::from_ms(1_000_000_000);

/// A crowd of flows.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct CrowdOption {
    /// When the flows of a crowd arrive: `laplace:peak=20s,b=1s`, `normal:peak=10s,sigma=2s`, or
    /// `erlang:k=4,lambda=1` (lambda per second).
    #[arg(long, value_parser = arrivals)]
    arrivals: Option<Arrivals>,
    /// Flows of the crowd per flow that was there before.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    flows: u32,
}

impl CrowdOption {
    /// Returns the crowd, if there is one.
    pub(super) fn crowd(&self) -> Option<Crowd> {
        self.arrivals.map(|arrivals| Crowd { arrivals, size: f64::from(self.flows) })
    }
}

fn arrivals(text: &str) -> Result<Arrivals, String> {
    let (name, values) = text.split_once(':').unwrap_or((text, ""));
    match name.trim() {
        "laplace" => {
            let [peak, scale] = parts(values, ["peak", "b"])?;
            Ok(Arrivals::Laplace { peak: span("peak", peak)?, scale: span("b", scale)? })
        }
        "normal" => {
            let [peak, deviation] = parts(values, ["peak", "sigma"])?;
            Ok(Arrivals::Normal { peak: span("peak", peak)?, deviation: span("sigma", deviation)? })
        }
        "erlang" => {
            let [shape, lambda] = parts(values, ["k", "lambda"])?;
            let shape = shape.parse().ok().filter(|shape| (1..=MAX_SHAPE).contains(shape));
            let shape = shape.ok_or_else(|| format!("k must be 1 to {MAX_SHAPE}"))?;
            let lambda = number(lambda, 1e-6..=1e6).map_err(|error| format!("lambda: {error}"))?;
            Ok(Arrivals::Erlang { shape, mean: Duration::from_secs_f64(1.0 / lambda) })
        }
        _ => Err(format!("it must be like {FORMS}")),
    }
}

/// Returns the values of the keys in `text`, each of which it must contain once, and no others.
fn parts<'a, const N: usize>(text: &'a str, keys: [&str; N]) -> Result<[&'a str; N], String> {
    let mut found = [None; N];
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("it must be like {FORMS}"))?;
        let place = keys.iter().position(|known| *known == key.trim());
        let place = place.ok_or_else(|| format!("there is no `{}` in {FORMS}", key.trim()))?;
        if found[place].replace(value.trim()).is_some() {
            return Err(format!("`{}` is there twice", key.trim()));
        }
    }
    let mut values = [""; N];
    for ((value, found), key) in values.iter_mut().zip(found).zip(keys) {
        *value = found.ok_or_else(|| format!("`{key}` is missing, as in {FORMS}"))?;
    }
    Ok(values)
}

fn span(key: &str, text: &str) -> Result<Duration, String> {
    let span = time(text).map_err(|error| format!("{key}: {error}"))?;
    if span <= LONGEST { Ok(span) } else { Err(format!("{key}: it must be at most 1000000 s")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_a_name_and_values() {
        let (peak, scale) = (Duration::from_ms(20_000), Duration::from_ms(1_500));
        assert_eq!(arrivals("laplace:peak=20s,b=1.5s"), Ok(Arrivals::Laplace { peak, scale }));
        assert_eq!(
            arrivals("normal: sigma=1500 ms, peak=20 s"),
            Ok(Arrivals::Normal { peak, deviation: scale })
        );
        let mean = Duration::from_ms(500);
        assert_eq!(arrivals("erlang:k=6,lambda=2"), Ok(Arrivals::Erlang { shape: 6, mean }));
    }

    #[test]
    fn wrong_arrivals_are_refused_with_the_reason() {
        let wrong = [
            ("", "it must be like"),
            ("cauchy:peak=1s", "it must be like"),
            ("laplace", "it must be like"),
            ("laplace:peak=20s", "`b` is missing"),
            ("laplace:peak=20s,b=0s", "b: it must be above zero"),
            ("laplace:peak=20s,b=1s,b=2s", "`b` is there twice"),
            ("laplace:peak=20s,sigma=1s", "no `sigma`"),
            ("normal:peak=10000000s,sigma=1s", "peak: it must be at most"),
            ("erlang:k=0,lambda=1", "k must be 1 to 100"),
            ("erlang:k=2,lambda=0", "lambda: it must be 0.000001 to 1000000"),
        ];
        for (text, reason) in wrong {
            let error = arrivals(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
