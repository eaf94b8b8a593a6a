//! The parameters of Rapid, as text.

use std::fmt;

use headway_arithmetic::rapid::{self, Config, Preset, Thresholds, flags};
use headway_learned::{Model, NoAnswer, Scratch};

use super::super::parts::{Parts, optional_parts};
use headway_units::{Bytes, Duration, Rate};

/// The parameters of Rapid; text such as `tau=10ms,kd=1/3,gamma=3,n=4x16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RapidParameters {
    /// The sender as published, without our repairs.
    published: bool,
    /// Time constant of the increase.
    tau: Duration,
    /// Share of the excess that an update takes away.
    kd: Ratio,
    /// Estimates per update of the rate.
    gamma: u32,
    /// Rates in a p-stream, and packets at each.
    shape: (u32, u32),
    /// By how much the highest rate of a p-stream exceeds the lowest; `None` for a ratio of
    /// 1.15 from rate to rate.
    range: Option<Ratio>,
    /// The smallest excess of a receive gap over the send gap that counts, as a share of the send gap.
    margin: Ratio,
    /// Spikes and dips of the three kinds of passes; `None` as published, scaled with the time of a packet.
    passes: [Option<(Duration, Duration)>; 3],
    /// Gaps in the moving average; `None` for as many as there are packets at a rate.
    window: Option<u32>,
    /// The receiver's interrupt delay; zero if it has none.
    coalescing: Duration,
    /// Switches of `headway_arithmetic::rapid::flags`.
    flags: u32,
    /// Of [`REPAIRS`] the ones to leave out.
    without: u32,
}

/// A number as it was written: `1/3` or `0.25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    above: u32,
    below: u32,
}

impl Ratio {
    const fn new(above: u32, below: u32) -> Ratio {
        Ratio { above, below }
    }

    fn value(self) -> f64 {
        f64::from(self.above) / f64::from(self.below)
    }

    /// Returns the number in units of 2^-`bits`, rounded.
    fn fixed(self, bits: u32) -> u32 {
        (self.value() * f64::from(1_u32 << bits)).round() as u32
    }

    /// Reads `1/3`, `0.25`, `1` or `2%`.
    fn read(text: &str) -> Option<Ratio> {
        if let Some((above, below)) = text.split_once('/') {
            let ratio = Ratio::new(above.parse().ok()?, below.parse().ok()?);
            return (ratio.below > 0).then_some(ratio);
        }
        let (text, percent) = text.strip_suffix('%').map_or((text, 1), |text| (text, 100));
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let below = 10_u32.checked_pow(u32::try_from(part.len()).ok()?)?.checked_mul(percent)?;
        Some(Ratio::new(format!("{whole}{part}").parse().ok()?, below))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.below {
            1 => write!(f, "{}", self.above),
            _ => write!(f, "{}/{}", self.above, self.below),
        }
    }
}

/// The rate of a p-stream that a model is asked about before any is sent.
const EXAMPLE_RATE: Rate = Rate::from_bps(1_000_000_000);

/// The words that set a switch, with it.
const SWITCHES: [(&str, u32); 4] = [
    ("start=literal", flags::LITERAL_START),
    ("start=line", flags::LINE_START),
    ("length=total", flags::TOTAL_LENGTH),
    ("denoise=window", flags::WINDOW_ONLY),
];
/// What the published sender lacks.
const REPAIRS: u32 =
    flags::NO_CENSORED_FALL | flags::WATCH_QUEUE | flags::REOPEN | flags::RELATIVE | flags::SLOW_FALL;
/// The words that leave out a repair, with it.
const LEFT_OUT: [(&str, u32); 5] = [
    ("censored=fall", flags::NO_CENSORED_FALL),
    ("queue=ignore", flags::WATCH_QUEUE),
    ("open=ignore", flags::REOPEN),
    ("spikes=all", flags::RELATIVE),
    ("fall=fast", flags::SLOW_FALL),
];
/// The names of the passes with their thresholds.
const PASSES: [&str; 3] = ["coarse", "medium", "fine"];
/// Largest interrupt delay; real NICs allow microseconds up to a few milliseconds.
const MOST_COALESCING: Duration = Duration::from_ms(1_000);
/// Largest tau (arithmetic's limit is 34 s).
const MOST_TAU: Duration = Duration::from_ms(30_000);
/// Most estimates per update.
const MOST_GAMMA: u32 = 64;
/// Largest range of rates: a factor of two from rate to rate.
const MOST_RANGE: f64 = 8.0;
/// Largest threshold of a pass.
const MOST_THRESHOLD: Duration = Duration::from_ms(1_000);

