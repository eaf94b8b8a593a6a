//! `headway cc rapid`.

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use headway_arithmetic::rapid::MAX_RATE;
use headway_control::{Parameters as _, RapidParameters};
use headway_kernel::RapidOptions;
use headway_program::print_error;
use headway_units::{Bytes, Duration, Rate, WIRE_OVERHEAD};

use super::OnArgs;
use super::on::Rapid;

/// The unit of the timestamps that a receiver must have, if they are to be used.
const STAMP_UNIT: Duration = Duration::from_us(1);

/// The shortest gap that the kernel's timer makes for one connection: asked for 15 us it made 30
/// (docs/cc-rapid.md, "How exact its gaps are"; 20 to 50 us is sensible).
const SHORTEST_GAP: Duration = Duration::from_us(30);

/// Rates of lines: slower ones take seconds for a p-stream, faster ones do not fit into the arithmetic.
const LINES: [Rate; 2] = [Rate::from_bps(1_000_000), Rate::from_bps(MAX_RATE)];

fn line(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|reason| format!("{reason}"))?;
    let [lowest, highest] = LINES;
    if (lowest..=highest).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("it must be {lowest} to {highest}"))
    }
}

/// What makes the gaps between segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum GapKind {
    /// The kernel's timers.
    #[default]
    Timer,
    /// PAUSE frames (802.3x, time 0) that fill the line between segments, and that the first switch drops.
    Pause,
}

/// What `headway cc rapid` can be told. The parameters are those of the simulator.
#[derive(Args, Debug)]
#[command(after_help = "\
Any TCP can receive. With `headway cc rapid-receiver` there, the sender knows when segments arrived
even if their ACKs had to wait.

Example:
  headway cc rapid --line \"100 Mb/s\"
  iperf3 -C rapid -c HOST")]
pub(super) struct RapidArgs {
    /// Rate of the narrowest link that you know, at most that of this host: nothing is sent faster, and
    /// thresholds in time scale with it.
    #[arg(long, value_name = "RATE", value_parser = line)]
    line: Rate,
    /// An interface over which connections leave; may be repeated. It takes single segments meanwhile
    /// [default: all Ethernet interfaces that are up].
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// What makes the gaps: `pause` needs interfaces with a line whose rate is known, such as an Ethernet
    /// NIC with one transmit queue and no flow control, or that of a lab with a `line`; Linux 6.6; and
    /// segments leave 5 ms later.
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    gaps: GapKind,
    /// Turn off TSO, GSO, GRO and LRO of the interfaces meanwhile, for hosts that also receive: merged
    /// segments have one ACK.
    #[arg(long)]
    offloads_off: bool,
    /// Largest IP packet on the path, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: u32,
    /// Time constant of the increase [default: 50ms].
    #[arg(long, value_name = "TIME", help_heading = "Parameters")]
    tau: Option<String>,
    /// Share of the excess that an update takes away [default: 1/4].
    #[arg(long, value_name = "SHARE", help_heading = "Parameters")]
    kd: Option<String>,
    /// Estimates per update, 1 to 64 [default: 3].
    #[arg(long, value_name = "NUMBER", help_heading = "Parameters")]
    gamma: Option<String>,
    /// Rates in a p-stream and packets at each, at most 192 packets [default: 4x16].
    #[arg(long, value_name = "RATESxPACKETS", help_heading = "Parameters")]
    n: Option<String>,
    /// By how much the highest rate of a p-stream exceeds the lowest [default: 1.15 from rate to rate].
    #[arg(long, value_name = "SHARE", help_heading = "Parameters")]
    range: Option<String>,
    /// Smallest excess of a receive gap that counts, as a share of the send gap [default: 2%].
    #[arg(long, value_name = "SHARE", help_heading = "Parameters")]
    margin: Option<String>,
    /// Distance of the receiver's interrupts [default: 120us].
    #[arg(long, value_name = "TIME", help_heading = "Parameters")]
    coalescing: Option<String>,
    /// The sender as published, without the repairs of this project.
    #[arg(long, help_heading = "Parameters")]
    published: bool,
    #[command(flatten)]
    pub(super) on: OnArgs,
}

