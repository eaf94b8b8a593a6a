//! Runs an edge, and says what happens.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use anyhow::Result;
use headway_edge::Policy;
use headway_edge::snapshot::DecisionState;
use headway_net::ConnectOptions;
use headway_program::out::escape_controls;
use headway_program::{out, print_error, print_line, token};
use headway_router::edge::{self, Ends, Event, Found, Options};
use serde_json::{Map, Value, json};
use signal_hook::consts::SIGHUP;

use super::flows::{self, lines};
use super::{EdgeArgs, second};
use headway_program::line_writer::LineWriter;
use headway_program::screen::Screen;
use headway_program::service::{signals_but, start_log};

/// Most seconds of JSON that wait for a reader, and less where they are long: the newest says all.
const LINES: usize = 4;
/// Most decisions of a second that a person is shown.
const SHOWN: usize = 20;

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When interfaces, policy or history cannot be used, or the kernel refuses.
pub(super) fn run(args: &EdgeArgs, json: bool) -> Result<()> {
    start_log("warn")?;
    let options = options(args)?;
    let screen = Screen::new(args.flows && !json);
    let mut output =
        Output { is_json: json, lines: None, screen, shows_flows: args.flows, options: &options };
    let result = edge::run(&options, &ends(args.policy.is_some())?, &mut |event| output.say(event));
    output.screen.clear();
    let counted = result?;
    let Some(mut lines) = output.lines else {
        let ends = if args.dry_run { "Nothing was changed." } else { "Everything passes as it is again." };
        print_line!("{ends} {}", flows::describe(&counted));
        return out::check();
    };
    write_line(&mut lines, &json!({ "event": "off", "counters": counted }));
    lines.finish();
    if lines.lost() > 0 {
        tracing::warn!(
            "{} lines were not written, because nobody read them or there was no room",
            lines.lost()
        );
    }
    Ok(())
}

/// Reads what arguments name while files of root can be read.
fn options(args: &EdgeArgs) -> Result<Options> {
    let page_token =
        args.page_token_file.as_deref().map(|file| token::in_plain_text(file, None)).transpose()?;
    let token = match args.probe[..] {
        [] => None,
        _ => token::read(args.probe_token_file.as_deref())?,
    };
    let peer_key = args.peer_key_file.as_deref().map(|file| token::read(Some(file))).transpose()?.flatten();
    let probe = args.probe.iter().map(|host| ConnectOptions {
        port: host.port.unwrap_or(headway_net::DEFAULT_PORT),
        token: token.clone(),
        ..ConnectOptions::new(&host.name)
    });
    Ok(Options {
        lan: args.lan.clone(),
        wan: args.wan.clone(),
        rates: args.rate.map(|rate| [rate, args.up.unwrap_or(rate)]),
        policy: args.policy.clone(),
        dry_run: args.dry_run,
        page: args.page.map(|address| (address, page_token.as_deref().map(headway_web::Token::new))),
        history: args.history.clone(),
        signals: args.signals.clone(),
        probe: probe.collect(),
        probe_budget: args.probe_budget,
        peer: args.peer.zip(peer_key),
        connections: args.connections,
    })
}

/// Has signals end the edge; with a policy to read again, SIGHUP does not.
fn ends(reloads: bool) -> Result<Ends> {
    let reload = reloads.then(|| {
        let (read, write) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGHUP, write)?;
        Ok::<_, std::io::Error>(read)
    });
    Ends::new(signals_but(reloads.then_some(SIGHUP))?, reload.transpose()?)
}

/// Writes a line, or loses it where nobody reads; [`LineWriter`] never fails.
fn write_line(lines: &mut LineWriter, value: &Value) {
    let _ = lines.write_all(format!("{value}\n").as_bytes());
}

/// Where the command says what happens.
struct Output<'a> {
    is_json: bool,
    /// With JSON, from the beginning on. A reader that does not read must not keep the edge from
    /// saying that it lives.
    lines: Option<LineWriter>,
    screen: Screen,
    shows_flows: bool,
    options: &'a Options,
}

