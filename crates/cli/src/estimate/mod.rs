//! `headway estimate`: runs estimators over recorded streams.

mod print;
mod truth;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use headway_estimate::offline::{Answer, Bench, Denoising, Estimator, Score};
use headway_estimate::stream::{TableStream, Truth, parse_table};
use headway_estimate::{MultiRate, Settings};
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Rate};

use crate::model_file;
use headway_program::{out, print_line};

/// Runs estimators over recorded streams, and scores them where the truth is known.
///
/// For every method: how many streams it answered, the median answer, and with the true available bandwidth
/// (column `free_bps`) quantiles of the relative error over streams whose range of rates covers the truth.
/// Methods for streams of a single rate are scored by the share of wrong verdicts. The null estimator, which
/// answers the average rate of a stream, is the baseline.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER_LONG_HELP.as_str())]
pub(crate) struct EstimateArgs {
    /// File of streams (CSV), such as `headway measure --streams` writes.
    file: PathBuf,
    /// Methods, from the list below; may be repeated [default: all that answer with a rate].
    #[arg(long, value_delimiter = ',', value_parser = str::parse::<Estimator>, value_name = "NAME")]
    method: Vec<Estimator>,
    /// Trained model for the method `learned`.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Denoise streams by BASS before the methods.
    #[arg(long, value_enum, default_value_t = Denoise::None)]
    denoise: Denoise,
    /// Capacity of the narrow link, which scales the thresholds of methods and denoising.
    #[arg(long, default_value = "10 Gb/s", value_name = "RATE")]
    capacity: Rate,
    /// Size of packets on the wire, for files without the column `packet_wire_bytes`.
    #[arg(long, value_name = "SIZE")]
    packet: Option<Bytes>,
    /// Split every stream into parts of this many gaps, such as the 64 of a p-stream, and drop the remainder.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..), value_name = "GAPS")]
    split: Option<u32>,
    /// Capture of the link behind the bottleneck, in the direction of the streams: what was free is the
    /// capacity without what else passed, in place of the column `free_bps`.
    #[arg(long, value_name = "CAPTURE")]
    truth: Option<PathBuf>,
    /// UDP port to which the streams in the capture were sent.
    #[arg(long, value_name = "PORT", default_value_t = headway_net::DEFAULT_PORT, requires = "truth")]
    probe_port: u16,
    /// Also print the answers to every stream.
    #[arg(long)]
    each: bool,
}

/// How streams are denoised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Denoise {
    /// Not at all, except by methods that do so themselves.
    None,
    /// The first pass of BASS, without the events that the ends of the stream cut off.
    OnePass,
    /// The first two passes.
    TwoPasses,
    /// All passes and the final moving average.
    Bass,
}

impl From<Denoise> for Denoising {
    fn from(denoise: Denoise) -> Denoising {
        match denoise {
            Denoise::None => Denoising::None,
            Denoise::OnePass => Denoising::OnePass,
            Denoise::TwoPasses => Denoising::TwoPasses,
            Denoise::Bass => Denoising::Full,
        }
    }
}

/// Columns and methods.
static AFTER_LONG_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let names = |is_multi: bool| {
        let wanted = |one: &Estimator| matches!(one, Estimator::MultiRate(_)) == is_multi;
        Estimator::all().filter(wanted).map(Estimator::name).collect::<Vec<_>>().join(", ")
    };
    format!(
        "\
Columns, in any order; the first line names them, and every other line is a packet:
  stream             number of the stream; its packets are on adjacent lines
  index              position of the packet in its stream, from 0
  sent_ns            when it was sent, on the sender's clock (or: sent)
  received_ns        when it arrived, on the receiver's clock; empty if it was lost (or: received)
  packet_wire_bytes  its size on the wire; otherwise give --packet (or: packet)
  average_bps        average rate of the stream; default from the send times (or: average)
  gap_ns             the gap before the packet as scheduled; prc-mt-dp1 and prc-mt-dp2 need it (or: gap)
  free_bps           the available bandwidth while the stream was sent: the truth (or: free)

Methods that answer with a rate:
  {}
Methods that judge the rate of a stream:
  {}
With --model FILE, a trained model for either:
  learned

Examples:
  headway estimate streams.csv --capacity '100 Mb/s'
  headway estimate streams.csv --method excursion,bass,pathchirp --split 64 --each
  headway estimate streams.csv --truth link.pcap --capacity '100 Mb/s' --split 64
  headway estimate streams.csv --method excursion --denoise bass --json | jq '.methods[0].relative_error'",
        names(true),
        names(false)
    )
});

