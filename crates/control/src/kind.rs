//! The table of controllers: what follows from its lines.

use std::fmt;
use std::str::FromStr;

use super::{Controller, Kind, Start};

/// A line of the table of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name in scenarios and on command lines, such as `cubic`.
    pub name: &'static str,
    /// What follows the name.
    pub argument: Argument,
    /// One line for help texts.
    pub about: &'static str,
    /// Whether Linux has this controller, by itself or as a module of ours.
    pub on_linux: bool,
}

/// What follows the name of a controller and a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// Parameters that have defaults; an example such as `c=1/8,delta=2`.
    Optional(&'static str),
    /// Parameters that must be given, as a placeholder and an example: `SEGMENTS`, `100`.
    Required(&'static str, &'static str),
}

/// The parameters of a controller, which its own file parses and prints: the text after the colon of
/// `fixed-window:100`.
///
/// Parameters that equal the default print as an empty text.
pub trait Parameters: FromStr + fmt::Display {
    /// How error messages and help show them.
    const ARGUMENT: Argument;

    /// The parameters of a controller that is named without any; `None` if they are required.
    fn by_default() -> Option<Self> {
        None
    }

    /// What is wrong with a text that does not parse, as the end of a sentence; `None` if only
    /// an example can help.
    fn mistake(_text: &str) -> Option<String> {
        None
    }

    /// The parameters in a network whose times are `factor` times as long and whose rates are as much lower.
    fn dilated(self, _factor: u32) -> Self {
        self
    }
}

impl Entry {
    /// The name with a placeholder for what must follow it, such as `fixed-window:SEGMENTS`.
    pub fn form(&self) -> String {
        match self.argument {
            Argument::None | Argument::Optional(_) => self.name.to_owned(),
            Argument::Required(placeholder, _) => format!("{}:{placeholder}", self.name),
        }
    }

    /// A text that names this controller, with parameters if it takes any, such as `fixed-window:100`.
    pub fn example(&self) -> String {
        match self.argument {
            Argument::None => self.name.to_owned(),
            Argument::Optional(example) | Argument::Required(_, example) => {
                format!("{}:{example}", self.name)
            }
        }
    }
}

/// Why a text names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseKindError {
    /// There is no such controller, but one with a similar name.
    #[error("there is no controller `{text}`; did you mean `{nearest}`?")]
    Similar {
        /// The whole text.
        text: String,
        /// The name of the other controller.
        nearest: &'static str,
    },
    /// There is no such controller, or its parameters are wrong.
    #[error("`{0}` is not {list}", list = alternatives())]
    Unknown(String),
    /// The controller exists, and one of its parameters is wrong.
    #[error("`{text}`: {reason}")]
    Parameter {
        /// The whole text.
        text: String,
        /// What is wrong with which parameter.
        reason: String,
    },
}

/// All forms as a sentence has them. Neighbours that take the same optional parameters share
/// one example of these.
fn alternatives() -> String {
    let mut text = String::new();
    for (index, entry) in Kind::TABLE.iter().enumerate() {
        let left = Kind::TABLE.len() - index - 1;
        text += &format!("`{}`", entry.form());
        let next = Kind::TABLE.get(index + 1).map(|next| next.argument);
        if let Argument::Optional(example) = entry.argument
            && next != Some(entry.argument)
        {
            text += &format!(" (with `:{example}`)");
        }
        text += match left {
            0 => "",
            1 => " or ",
            _ => ", ",
        };
    }
    text
}

/// Pads and prints `name`, followed by its parameters unless they are empty.
pub(super) fn print(f: &mut fmt::Formatter<'_>, name: &str, parameters: &str) -> fmt::Result {
    if parameters.is_empty() { f.pad(name) } else { f.pad(&format!("{name}:{parameters}")) }
}

/// Reads the parameters behind a name.
pub(super) fn read<P: Parameters>(text: Option<&str>) -> Option<P> {
    text.map_or_else(P::by_default, |text| text.parse().ok())
}

/// The error for a text whose name, in lower case, is not one of a controller, or not with this argument.
fn unknown(text: &str, name: &str) -> ParseKindError {
    let names = || Kind::TABLE.iter().map(|entry| entry.name);
    let similar =
        if names().any(|known| known == name) { None } else { headway_units::nearest(name, names()) };
    match similar {
        Some(nearest) => ParseKindError::Similar { text: text.to_owned(), nearest },
        None => ParseKindError::Unknown(text.to_owned()),
    }
}

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Kind, ParseKindError> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name.trim(), Some(argument.trim())),
            None => (text.trim(), None),
        };
        let name = name.to_ascii_lowercase();
        Kind::with_argument(&name, argument).ok_or_else(|| match Kind::mistake(&name, argument) {
            Some(reason) => ParseKindError::Parameter { text: text.to_owned(), reason },
            None => unknown(text, &name),
        })
    }
}