impl Output<'_> {
    fn say(&mut self, event: Event<'_>) -> Result<()> {
        if self.is_json && self.lines.is_none() {
            self.lines = Some(LineWriter::with_queue(std::io::stdout(), LINES)?);
        }
        if let Some(lines) = &mut self.lines {
            match event {
                Event::On(policy, page) => {
                    let mut on = on(self.options, policy);
                    if let Some(address) = page {
                        on["page"] = json!(address);
                    }
                    write_line(lines, &on);
                }
                // A slow reader loses all of a second or nothing.
                Event::Second(found) => lines.write_all_or_none(|| second::lines(*found, self.shows_flows)),
                Event::Policy(policy, unchanged) => {
                    let said = json!({ "event": "policy", "shares": shares(policy), "unchanged": unchanged });
                    write_line(lines, &said);
                }
                Event::Mistake(mistake) => {
                    write_line(lines, &json!({ "event": "policy", "mistake": mistake }));
                }
            }
            return Ok(());
        }
        match event {
            Event::On(policy, page) => {
                report_on(self.options, policy);
                if let Some(address) = page {
                    print_line!("The page is http://{address}/.");
                }
            }
            Event::Second(found) => return self.show(&found),
            Event::Policy(policy, unchanged) => {
                self.screen.clear();
                print_line!("The policy has changed:");
                say_classes(policy);
                unchanged.iter().for_each(|sentence| print_line!("{sentence}"));
            }
            Event::Mistake(mistake) => {
                self.screen.clear();
                print_error!("The policy stays as it was: {mistake}");
            }
        }
        Ok(())
    }

    /// Shows what was found in a second.
    fn show(&mut self, found: &Found) -> Result<()> {
        if self.shows_flows {
            let flows = (&found.snapshot.flows[..], found.judged.len());
            self.screen.show(&lines(flows, &found.counted, self.screen.size()));
        } else if self.options.dry_run {
            say_decisions(&found.snapshot.decisions[..found.new_kinds]);
        }
        out::check()
    }
}

/// Says what would be done with flows, one line for each.
fn say_decisions(decisions: &[DecisionState]) {
    for DecisionState { client, server, behaviour, sentence, .. } in decisions.iter().take(SHOWN) {
        print_line!("{}", escape_controls(&format!("{client} to {server}, {behaviour}: it {sentence}")));
    }
    if let more @ 1.. = decisions.len().saturating_sub(SHOWN) {
        print_line!("... and {more} more decisions in this second; --json has them all");
    }
}

fn shares(policy: &Policy) -> Map<String, Value> {
    policy.class.iter().map(|class| (class.name.clone(), class.share.into())).collect()
}

/// The event that it is on.
fn on(options: &Options, policy: &Policy) -> Value {
    let [down, up] = [0, 1].map(|side| options.rates.map(|rates| rates[side].bps()));
    json!({
        "event": "on",
        "lan": options.lan,
        "wan": options.wan,
        "down_bps": down,
        "up_bps": up,
        "dry_run": options.dry_run,
        "shares": shares(policy),
    })
}

fn report_on(options: &Options, policy: &Policy) {
    let does = if options.dry_run { "deciding what it would do" } else { "holding connections" };
    let link = match options.rates {
        Some([down, up]) => format!("{down} down, {up} up"),
        None => "the rate is to be found".to_owned(),
    };
    print_line!("{does} between {} and {}: {link}", options.lan, options.wan);
    say_classes(policy);
    match options.dry_run {
        true => print_line!("Nothing is changed: all connections pass as they are. Ctrl-C ends it."),
        false => {
            print_line!(
                "New connections are held; those that were there before pass as they are. Ctrl-C ends it."
            );
        }
    }
}

fn say_classes(policy: &Policy) {
    for class in &policy.class {
        let ceiling = class.ceiling.map_or(String::new(), |ceiling| format!(", {ceiling} at most"));
        let more = if class.priority { ", never limited".to_owned() } else { ceiling };
        print_line!("  {:<12} {:.0} %{more}", class.name, class.share * 100.0);
    }
}