impl EstimateArgs {
    /// Returns the learned method, as the task of the model makes it.
    fn learned(&self, model: Option<&Model>) -> anyhow::Result<Option<Estimator>> {
        let asked = self.method.iter().any(|one| one.needs_model());
        let Some(model) = model else {
            if asked {
                bail!("--method learned needs --model FILE");
            }
            return Ok(None);
        };
        if !asked && !self.method.is_empty() {
            bail!("--model is for --method learned");
        }
        let task = model.task().name();
        let learned = Estimator::learned(model);
        let learned = learned.with_context(|| {
            format!("--model is a model of TCP samples ({task}); it is for `headway passive --model`")
        })?;
        Ok(Some(learned))
    }

    /// Returns the methods; the null estimator is always the last of those that answer with a rate.
    fn estimators(&self, streams: &[TableStream], model: Option<&Model>) -> anyhow::Result<Vec<Estimator>> {
        let null = Estimator::MultiRate(MultiRate::Null);
        let scheduled = streams.iter().all(|stream| !stream.record.intended.is_empty());
        if let Some(one) = self.method.iter().find(|one| one.needs_schedule() && !scheduled) {
            bail!("{} needs the scheduled gaps: the column `gap_ns`", one.name());
        }
        let all = MultiRate::ALL.into_iter().map(Estimator::MultiRate);
        let usable = all.filter(|one| scheduled || !one.needs_schedule());
        let mut chosen: Vec<Estimator> = match (self.method.is_empty(), self.learned(model)?) {
            (true, learned) => usable.chain(learned).collect(),
            (false, learned) => {
                self.method.iter().map(|one| learned.filter(|_| one.needs_model()).unwrap_or(*one)).collect()
            }
        };
        chosen.retain(|one| *one != null);
        let mut known = Vec::new();
        chosen.retain(|one| {
            !known.contains(one) && {
                known.push(*one);
                true
            }
        });
        let rates = |one: &Estimator| matches!(one, Estimator::MultiRate(_));
        let (mut multi, single): (Vec<Estimator>, Vec<Estimator>) = chosen.iter().partition(|one| rates(one));
        if single.is_empty() || !multi.is_empty() {
            multi.push(null);
        }
        Ok([multi, single].concat())
    }
}

/// A method with its answers and their score.
struct Scored {
    estimator: Estimator,
    answers: Vec<Answer>,
    score: Score,
    /// Why the last stream that a trained model refused for it is unlike those that it has seen.
    outside: Option<Outside>,
}

pub(crate) fn run(args: &EstimateArgs, json: bool) -> anyhow::Result<()> {
    let text = headway_input::text(&args.file, headway_input::TRACE)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let mut streams = parse_table(&text, &args.file, args.packet)?;
    if args.capacity == Rate::ZERO {
        bail!("--capacity must be more than 0");
    }
    let truth = args.truth.as_deref().map(|path| truth::read(path, args.probe_port, &streams, args.capacity));
    let truth = truth.transpose()?;
    if let Some(gaps) = args.split {
        streams = split(&streams, gaps as usize);
        if streams.is_empty() {
            bail!("{}: no stream has {gaps} gaps", args.file.display());
        }
    }
    if let Some(truth) = &truth {
        streams.iter_mut().for_each(|stream| stream.free = truth.of(&stream.record));
    }
    let overall = truth.as_ref().and_then(Truth::overall);
    let packet = streams.first().map_or(Bytes::ZERO, |stream| stream.record.packet);
    let settings = Settings::for_link(packet, args.capacity);
    let model = args.model.as_deref().map(model_file::read).transpose()?;
    let mut scored = Vec::new();
    for estimator in args.estimators(&streams, model.as_deref())? {
        let mut bench = Bench::new(settings, args.denoise.into());
        if let Some(model) = &model {
            bench = bench.with_model(Arc::clone(model));
        }
        let mut outside = None;
        let answer = |stream: &TableStream| {
            let answer = bench.answer(estimator, &stream.record);
            outside = bench.outside().or(outside);
            answer
        };
        let answers: Vec<Answer> = streams.iter().map(answer).collect();
        let score = Score::new(estimator, &streams, &answers);
        scored.push(Scored { estimator, answers, score, outside });
    }
    if json {
        out::document(&serde_json::to_string_pretty(&print::value(&streams, &scored, overall))?);
    } else {
        print_line!("{}", print::text(&streams, &scored, overall, args.each));
    }
    Ok(())
}

/// Splits streams into parts of `gaps` gaps.
fn split(streams: &[TableStream], gaps: usize) -> Vec<TableStream> {
    let parts = |stream: &TableStream| {
        let free = stream.free;
        stream.record.split(gaps).map(move |record| TableStream { record, free }).collect::<Vec<_>>()
    };
    streams.iter().flat_map(parts).collect()
}