impl Default for RapidParameters {
    fn default() -> RapidParameters {
        RapidParameters {
            published: false,
            tau: Duration::from_ms(50),
            kd: Ratio::new(1, 4),
            gamma: 3,
            shape: (4, 16),
            range: None,
            margin: Ratio::new(2, 100),
            passes: [None; 3],
            window: None,
            coalescing: Duration::from_us(120),
            flags: 0,
            without: 0,
        }
    }
}

impl RapidParameters {
    /// The rate of a sender's link where that is unknown: the testbed's (rapid 4.0).
    pub const USUAL_LINE: Rate = Rate::from_bps(10_000_000_000);

    /// The configuration of the arithmetic for a sender with a link of rate `line`, packets of `wire` bytes
    /// on it, and stamps in units of `unit`.
    pub fn config(&self, line: Rate, wire: u32, unit: Duration) -> Config {
        let mut config = Config::new(Preset::Default, line.bps(), wire, line.bps());
        config.tau = self.tau.ns().unsigned_abs();
        config.kd = self.kd.fixed(16);
        config.gamma = self.gamma;
        (config.shape.rates, config.shape.packets) = self.shape;
        if let Some(range) = self.range {
            config.shape = rapid::Shape::with_range(self.shape.0, self.shape.1, range.value());
        }
        config.window = self.window.unwrap_or(self.shape.1);
        config.excursion.relative = self.margin.fixed(20);
        config.coalescing = self.coalescing.ns().unsigned_abs();
        config.unit = u32::try_from(unit.ns()).unwrap_or(u32::MAX);
        config.flags = self.flags;
        if !self.published {
            config.flags |= REPAIRS & !self.without;
        }
        let passes = [&mut config.coarse, &mut config.medium, &mut config.fine];
        for (thresholds, set) in passes.into_iter().zip(self.passes) {
            if let Some((up, down)) = set {
                let ns = |time: Duration| u32::try_from(time.ns()).unwrap_or(u32::MAX);
                *thresholds = Thresholds { up: ns(up), down: ns(down) };
            }
        }
        config.bounded()
    }

    /// Checks whether a trained model can estimate from p-streams of these parameters, with
    /// packets of `wire` bytes.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check_model(&self, model: &Model, wire: u32) -> Result<(), NoAnswer> {
        let config = self.config(EXAMPLE_RATE, wire, Duration::from_us(1));
        let stream = rapid::Stream::new(config.shape, wire, EXAMPLE_RATE.bps());
        let gaps: Vec<Duration> =
            (0..config.shape.len()).map(|index| Duration::from_ns(stream.gap(index) as i64)).collect();
        let gaps = headway_learned::stream::Gaps { send: &gaps, receive: &gaps };
        let path = (Bytes::new(wire.into()), None);
        model.without_domain().rate(gaps, path, &mut Scratch::default()).map(drop)
    }

    /// Whether a p-stream with lost packets yields an estimate.
    pub fn bridges_holes(&self) -> bool {
        !self.published
    }
}

