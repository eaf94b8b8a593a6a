//! What holds for all controllers, whatever happens to a flow.

use proptest::prelude::*;

use super::testing::{START, ack, delivery};
use super::*;

/// What may happen to a sender.
#[derive(Clone, Debug)]
enum Event {
    Ack { delivered: u32, marked: u32, rtt: Option<i64>, advance: u32, flags: u8, state: u8 },
    Congestion { mark: bool },
    Timeout { already_reduced: bool },
    Undo,
    Idle { time: i64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let rtt = prop_oneof![1 => Just(None), 8 => (0_i64..2_000_000).prop_map(Some)];
    let ack = (1_u32..400, 0_u32..3, rtt, 0_u32..400, any::<u8>(), 0_u8..5).prop_map(
        |(delivered, marked, rtt, advance, flags, state)| Event::Ack {
            delivered,
            marked,
            rtt,
            advance,
            flags,
            state,
        },
    );
    let event = prop_oneof![
        40 => ack,
        2 => any::<bool>().prop_map(|mark| Event::Congestion { mark }),
        1 => any::<bool>().prop_map(|already_reduced| Event::Timeout { already_reduced }),
        1 => Just(Event::Undo),
        1 => (0_i64..100_000_000).prop_map(|time| Event::Idle { time }),
    ];
    prop::collection::vec(event, 1..400)
}

/// A sender that a controller may see: segments and a clock that only advance.
struct Sender {
    now: Instant,
    una: u64,
    next: u64,
    smoothed: Option<Duration>,
    delivered: u64,
    lost: u64,
    before: (f64, f64),
}

impl Sender {
    fn ack(&mut self, controller: &AnyController, event: &Event) -> Option<Ack> {
        let Event::Ack { delivered, marked, rtt, advance, flags, state } = *event else { return None };
        let flag = |bit: u8| flags & (1 << bit) != 0;
        self.now += Duration::from_us(if flag(0) { 10 } else { 40_000 });
        self.una += u64::from(advance);
        self.next = self.next.max(self.una) + u64::from(controller.flight_limit().min(1000)) / 4;
        let rtt = rtt.map(Duration::from_us);
        self.smoothed = rtt.or(self.smoothed);
        Some(Ack {
            now: self.now,
            delivered,
            marked: marked.min(delivered),
            rtt,
            smoothed: self.smoothed,
            in_flight: if flag(1) && flag(2) { 0 } else { (self.next - self.una) as u32 },
            window_limited: flag(3) || flag(4),
            una: self.una,
            next: self.next,
            reducing: flag(5) && flag(6),
            state: [
                RecoveryState::Open,
                RecoveryState::Disorder,
                RecoveryState::Reducing,
                RecoveryState::Recovery,
                RecoveryState::Loss,
            ][usize::from(state)],
            one_way_delay: rtt.filter(|_| flag(7)).map(|rtt| rtt - Duration::from_ms(700)),
            ..ack(1)
        })
    }

    fn apply(&mut self, controller: &mut AnyController, event: &Event) {
        if let Some(ack) = self.ack(controller, event) {
            controller.on_ack(&ack);
            if controller.needs().delivery_rate {
                self.delivered += u64::from(ack.delivered);
                let delivery = Delivery {
                    delivered: self.delivered,
                    at: self.now,
                    lost: self.lost,
                    departure: self.now,
                    ..delivery()
                };
                controller.on_delivery(&ack, &delivery);
            }
            return;
        }
        let flight = controller.flight_limit();
        self.lost += u64::from(flight);
        match *event {
            Event::Congestion { mark } => {
                self.before = (controller.window(), controller.ssthresh());
                let cause = if mark { Congestion::Mark } else { Congestion::Loss };
                controller.on_congestion(self.now, flight, cause);
            }
            Event::Timeout { already_reduced } => {
                if !already_reduced {
                    self.before = (controller.window(), controller.ssthresh());
                }
                controller.on_timeout(self.now, flight, already_reduced);
            }
            Event::Undo => controller.on_undo(self.before.0, self.before.1),
            Event::Idle { time } => {
                let time = Duration::from_us(time);
                self.now += time;
                controller.on_idle(self.now, time, Duration::from_ms(200));
            }
            Event::Ack { .. } => (),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to a flow, no controller panics, and its window stays finite and
    /// large enough to send.
    #[test]
    fn windows_stay_finite_and_above_their_minimum(
        events in events(),
        window in 1_u32..2000,
        linux_rounding in any::<bool>(),
        opens in any::<bool>(),
    ) {
        for entry in Kind::TABLE {
            let kind: Kind = entry.example().parse().expect("the example is valid");
            let mut controller = kind.build(&Start { window, linux_rounding, ..START });
            let mut sender = Sender {
                now: Instant::ZERO,
                una: 0,
                next: u64::from(window),
                smoothed: None,
                delivered: 0,
                lost: 0,
                before: (controller.window(), controller.ssthresh()),
            };
            if opens {
                controller.on_open(sender.now, Duration::from_ms(30));
            }
            let least = if controller.has_gaps() { 0.0 } else { 1.0 };
            for event in &events {
                sender.apply(&mut controller, event);
                let window = controller.window();
                prop_assert!(window.is_finite() && window >= least && window > 0.0, "{kind}: {window}");
                prop_assert!(controller.ssthresh() > 0.0, "{kind}: {}", controller.ssthresh());
                prop_assert!(controller.flight_limit() >= 1, "{kind}");
            }
        }
    }
}
