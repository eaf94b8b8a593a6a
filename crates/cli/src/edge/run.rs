//! Attaches the programs, tells them what connections may have, and reports.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use headway_arithmetic::flow::{Flow, Key};
use headway_edge::{Connections, Drain, Policy, active};
use headway_kernel::{Edge, EdgeCounters, EdgeInstance, EdgeOptions, Event, Events, MOST_CLASSES, Side};
use headway_program::{out, print_line};
use headway_units::Rate;
use serde_json::{Value, json};

use super::EdgeArgs;
use super::flows::{Flows, lines};
use crate::lab::signals;
use crate::screen::Screen;
use crate::service::start_log;

const _: () = assert!(headway_edge::MOST_CLASSES == MOST_CLASSES);

/// Longest time without a look at signals; events end it earlier.
const ROUND: Duration = Duration::from_millis(100);
/// How often the programs hear that the process lives, and what has passed is shown: well within their patience.
const EVERY: Duration = Duration::from_secs(1);
/// How often the connections are compared with those that the programs have, and silent ones are removed.
const RECONCILE: Duration = Duration::from_secs(10);
/// A connection has ended after so long without a packet, in ns (wan 2.1).
const IDLE: u64 = 300_000_000_000;

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When interfaces or policy cannot be used, or the kernel refuses.
pub(crate) fn run(args: &EdgeArgs, json: bool) -> Result<()> {
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
    let options = EdgeOptions {
        no_shrink: policy.no_shrink,
        dry_run: args.dry_run,
        follow_rtt: policy.follows_rtt(),
        connections: args.connections,
    };
    let edge = Edge::start([&lan, &wan], &options, &policy.rules())?;
    let events = edge.events()?;
    headway_privileges::drop_all_but_maps()?;
    let capacity = [args.rate, args.up.unwrap_or(args.rate)];
    report_on(args, &policy, capacity, json);
    let now = now()?;
    let mut session = Session {
        connections: Connections::new(&policy, capacity),
        classes: policy.class.iter().map(|class| class.name.clone()).collect(),
        edge,
        events,
        flows: Flows::default(),
        sides: [lan, wan],
        drain: policy.follows_rtt().then(|| Drain::new(now)),
        screen: Screen::new(args.flows && !json),
        shows_flows: args.flows,
        json,
    };
    let result = session.work(&end);
    session.screen.clear();
    let counted = session.edge.counters()?;
    drop(session);
    result?;
    report_off(&counted, json);
    out::check()
}

/// Returns the time since the machine was started, as programs and [`Drain`] know it.
fn now() -> Result<headway_units::Instant> {
    Ok(headway_units::Instant::from_ns(headway_kernel::now()?))
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
    sides: [Side; 2],
    edge: Edge,
    events: Events,
    connections: Connections,
    /// None where RTTs are not followed.
    drain: Option<Drain>,
    classes: Vec<String>,
    flows: Flows,
    screen: Screen,
    shows_flows: bool,
    json: bool,
}

