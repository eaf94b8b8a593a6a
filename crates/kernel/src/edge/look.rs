//! What a monitor is shown of the flows that programs count, and how its decisions are carried out.

use std::time::{Duration as Span, Instant as Clock};

use headway_arithmetic::flow::Key;
use headway_edge::{Judged, LOOKS, Monitor, Passive, Seen, Weight};
use headway_units::{Instant, Side};

use super::session::Session;
use super::{Connection, Exchange, SmallReceiver, now};
use crate::error::Error;

/// A look takes one of this many parts of the time: 3 % of a core.
const SPARES: u32 = 33;
/// Longest time between two looks, however many flows there are: experiments with windows take a look or two.
const LONGEST: Span = Span::from_secs(1);

impl Session {
    /// Has all flows judged, with what `passive` says of the data of each end of a connection, and
    /// carries out what is to be done. To be called when [`Session::work`] says so: the fewer flows there
    /// are, the more often.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn look(
        &mut self,
        monitor: &mut Monitor,
        passive: impl Fn(&Key) -> [Passive; 2],
    ) -> Result<Vec<Judged>, Error> {
        self.looked = Clock::now();
        let seen = self.seen(passive)?;
        let treatments = monitor.look(Instant::from_ns(now()?), seen, &self.shares());
        self.carry_out(&treatments)?;
        for judged in treatments.judged.iter().filter(|judged| judged.decision.splits_next()) {
            if let Some(class) = judged.seen.class {
                self.split_next(SmallReceiver::new(judged.host(), class))?;
            }
        }
        self.pause = (self.looked.elapsed() * SPARES).clamp(LOOKS.to_std(), LONGEST);
        Ok(treatments.judged)
    }

    /// Returns all flows, in the order of their beginning.
    fn seen(&self, passive: impl Fn(&Key) -> [Passive; 2]) -> Result<Vec<Seen>, Error> {
        let connections = self.connections()?.into_iter().map(|(key, connection)| {
            let (ecn, is_split) = (connection.ecn(), connection.is_split());
            let Connection { flow, number, sent, .. } = connection;
            let (client, side) = (flow.client(), Side::of(flow.side() as u8));
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
                weight: Weight::default(),
                passive: passive(&key),
            }
        });
        let exchanges = self.exchanges()?.into_iter().map(|(key, exchange)| {
            let (client, ecn) = (exchange.client(), exchange.ecn());
            let class = self.class(&key, client, exchange.dscp());
            let Exchange { number, sent, .. } = exchange;
            let passive = Default::default();
            let weight = Weight::default();
            Seen {
                number,
                key,
                client,
                // An exchange of UDP begins there.
                side: Side::Lan,
                class,
                tcp: None,
                sent,
                ecn,
                is_split: false,
                passive,
                weight,
            }
        });
        let mut seen: Vec<Seen> = connections.chain(exchanges).collect();
        seen.sort_unstable_by_key(|seen| seen.number);
        Ok(seen)
    }
}