impl RapidArgs {
    /// Returns the parameters as scenarios write them; empty for the default.
    fn text(&self) -> String {
        let keys = [
            ("tau", &self.tau),
            ("kd", &self.kd),
            ("gamma", &self.gamma),
            ("n", &self.n),
            ("range", &self.range),
            ("margin", &self.margin),
            ("coalescing", &self.coalescing),
        ];
        let given = keys.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?)));
        self.published.then(|| "published".to_owned()).into_iter().chain(given).collect::<Vec<_>>().join(",")
    }

    /// Returns how to run it.
    pub(super) fn rapid(&self) -> Result<Rapid<'_>> {
        let (options, described) = self.options()?;
        if let Some(warning) = self.warning() {
            print_error!("headway: {warning}");
        }
        let fills_gaps = self.gaps == GapKind::Pause;
        Ok(Rapid {
            options,
            described,
            interfaces: &self.interface,
            offloads_off: self.offloads_off,
            fills_gaps,
        })
    }

    /// Returns the size of a packet on the wire.
    fn packet(&self) -> Bytes {
        Bytes::new(self.mtu.into()) + WIRE_OVERHEAD
    }

    /// Says so if one connection cannot fill the line.
    fn warning(&self) -> Option<String> {
        let by_timer = self.gaps == GapKind::Timer;
        let highest = Rate::of(self.packet(), SHORTEST_GAP);
        let highest = highest.filter(|highest| by_timer && self.line > *highest)?;
        Some(format!(
            "one connection will not fill {}: the kernel's timer lets single packets of {} bytes leave at {highest} at most",
            self.line, self.mtu
        ))
    }

    /// Returns the options, and how notes describe them.
    fn options(&self) -> Result<(RapidOptions, String)> {
        let text = self.text();
        let parameters = if text.is_empty() {
            RapidParameters::default()
        } else {
            text.parse().map_err(|()| {
                let mistake = RapidParameters::mistake(&text);
                anyhow!("{}", mistake.unwrap_or_else(|| format!("`{text}` are no parameters of Rapid")))
            })?
        };
        let config = parameters.config(self.line, self.packet().get() as u32, STAMP_UNIT);
        let gaps = if self.gaps == GapKind::Pause { "gaps by PAUSE frames" } else { "" };
        let described = [format!("line {}", self.line), gaps.to_owned(), parameters.to_string()];
        let described: Vec<String> = described.into_iter().filter(|part| !part.is_empty()).collect();
        Ok((RapidOptions { config, bridges_holes: parameters.bridges_holes() }, described.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        rapid: RapidArgs,
    }

    fn options(arguments: &str) -> Result<(RapidOptions, String)> {
        let arguments = ["rapid", "--line", "100 Mb/s"].into_iter().chain(arguments.split_whitespace());
        Whole::try_parse_from(arguments).expect("arguments").rapid.options()
    }

    #[test]
    fn flags_are_the_parameters_of_scenarios() {
        let (options, text) = options("--tau 10ms --kd 1/3 --n 4x12").expect("options");
        assert_eq!((options.config.tau, options.config.shape.packets), (10_000_000, 12));
        assert_eq!(options.config.packet, 1538);
        assert_eq!(text, "line 100 Mb/s, tau=10ms,kd=1/3,n=4x12");
        assert!(options.bridges_holes);
    }

    #[test]
    fn a_line_that_one_connection_cannot_fill_is_warned_about() {
        let warning = |line: &str, mtu: &str| {
            let arguments = ["rapid", "--line", line, "--mtu", mtu];
            Whole::try_parse_from(arguments).expect("arguments").rapid.warning()
        };
        assert_eq!(warning("400 Mb/s", "1500"), None);
        assert!(warning("500 Mb/s", "1500").expect("a warning").contains("at 410 Mb/s at most"));
        assert_eq!(warning("2 Gb/s", "9000"), None);
        // Bytes make gaps of any length.
        let filled =
            Whole::try_parse_from(["rapid", "--line", "1 Gb/s", "--gaps", "pause"]).expect("arguments");
        assert_eq!(filled.rapid.warning(), None);
        assert_eq!(filled.rapid.options().expect("options").1, "line 1.00 Gb/s, gaps by PAUSE frames");
    }

    #[test]
    fn mistakes_name_the_flag() {
        let mistake = |arguments| options(arguments).expect_err("a mistake").to_string();
        assert!(mistake("--kd 2").contains("kd"), "{}", mistake("--kd 2"));
        assert!(mistake("--n 9x100").contains("`n`"), "{}", mistake("--n 9x100"));
        for rate in ["0", "999 kb/s", "600 Gb/s", "fast"] {
            let refused = Whole::try_parse_from(["rapid", "--line", rate]).map(drop).expect_err(rate);
            assert!(refused.to_string().contains("--line"), "{refused}");
        }
    }
}
