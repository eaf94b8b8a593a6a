//! What a monitor is shown of the flows that programs count, and how its decisions are carried out.

use headway_arithmetic::flow::Key;
use headway_edge::{Judged, Monitor, Passive, Seen};

use super::session::{Decided, Kind, Session};
use super::{Connection, Exchange, SmallReceiver, Treatment, now};
use crate::error::Error;

/// The side of the hosts, from where exchanges of UDP begin.
const HOSTS: usize = 0;

impl Session {
    /// Has all flows judged, with what `passive` says of the data of each end of a connection, and carries the decisions out. To be
    /// called every second.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn look(
        &mut self,
        monitor: &mut Monitor,
        passive: impl Fn(&Key) -> [Passive; 2],
    ) -> Result<Vec<Judged>, Error> {
        let seen = self.seen(passive)?;
        let judged = monitor.look(now()?, seen, &self.shares());
        self.set_available(monitor.available());
        self.set_factors(monitor.factors());
        self.carry_out(judged.iter().map(decided))?;
        for judged in judged.iter().filter(|judged| judged.decision.splits_next()) {
            if let Some(class) = judged.seen.class {
                self.split_next(SmallReceiver::new(judged.host(), class))?;
            }
        }
        Ok(judged)
    }

    /// Returns all flows, in the order of their beginning.
    fn seen(&self, passive: impl Fn(&Key) -> [Passive; 2]) -> Result<Vec<Seen>, Error> {
        let connections = self.connections()?.into_iter().map(|(key, connection)| {
            let (ecn, is_split) = (connection.ecn(), connection.is_split());
            let Connection { flow, number, sent, .. } = connection;
            let (client, side) = (flow.client(), flow.side());
            let class = self.class(&key, client, flow.dscp());
            Seen {
                number,
                key,
                client,
                side,
                class,
                tcp: Some(flow),
                sent,
                ecn,
                is_split,
                passive: passive(&key),
            }
        });
        let exchanges = self.exchanges()?.into_iter().map(|(key, exchange)| {
            let (client, ecn) = (exchange.client(), exchange.ecn());
            let class = self.class(&key, client, exchange.dscp());
            let Exchange { number, sent, .. } = exchange;
            let passive = Default::default();
            Seen { number, key, client, side: HOSTS, class, tcp: None, sent, ecn, is_split: false, passive }
        });
        let mut seen: Vec<Seen> = connections.chain(exchanges).collect();
        seen.sort_unstable_by_key(|seen| seen.number);
        Ok(seen)
    }
}

/// What the programs are to do with a flow.
fn decided(judged: &Judged) -> Decided<'_> {
    let (seen, decision) = (&judged.seen, &judged.decision);
    let is_held = seen.tcp.is_some();
    Decided {
        flow: if is_held { Kind::Connection(&seen.key) } else { Kind::Other(seen.class.unwrap_or(u32::MAX)) },
        number: seen.number,
        // What passes by itself takes nothing from others.
        shares: decision.shares && (is_held || !decision.passes()),
        unused: judged.unused,
        treatment: match seen.class {
            Some(class) if decision.marks() => Treatment::Marked(class),
            _ if is_held && decision.passes() => Treatment::Passes,
            _ => Treatment::Window,
        },
    }
}