impl Session {
    /// Works until a signal arrives.
    fn work(&mut self, mut end: &UnixStream) -> Result<()> {
        self.reconcile()?;
        let (mut said, mut reconciled) = (self.say()?, Instant::now());
        loop {
            match end.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => return Ok(result.map(|_| ())?),
            }
            let before = self.connections.shares();
            self.take_events()?;
            self.turn_drain()?;
            if reconciled.elapsed() >= RECONCILE {
                self.reconcile()?;
                reconciled = Instant::now();
            }
            let is_due = said.elapsed() >= EVERY;
            if is_due || self.connections.shares() != before {
                // What changed is said at once, but the second in which all is shown goes on.
                let now = self.say()?;
                said = if is_due { now } else { said };
            }
            if is_due {
                self.check_sides()?;
                self.show()?;
            }
        }
    }

    /// The programs of an interface go with it, also if another one gets its name.
    fn check_sides(&self) -> Result<()> {
        match self.sides.iter().find(|side| Side::find(&side.name).ok().as_ref() != Some(side)) {
            Some(side) => bail!("the interface {} is gone; start again when it is back", side.name),
            None => Ok(()),
        }
    }

    fn say(&self) -> Result<Instant> {
        self.edge.say(&self.connections.shares())?;
        Ok(Instant::now())
    }

    /// Returns how long to wait for events.
    fn round(&self) -> Result<Duration> {
        let Some(drain) = &self.drain else { return Ok(ROUND) };
        // Never nothing, so that a drain that is late cannot keep the processor busy.
        let until = (drain.due() - now()?).max(headway_units::Duration::from_ms(1));
        Ok(until.to_std().min(ROUND))
    }

    fn take_events(&mut self) -> Result<()> {
        for event in self.events.wait(self.round()?)? {
            match event {
                Event::Begun(key, flow) => self.connections.begin(key, flow.class),
                Event::Ended(key, _) => self.connections.end(&key),
            }
        }
        Ok(())
    }

    /// Begins or ends a drain that is due.
    fn turn_drain(&mut self) -> Result<()> {
        let now = now()?;
        let Some(drain) = self.drain.as_mut().filter(|drain| drain.due() <= now) else { return Ok(()) };
        let flows = self.edge.connections()?;
        let is_drained = drain.turn(now, active(flows.iter().map(|(key, flow)| (*key, flow)), now));
        self.connections.set_drained(is_drained);
        Ok(())
    }

    /// Removes silent connections, and makes up for events that were missed.
    fn reconcile(&mut self) -> Result<()> {
        let now = headway_kernel::now()?;
        let mut there = self.edge.connections()?;
        let silent = |flow: &Flow| now.saturating_sub(flow.seen()) > IDLE;
        for (key, _) in there.extract_if(.., |(_, flow)| silent(flow)) {
            self.edge.remove(&key)?;
        }
        self.connections.reconcile(there.into_iter().map(|(key, flow)| (key, flow.class)));
        Ok(())
    }

    /// Shows what there is; without `--json` and `--flows` only the beginning and the end are told.
    fn show(&mut self) -> Result<()> {
        if !self.json && !self.shows_flows {
            return Ok(());
        }
        let counted = self.edge.counters()?;
        let flows: Vec<(Key, Flow)> = if self.shows_flows { self.edge.connections()? } else { Vec::new() };
        let rows = self.flows.rows(&flows, &self.connections.shares());
        if self.json {
            let live = (0..self.classes.len() as u32).map(|class| self.connections.live(class));
            let classes: serde_json::Map<String, Value> =
                self.classes.iter().cloned().zip(live.map(Value::from)).collect();
            let mut line = json!({ "event": "state", "connections": classes, "counters": counted });
            if self.shows_flows {
                line["flows"] = rows.iter().map(|row| row.json(&self.classes)).collect();
            }
            print_line!("{line}");
        } else {
            self.screen.show(&lines(&rows, &self.classes, &counted, self.screen.size()));
        }
        out::check()
    }
}

fn report_on(args: &EdgeArgs, policy: &Policy, [down, up]: [Rate; 2], json: bool) {
    if json {
        let shares: serde_json::Map<String, Value> =
            policy.class.iter().map(|class| (class.name.clone(), class.share.into())).collect();
        print_line!(
            "{}",
            json!({
                "event": "on",
                "lan": args.lan,
                "wan": args.wan,
                "down_bps": down.bps(),
                "up_bps": up.bps(),
                "dry_run": args.dry_run,
                "shares": shares,
            })
        );
        return;
    }
    let does = if args.dry_run { "counting what it would do" } else { "holding connections" };
    print_line!("{does} between {} and {}: {down} down, {up} up", args.lan, args.wan);
    for class in &policy.class {
        print_line!("  {:<12} {:.0} %", class.name, class.share * 100.0);
    }
    print_line!("New connections are held; those that were there before pass as they are. Ctrl-C ends it.");
}

fn report_off(counted: &EdgeCounters, json: bool) {
    if json {
        print_line!("{}", json!({ "event": "off", "counters": counted }));
        return;
    }
    print_line!("Everything passes as it is again. {}", super::flows::describe(counted));
}
