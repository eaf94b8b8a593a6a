//! Attaches the programs, tells them what connections may have, and reports.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use headway_arithmetic::flow::{Flow, Key};
use headway_edge::Policy;
use headway_kernel::{EdgeInstance, EdgeOptions, EdgeSession, Side};
use headway_program::{out, print_line};
use headway_units::Rate;
use serde_json::{Value, json};

use super::EdgeArgs;
use super::flows::{Flows, lines};
use crate::lab::signals;
use crate::line_writer::LineWriter;
use crate::screen::Screen;
use crate::service::start_log;

/// Most lines of JSON that wait for a reader: with many connections each may have megabytes, and the newest says all.
const LINES: usize = 4;

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When interfaces or policy cannot be used, or the kernel refuses.
pub(super) fn run(args: &EdgeArgs, json: bool) -> Result<()> {
    start_log("warn")?;
    let policy = read_policy(args)?;
    let [lan, wan] = [Side::find(&args.lan)?, Side::find(&args.wan)?];
    if lan == wan {
        bail!("`--lan` and `--wan` are the same interface; an edge is between two");
    }
    // Registered before anything is changed, so that every signal leads to a cleanup.
    let end = signals()?;
    end.set_nonblocking(true)?;
    let _instance = EdgeInstance::begin(&lan, &wan)?;
    let options =
        EdgeOptions { dry_run: args.dry_run, connections: args.connections, ..EdgeOptions::of(&policy) };
    let capacity = [args.rate, args.up.unwrap_or(args.rate)];
    let edge = EdgeSession::start([lan, wan], &options, &policy, capacity)?;
    headway_privileges::drop_all_but_maps()?;
    // After the privileges are gone, which is for each thread. A reader that does not read must not keep the edge from saying that
    // it lives.
    let mut lines = json.then(|| LineWriter::with_queue(std::io::stdout(), LINES)).transpose()?;
    match &mut lines {
        Some(lines) => write_line(lines, &on(args, &policy, capacity)),
        None => report_on(args, &policy, capacity),
    }
    let mut session = Session {
        json: lines.clone(),
        classes: policy.class.iter().map(|class| class.name.clone()).collect(),
        edge,
        flows: Flows::default(),
        screen: Screen::new(args.flows && !json),
        shows_flows: args.flows,
    };
    let result = session.work(&end);
    session.screen.clear();
    let counted = session.edge.counters()?;
    drop(session);
    result?;
    let Some(mut lines) = lines else {
        print_line!("Everything passes as it is again. {}", super::flows::describe(&counted));
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

/// Writes a line, or loses it where nobody reads; [`LineWriter`] never fails.
fn write_line(lines: &mut LineWriter, value: &Value) {
    let _ = lines.write_all(format!("{value}\n").as_bytes());
}

fn read_policy(args: &EdgeArgs) -> Result<Policy> {
    let Some(path) = &args.policy else { return Ok(Policy::default()) };
    let text = headway_input::text(path, headway_input::SCENARIO)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let policy = Policy::parse(&text, path)?;
    if policy.literal {
        bail!(
            "{}: `literal` is the algorithm as it was printed, which never raises a window again; leave it out, or \
             compare both in a simulation",
            path.display()
        );
    }
    Ok(policy)
}

/// What the command knows while it runs.
struct Session {
    edge: EdgeSession,
    classes: Vec<String>,
    flows: Flows,
    screen: Screen,
    shows_flows: bool,
    json: Option<LineWriter>,
}

impl Session {
    /// Works until a signal arrives.
    fn work(&mut self, mut end: &UnixStream) -> Result<()> {
        loop {
            match end.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => return Ok(result.map(|_| ())?),
            }
            if self.edge.work()? {
                self.show()?;
            }
        }
    }

    /// Shows what there is; without `--json` and `--flows` only the beginning and the end are told.
    fn show(&mut self) -> Result<()> {
        if self.json.is_none() && !self.shows_flows {
            return Ok(());
        }
        let counted = self.edge.counters()?;
        let flows: Vec<(Key, Flow)> = if self.shows_flows { self.edge.flows()? } else { Vec::new() };
        let rows = self.flows.rows(&flows, &self.edge.shares());
        if let Some(json) = &mut self.json {
            let live = (0..self.classes.len() as u32).map(|class| self.edge.live(class));
            let classes: serde_json::Map<String, Value> =
                self.classes.iter().cloned().zip(live.map(Value::from)).collect();
            let mut line = json!({ "event": "state", "connections": classes, "counters": counted });
            if self.shows_flows {
                line["flows"] = rows.iter().map(|row| row.json(&self.classes)).collect();
            }
            write_line(json, &line);
        } else {
            self.screen.show(&lines(&rows, &self.classes, &counted, self.screen.size()));
        }
        out::check()
    }
}

/// The event that it is on.
fn on(args: &EdgeArgs, policy: &Policy, [down, up]: [Rate; 2]) -> Value {
    let shares: serde_json::Map<String, Value> =
        policy.class.iter().map(|class| (class.name.clone(), class.share.into())).collect();
    json!({
        "event": "on",
        "lan": args.lan,
        "wan": args.wan,
        "down_bps": down.bps(),
        "up_bps": up.bps(),
        "dry_run": args.dry_run,
        "shares": shares,
    })
}

fn report_on(args: &EdgeArgs, policy: &Policy, [down, up]: [Rate; 2]) {
    let does = if args.dry_run { "counting what it would do" } else { "holding connections" };
    print_line!("{does} between {} and {}: {down} down, {up} up", args.lan, args.wan);
    for class in &policy.class {
        print_line!("  {:<12} {:.0} %", class.name, class.share * 100.0);
    }
    print_line!("New connections are held; those that were there before pass as they are. Ctrl-C ends it.");
}