impl Parts for RapidParameters {
    const KEYS: &'static [(&'static str, &'static str)] = &[
        ("tau", "a time above 0 and up to 30 s, such as `10ms`"),
        ("kd", "a share above 0 and up to 1, such as `1/3`"),
        ("gamma", "a number from 1 to 64"),
        ("n", "1 to 8 rates and at most 192 packets in all, such as `4x16`"),
        ("range", "a share up to 8, such as `50%`"),
        ("margin", "a share up to 1, such as `2%`"),
        ("window", "a number from 1 to 192"),
        ("coalescing", "a time up to 1 s, such as `120us`"),
        ("coarse", "two times up to 1 s, such as `20us/10us`"),
        ("medium", "two times up to 1 s, such as `5us/4us`"),
        ("fine", "two times up to 1 s, such as `2us/1us`"),
    ];

    fn set(&mut self, part: &str) -> Option<()> {
        if let Some((_, flag)) = SWITCHES.iter().find(|(word, _)| *word == part) {
            self.flags |= flag;
            return Some(());
        }
        if let Some((_, flag)) = LEFT_OUT.iter().find(|(word, _)| *word == part) {
            self.without |= flag;
            return Some(());
        }
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key {
            "published" if part == key => self.published = true,
            "tau" => self.tau = time(value, MOST_TAU).filter(|tau| *tau > Duration::ZERO)?,
            "kd" => self.kd = Ratio::read(value).filter(|kd| kd.above > 0 && kd.value() <= 1.0)?,
            "gamma" => self.gamma = value.parse().ok().filter(|count| (1..=MOST_GAMMA).contains(count))?,
            "n" => self.shape = shape(value)?,
            "range" => {
                let range = Ratio::read(value).filter(|range| range.value() <= MOST_RANGE)?;
                self.range = Some(range);
            }
            "margin" => self.margin = Ratio::read(value).filter(|margin| margin.value() <= 1.0)?,
            "window" => {
                let window = value.parse().ok();
                self.window = Some(window.filter(|count| (1..=rapid::MAX_PACKETS as u32).contains(count))?);
            }
            "coalescing" => self.coalescing = time(value, MOST_COALESCING)?,
            _ => {
                let pass = PASSES.iter().position(|name| *name == key)?;
                let (up, down) = value.split_once('/')?;
                self.passes[pass] = Some((time(up, MOST_THRESHOLD)?, time(down, MOST_THRESHOLD)?));
            }
        }
        Some(())
    }

    fn known() -> String {
        let keys: Vec<&str> = Self::KEYS.iter().map(|(name, _)| *name).collect();
        let words: Vec<&str> = SWITCHES.iter().chain(&LEFT_OUT).map(|(word, _)| *word).collect();
        format!("`published`, {} with a value, {}", keys.join(", "), words.join(", "))
    }
}

/// Reads a time from zero to `most`.
fn time(text: &str, most: Duration) -> Option<Duration> {
    text.parse().ok().filter(|time| (Duration::ZERO..=most).contains(time))
}

/// Reads the number of rates and of packets at each, such as `4x16`.
fn shape(text: &str) -> Option<(u32, u32)> {
    let (rates, packets) = text.split_once('x')?;
    let (rates, packets): (u32, u32) = (rates.parse().ok()?, packets.parse().ok()?);
    let fits = (1..=rapid::MAX_RATES as u32).contains(&rates)
        && (1..=rapid::MAX_PACKETS as u32 / rates).contains(&packets);
    fits.then_some((rates, packets))
}

impl fmt::Display for RapidParameters {
    /// Prints what differs from the default, so nothing for the default itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = RapidParameters::default();
        let mut parts = Vec::new();
        let mut part = |differs: bool, text: String| {
            if differs {
                parts.push(text);
            }
        };
        part(self.published, "published".to_owned());
        part(self.tau != usual.tau, format!("tau={}", compact(self.tau)));
        part(self.kd != usual.kd, format!("kd={}", self.kd));
        part(self.gamma != usual.gamma, format!("gamma={}", self.gamma));
        part(self.shape != usual.shape, format!("n={}x{}", self.shape.0, self.shape.1));
        if let Some(range) = self.range {
            part(true, format!("range={range}"));
        }
        part(self.margin != usual.margin, format!("margin={}", self.margin));
        for (name, pass) in PASSES.iter().zip(self.passes) {
            if let Some((up, down)) = pass {
                part(true, format!("{name}={}/{}", compact(up), compact(down)));
            }
        }
        if let Some(window) = self.window {
            part(true, format!("window={window}"));
        }
        part(self.coalescing != usual.coalescing, format!("coalescing={}", compact(self.coalescing)));
        for (word, flag) in SWITCHES {
            part(self.flags & flag != 0, word.to_owned());
        }
        for (word, flag) in LEFT_OUT {
            part(self.without & flag != 0, word.to_owned());
        }
        f.write_str(&parts.join(","))
    }
}

/// A time in the largest unit of which it is a multiple, without a space.
fn compact(time: Duration) -> String {
    match time.ns() {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

optional_parts!(
    RapidParameters,
    "tau=10ms,kd=1/3,gamma=3,n=4x16",
    fn dilated(mut self, factor: u32) -> RapidParameters {
        let longer = |time: Duration| time * i64::from(factor);
        self.tau = longer(self.tau);
        self.coalescing = longer(self.coalescing);
        self.passes = self.passes.map(|pass| pass.map(|(up, down)| (longer(up), longer(down))));
        self
    }
);
