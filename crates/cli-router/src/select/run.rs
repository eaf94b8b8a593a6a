//! Chooses, and says what happens.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use headway_program::build::stamped;
use headway_program::exit::{Code, Failed};
use headway_program::{out, print_line, token};
use headway_router::select::{self, Event, File, Measured, Options, Timed, Vain};
use headway_select::PathState;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::SelectArgs;
use super::show::table;
use headway_program::connection::{failure_code, net_code, stop_on_signals};
use headway_program::line_writer::LineWriter;
use headway_program::service::start_log;

/// Runs the command.
///
/// # Errors
/// When the file has a mistake, routes cannot be changed, or no path answers.
pub(super) fn run(args: &SelectArgs, json: bool) -> Result<(), Failed> {
    start_log("warn")?;
    let file = File::read(&args.file).map_err(|mistake| Failed::new(Code::Arguments, mistake))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    stop_on_signals(&interrupted)?;
    let options = options(args, &file)?;
    if args.once {
        let measured = select::once(&file, &options, &interrupted)?;
        let interrupted =
            || Failed::new(Code::Interrupted, anyhow!("interrupted; not all paths were measured"));
        return print_order(&measured.ok_or_else(interrupted)?, json);
    }
    let mut output = Output { file: &file, dry_run: args.dry_run, json, lines: None };
    select::run(&file, &options, &interrupted, &mut |event| output.tell(&event))?;
    if let Some(lines) = output.lines {
        lines.finish();
    }
    Ok(())
}

/// Reads what arguments and file name while files of root can be read.
fn options(args: &SelectArgs, file: &File) -> Result<Options> {
    let token = token::read(file.token_file())?;
    let page_token = {
        let named = args.listen_token_file.as_deref();
        named.map(|named| token::in_plain_text(named, file.token_file())).transpose()?
    };
    Ok(Options {
        dry_run: args.dry_run,
        token,
        socket: args.socket.clone(),
        listen: args.listen.map(|address| (address, page_token.as_deref().map(headway_web::Token::new))),
        http_socket: args.http_socket.clone(),
    })
}

/// A path, and why it has no answer.
#[derive(Serialize)]
struct Ordered<'a> {
    #[serde(flatten)]
    path: &'a PathState,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

fn print_order(Measured { snapshot, troubles }: &Measured, json: bool) -> Result<(), Failed> {
    if let Some(Some((why, sentence))) = troubles.first() {
        return Err(Failed::new(code(why), anyhow!("no path gave an answer: {sentence}")));
    }
    let why = |place: usize| troubles[place].as_ref().map(|(_, sentence)| sentence.as_str());
    if json {
        let paths = snapshot.paths.iter().enumerate();
        let paths: Vec<_> = paths.map(|(place, path)| Ordered { path, error: why(place) }).collect();
        let object = json!({
            "type": "select",
            "strategy": snapshot.strategy,
            "chosen": snapshot.chosen,
            "decision": snapshot.decision,
            "paths": paths,
        });
        out::document(&serde_json::to_string(&stamped(object))?);
    } else {
        print_line!("{}", snapshot.decision.sentence);
        print_line!("{}", table(&snapshot.paths).trim_end());
        for (place, path) in snapshot.paths.iter().enumerate() {
            if let Some(why) = why(place) {
                print_line!("{}: {why}", path.name);
            }
        }
    }
    Ok(out::check()?)
}

/// Returns the exit code where no path gives an answer.
fn code(why: &Vain) -> Code {
    match why {
        Vain::Net(error) => net_code(error),
        Vain::Measurement(failure) => failure_code(*failure),
        Vain::Down(_) => Code::Unreachable,
    }
}

/// Where the command says what happens.
struct Output<'a> {
    file: &'a File,
    dry_run: bool,
    json: bool,
    /// From the beginning on.
    lines: Option<LineWriter>,
}

impl Output<'_> {
    fn tell(&mut self, what: &Event<'_>) {
        if self.lines.is_none() {
            self.lines = LineWriter::start(std::io::stdout()).ok();
        }
        let Some(lines) = &mut self.lines else { return };
        let line = match (said(what, self.file, self.dry_run), what) {
            (Some((name, object, _)), _) if self.json => json!(Timed::now(name, object)).to_string(),
            (Some((_, _, text)), _) => out::escape_controls(&text).into_owned(),
            (None, Event::State(state)) if self.json => json!(state).to_string(),
            (None, _) => return,
        };
        let _ = lines.write_all(format!("{line}\n").as_bytes());
    }
}

/// Returns what happened as an object with its name, and as a sentence; none for a state, which
/// people are not told.
fn said(what: &Event<'_>, file: &File, dry_run: bool) -> Option<(&'static str, Value, String)> {
    Some(match what {
        Event::On(address) => {
            let names: Vec<&str> = file.names().collect();
            let strategy = file.settings().strategy.name();
            let mut on = json!({ "strategy": strategy, "paths": names, "dry_run": dry_run });
            let mut text = format!("Chooses among {}. Ctrl-C ends it.", names.join(", "));
            if let Some(address) = address {
                on["listen"] = address.to_string().into();
                text += &format!(" Programs see the paths at http://{address}/v1/paths.");
            }
            ("on", on, text)
        }
        Event::Decision(decision) => ("decision", json!(decision), decision.sentence.clone()),
        Event::Path(name, sentence) => {
            ("path", json!({ "path": name, "sentence": sentence }), (*sentence).to_owned())
        }
        Event::Shares(parts) => {
            let named = || file.names().zip(*parts);
            let told: Vec<String> = named().map(|(name, part)| format!("{name} {part} %")).collect();
            let sentence = format!("new connections are spread: {}", told.join(", "));
            let parts: Map<String, Value> =
                named().map(|(name, part)| (name.to_owned(), (*part).into())).collect();
            ("shares", json!({ "percent": parts, "sentence": sentence }), sentence)
        }
        Event::Multipath(used) => {
            let of = |wanted: bool| file.names().zip(*used).filter(move |(_, used)| **used == wanted);
            let [used, backups] =
                [true, false].map(|wanted| of(wanted).map(|(name, _)| name).collect::<Vec<_>>());
            let rest = if backups.is_empty() {
                String::new()
            } else {
                format!("; backups are {}", backups.join(", "))
            };
            let sentence = format!("connections of Multipath TCP use {}{rest}", used.join(", "));
            ("multipath", json!({ "used": used, "backups": backups, "sentence": sentence }), sentence)
        }
        Event::Warning(sentence) => ("warning", json!({ "sentence": sentence }), (*sentence).to_owned()),
        Event::State(_) => return None,
        Event::Off(changes, restores) => {
            let text = if *restores { "The default route holds again." } else { "It has ended." };
            ("off", json!({ "counters": { "changes": changes } }), text.to_owned())
        }
    })
}