impl Kind {
    /// Whether the controller [needs a congestion header](super::Needs::header).
    pub fn is_explicit(&self) -> bool {
        self.build(&Start::EXAMPLE).needs().header
    }
}

impl TryFrom<String> for Kind {
    type Error = ParseKindError;

    fn try_from(text: String) -> Result<Kind, ParseKindError> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> String {
        kind.to_string()
    }
}

/// [`Controller::on_ack`] and [`Controller::flight_limit`] in one call.
pub(super) trait LimitAfter: super::Controller {
    fn limit_after(&mut self, ack: &super::Ack) -> u32 {
        self.on_ack(ack);
        self.flight_limit()
    }
}

impl<C: super::Controller + ?Sized> LimitAfter for C {}

/// Makes [`Kind`] and [`AnyController`](super::AnyController) of the table in `lib.rs`.
macro_rules! controllers {
    ($(
        $(#[doc = $about:literal])+
        $name:literal $variant:ident $(($field:ident: $parameters:ty))? => $new:path as $controller:ty, $where:ident
        $(+ $gaps:ident)?;
    )+) => {
        /// A congestion controller by name; text such as `cubic`, `ls-dctcp:c=1/8`, `fixed-window:100` or
        /// `fixed-rate:10 Mb/s`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum Kind {
            $(
                $(#[doc = $about])+
                $variant $(($parameters))?,
            )+
        }

        impl Kind {
            /// All controllers that have a name, in the order in which messages list them.
            pub const TABLE: &[Entry] = &[
                $(
                    Entry {
                        name: $name,
                        argument: controllers!(@argument $($parameters)?),
                        about: concat!($($about),+).trim_ascii(),
                        on_linux: controllers!(@on_linux $where),
                    },
                )+
            ];

            /// Builds the controller of a flow.
            pub(crate) fn build(&self, start: &Start) -> AnyController {
                match *self {
                    $(
                        Kind::$variant $(($field))? => AnyController::$variant($new($($field,)? start).into()),
                    )+
                }
            }

            /// The controller in a network whose times are `factor` times as long and whose
            /// rates are as much lower.
            pub fn dilated(self, factor: u32) -> Kind {
                match self {
                    $(
                        Kind::$variant $(($field))? => controllers!(@dilated $variant, factor $(, $field: $parameters)?),
                    )+
                }
            }

            /// Whether Linux has this controller, by itself or as a module or program of ours; proposals to
            /// compare with are simulated only.
            pub fn is_on_linux(&self) -> bool {
                match self {
                    $(Kind::$variant { .. } => controllers!(@on_linux $where),)+
                }
            }

            /// What is wrong with the parameters of a controller, if it can say so.
            fn mistake(name: &str, argument: Option<&str>) -> Option<String> {
                match name {
                    $($name => controllers!(@mistake argument $(, $parameters)?),)+
                    _ => None,
                }
            }

            fn with_argument(name: &str, argument: Option<&str>) -> Option<Kind> {
                match name {
                    $($name => controllers!(@read argument, $variant $(, $parameters)?),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for Kind {
            /// Prints the text that reads back as the same kind.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Kind::$variant $(($field))? => kind::print(f, $name, controllers!(@text $($field)?)),)+
                }
            }
        }

        /// A controller of any kind. Those of the table are dispatched without a pointer.
        ///
        /// The large ones are boxed, because their state is larger than that of all others together.
        #[derive(Debug)]
        pub enum AnyController {
            $(
                $(#[doc = $about])+
                $variant($controller),
            )+
            /// One that is not in the table.
            Other(Box<dyn Controller + Send>),
        }

        impl AnyController {
            /// Whether the kind has a gap or a flight limit of its own; this never changes.
            #[inline(always)]
            pub fn has_gaps(&self) -> bool {
                match self {
                    $(AnyController::$variant(_) => controllers!(@has_gaps $($gaps)?),)+
                    AnyController::Other(_) => true,
                }
            }

            /// Passes on an ACK and returns the flight limit after it, with a single dispatch.
            pub fn limit_after(&mut self, ack: &Ack) -> u32 {
                use kind::LimitAfter;
                controllers!(@dispatch self, ($($variant)+), limit_after(ack))
            }

            #[inline(never)]
            fn own_gap(&self, next: u64) -> Option<Duration> {
                controllers!(@dispatch self, ($($variant)+), gap(next))
            }

            #[inline(never)]
            fn own_flight_limit(&self) -> u32 {
                controllers!(@dispatch self, ($($variant)+), flight_limit())
            }
        }

        controllers!(@forward ($($variant)+)
            mut {
                on_open(now: Instant, rtt: Duration);
                on_ack(ack: &Ack);
                on_congestion(now: Instant, in_flight: u32, cause: Congestion);
                on_further_losses(window: u32);
                on_delivery(ack: &Ack, delivery: &Delivery);
                on_timeout(now: Instant, in_flight: u32, already_reduced: bool);
                on_undo(window: f64, ssthresh: f64);
                on_idle(now: Instant, idle: Duration, timeout: Duration);
                on_resume(now: Instant);
                schedule(now: Instant, idle: bool) -> Instant;
                on_departure(departure: &Departure);
                header() -> Option<Header>;
            }
            ref {
                metrics() -> Metrics;
                inside() -> Option<Inside>;
                needs() -> Needs;
                memory() -> usize;
            }
        );
    };

    (@argument) => { Argument::None };
    (@argument $parameters:ty) => { <$parameters as Parameters>::ARGUMENT };

    (@on_linux linux) => { true };
    (@on_linux simulated) => { false };

    (@has_gaps) => { false };
    (@has_gaps gaps) => { true };

    (@read $argument:ident, $variant:ident) => { $argument.is_none().then_some(Kind::$variant) };
    (@read $argument:ident, $variant:ident, $parameters:ty) => {
        kind::read::<$parameters>($argument).map(Kind::$variant)
    };

    (@dilated $variant:ident, $factor:ident) => {{
        let _ = $factor;
        Kind::$variant
    }};
    (@dilated $variant:ident, $factor:ident, $field:ident: $parameters:ty) => {
        Kind::$variant(Parameters::dilated($field, $factor))
    };

    (@mistake $argument:ident) => { None };
    (@mistake $argument:ident, $parameters:ty) => { $argument.and_then(<$parameters as Parameters>::mistake) };

    (@text) => { "" };
    (@text $field:ident) => { &$field.to_string() };

    // One method of `AnyController` for each of the trait.
    (@forward $variants:tt
        mut { $($change:ident($($with:ident: $given:ty),*) $(-> $result:ty)?;)+ }
        ref { $($ask:ident($($about:ident: $asked:ty),*) -> $answer:ty;)+ }
    ) => {
        impl Controller for AnyController {
            $(
                #[inline]
                fn $change(&mut self, $($with: $given),*) $(-> $result)? {
                    controllers!(@dispatch self, $variants, $change($($with),*))
                }
            )+
            $(
                #[inline]
                fn $ask(&self, $($about: $asked),*) -> $answer {
                    controllers!(@dispatch self, $variants, $ask($($about),*))
                }
            )+

            // The transport asks for these several times per segment, so kinds without gaps need no call.

            fn flight_limit(&self) -> u32 {
                if self.has_gaps() { self.own_flight_limit() } else { (self.window() as u32).max(1) }
            }

            fn gap(&self, next: u64) -> Option<Duration> {
                if self.has_gaps() { self.own_gap(next) } else { None }
            }
        }
    };

    (@dispatch $any:ident, ($($variant:ident)+), $method:ident $arguments:tt) => {
        match $any {
            $(AnyController::$variant(controller) => controller.$method $arguments,)+
            AnyController::Other(controller) => controller.$method $arguments,
        }
    };
}
pub(super) use controllers;

#[cfg(test)]
mod tests {
    use super::super::testing::{START, ack};
    use super::super::*;

    #[test]
    fn every_line_of_the_table_reads_back_as_it_prints_and_builds() {
        for entry in Kind::TABLE {
            let kind: Kind = entry.example().parse().expect("the example is valid");
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert!(kind.to_string().starts_with(entry.name));
            assert_eq!(kind.is_on_linux(), entry.on_linux);
            let controller = kind.build(&START);
            assert!(controller.flight_limit() >= 1 && controller.window() > 0.0, "{kind}");
            // Without an argument a name is complete unless that is required.
            let bare = entry.name.parse::<Kind>();
            assert_eq!(bare.is_err(), matches!(entry.argument, Argument::Required(..)), "{kind}");
            let about = entry.about;
            assert!(!about.is_empty() && !about.contains('\n') && !about.ends_with('.'), "{about}");
        }
    }

    #[test]
    fn kinds_without_gaps_have_neither_a_gap_nor_a_flight_limit_of_their_own() {
        for entry in Kind::TABLE {
            let kind: Kind = entry.example().parse().expect("the example is valid");
            let mut controller = kind.build(&START);
            let rtt = Some(Duration::from_ms(10));
            for round in 0..8 {
                let now = Instant::ZERO + Duration::from_ms(100 * round);
                let arrived = Ack { now, rtt, smoothed: rtt, una: 1, next: 2, marked: 1, ..ack(1) };
                controller.on_ack(&arrived);
                controller.on_congestion(now, 1, Congestion::Mark);
                for next in 2..4 {
                    assert_eq!(controller.gap(next), controller.own_gap(next), "{kind}");
                }
                assert_eq!(controller.flight_limit(), controller.own_flight_limit(), "{kind}");
            }
            assert!(controller.has_gaps() || controller.window() >= 1.0, "{kind}");
        }
    }

    #[test]
    fn parameters_are_kept_exactly() {
        let kinds = [
            Kind::LsReno(LsParameters::default()),
            Kind::LsDctcp(LsParameters { shift: Some(7), delta: 4, after_cut: true, linear: false }),
            Kind::FixedWindow(FixedWindow::new(100)),
            Kind::FixedRate(FixedRate::new(Rate::from_bps(10_000_000))),
            Kind::FixedRate(FixedRate::new(Rate::from_bps(12_345_678_901))),
            Kind::FixedRate(FixedRate::new(Rate::from_bps(1))),
        ];
        for kind in kinds {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("fixed-rate:10 Mb/s".parse(), Ok(kinds[3]));
        assert_eq!(kinds[3].to_string(), "fixed-rate:10 Mb/s");
    }

    #[test]
    fn the_case_of_a_name_does_not_matter_and_the_nearest_name_is_offered() {
        assert_eq!("BBR".parse(), Ok(Kind::Bbr));
        assert_eq!("Fixed-Window:7".parse(), Ok(Kind::FixedWindow(FixedWindow::new(7))));
        for (text, nearest) in
            [("bbr2", "bbr"), ("Cubci", "cubic"), ("dctpc", "dctcp"), ("ls-dctpc:c=1/8", "ls-dctcp")]
        {
            let error = text.parse::<Kind>().expect_err("no such controller").to_string();
            assert_eq!(error, format!("there is no controller `{text}`; did you mean `{nearest}`?"));
        }
    }

    #[test]
    fn unknown_names_and_missing_arguments_are_refused_with_the_whole_list() {
        for text in [
            "",
            "sprout",
            "reno:1",
            "bbr:2",
            "ls-dctcp:c=3",
            "ls-dctcp:",
            "fixed-window",
            "fixed-window:0",
            "fixed-rate:10",
            "fixed-rate:0",
        ] {
            let error = text.parse::<Kind>().expect_err("names no controller").to_string();
            assert!(error.starts_with(&format!("`{text}` is not `reno`, `cubic`, ")), "{error}");
            // Two controllers with the same optional parameters share their example.
            assert!(error.contains(", `ls-reno`, `ls-dctcp` (with `:c=1/8,delta=2`), "), "{error}");
            assert!(error.contains(", `fixed-window:SEGMENTS`") && error.contains(" or `"), "{error}");
            assert!(
                Kind::TABLE.iter().all(|entry| error.contains(&format!("`{}`", entry.form()))),
                "{error}"
            );
        }
    }

    #[test]
    fn fixed_kinds_ignore_everything() {
        let rate = Rate::from_bps(10_000_000);
        for (kind, pacing) in [
            (Kind::FixedWindow(FixedWindow::new(7)), None),
            (Kind::FixedRate(FixedRate::new(rate)), Some(rate)),
        ] {
            let mut controller = kind.build(&START);
            let before = controller.window();
            controller.on_ack(&ack(3));
            controller.on_congestion(Instant::ZERO, 7, Congestion::Loss);
            controller.on_timeout(Instant::ZERO, 7, false);
            assert_eq!(controller.window(), before);
            assert_eq!(controller.ssthresh(), before);
            assert_eq!(controller.pacing_rate(), pacing);
        }
    }
}
