//! The fluid model of RCP: a delay differential equation (xcp-rcp 2.13, F51; equations 6.1 to 6.6).

use super::crowd::Crowd;
use super::search::last_that_holds;
use headway_units::Duration;

/// Steps per d0 that suffice: they change the queue by less than 1e-4 of it, as a test shows.
pub const STEPS: u32 = 20;
/// Queue in C d0 at which a calculation ends: round trips are then ten thousand times as long as without
/// queue, and the worst of the published crowds stays below a twentieth of that.
const ENDLESS: f64 = 10_000.0;

/// How the number of flows changes after time zero; before it is constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flows {
    /// Exponential growth by this share per d0, 0 or more.
    Growing(f64),
    /// A crowd joins those that are there.
    Crowd(Crowd),
}

impl Flows {
    /// Returns the growth during the last `delay` d0 before `time`, which is in d0 too; above -1.
    fn growth(&self, time: f64, delay: f64, rtt: Duration) -> f64 {
        match self {
            // The logarithm of the growth does not overflow, however many flows there are.
            Flows::Growing(growth) => (growth.ln_1p() * (time.max(0.0) - (time - delay).max(0.0))).exp_m1(),
            Flows::Crowd(crowd) => {
                let at = |time: f64| crowd.flows_at(time * rtt.secs_f64());
                at(time) / at(time - delay) - 1.0
            }
        }
    }
}

/// RCP as a fluid: flows that all have the same round-trip time, and one link.
///
/// At time zero the flows use exactly the capacity, and there is no queue. The thesis ignores that queues and
/// rates cannot be negative; here both stop at zero. It also leaves open at which time the queue counts in
/// d = d0 + q/C. Here it is the time at which the packets joined the queue of which senders hear now, t - d.
/// Their order is then that of the packets; with the queue at time t senders would hear the past backwards as
/// soon as the rate exceeds 2 C.
///
/// The equations take the growth during the last d for that during the next. Where the growth of long round
/// trips ends, they therefore exaggerate the queue: trust them while there is a steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluid {
    /// Weight of the spare bandwidth in the control law, 0 or more.
    pub alpha: f64,
    /// Weight of the queue in the control law, above 0.
    pub beta: f64,
    /// Round-trip time without queue, d0, above zero.
    pub rtt: Duration,
    /// Number of flows over time.
    pub flows: Flows,
}

/// The state of the fluid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct State {
    /// Sum of the rates of all flows, in C.
    rate: f64,
    /// Queue, in C d0.
    queue: f64,
}

impl State {
    /// Returns the state after `step` d0 of a constant `slope`.
    fn after(self, step: f64, slope: State) -> State {
        State { rate: self.rate + step * slope.rate, queue: self.queue + step * slope.queue }
    }
}

/// A state with its change per d0.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Time at which senders hear of it, in d0: when a packet that joins the queue now has
    /// passed it, and d0 later.
    heard: f64,
    state: State,
    slope: State,
}

/// The fluid at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time since the number of flows began to change.
    pub time: Duration,
    /// Sum of the rates of all flows, as a multiple of the capacity C.
    pub rate: f64,
    /// Queue, in C d0.
    pub queue: f64,
}

/// What the fluid did.
#[derive(Clone, Debug)]
pub struct Trajectory {
    rtt: Duration,
    /// Steps per d0.
    steps: u32,
    nodes: Vec<Node>,
    endless: bool,
}

impl Fluid {
    /// Solves the equations for `rtts` times d0, with `steps` steps per d0 (at least 2; [`STEPS`] suffice).
    ///
    /// The method is the classical one of Runge and Kutta, of order 4. The delayed values lie at
    /// least d0 back, so they are always known; between steps they are interpolated by cubics
    /// through values and slopes.
    pub fn solve(&self, rtts: u32, steps: u32) -> Trajectory {
        let step = 1.0 / f64::from(steps);
        let count = u64::from(rtts) * u64::from(steps);
        let mut past = Past { step, nodes: Vec::new() };
        let mut state = State { rate: 1.0, queue: 0.0 };
        let mut endless = false;
        for index in 0..=count {
            let time = index as f64 * step;
            let slope = self.slope(&past, time, state);
            past.nodes.push(Node { heard: time + 1.0 + state.queue, state, slope });
            let next = self.step(&past, time, state, slope);
            // A rate that became infinite makes the queue infinite or not a number.
            if next.queue.is_nan() || next.queue > ENDLESS {
                endless = true;
                break;
            }
            state = next;
        }
        Trajectory { rtt: self.rtt, steps, nodes: past.nodes, endless }
    }

    /// Returns the state one step later.
    fn step(&self, past: &Past, time: f64, state: State, first: State) -> State {
        let step = past.step;
        let middle = time + 0.5 * step;
        let second = self.slope(past, middle, state.after(0.5 * step, first));
        let third = self.slope(past, middle, state.after(0.5 * step, second));
        let fourth = self.slope(past, time + step, state.after(step, third));
        let next = state
            .after(step / 6.0, first)
            .after(step / 3.0, second)
            .after(step / 3.0, third)
            .after(step / 6.0, fourth);
        // f64::max would turn a rate that is no number into zero.
        State { rate: next.rate.clamp(0.0, f64::MAX), queue: next.queue.clamp(0.0, f64::MAX) }
    }

    /// Returns the change of the state per d0 (6.3, 6.5), with time in d0, rates in C and queues in C d0.
    fn slope(&self, past: &Past, time: f64, state: State) -> State {
        let (delay, before) = past.heard_at(time);
        let growth = self.flows.growth(time, delay, self.rtt);
        let feedback = self.alpha * (1.0 - before.rate) - self.beta * before.queue / delay;
        let slope = State {
            rate: ((1.0 + growth) * feedback + growth * before.rate) / delay,
            queue: state.rate - 1.0,
        };
        State {
            rate: if state.rate <= 0.0 { slope.rate.max(0.0) } else { slope.rate },
            queue: if state.queue <= 0.0 { slope.queue.max(0.0) } else { slope.queue },
        }
    }

    /// Returns the growth L0 at a time: the increase of the number of flows during the last d0, relative
    /// to the number before.
    pub fn growth(&self, time: Duration) -> f64 {
        self.flows.growth(time.secs_f64() / self.rtt.secs_f64(), 1.0, self.rtt)
    }
}

/// The past of the fluid, at equal steps from time zero.
struct Past {
    step: f64,
    nodes: Vec<Node>,
}

impl Past {
    /// Returns of which state senders hear at `time`, and how long before that it was, in d0; before time
    /// zero the state is the initial one.
    ///
    /// Whatever the step, that state lies at least d0 back, where all nodes are known.
    fn heard_at(&self, time: f64) -> (f64, State) {
        let after = self.nodes.partition_point(|node| node.heard <= time);
        let (Some(left), Some(right)) = (after.checked_sub(1), self.nodes.get(after)) else {
            return (1.0, State { rate: 1.0, queue: 0.0 });
        };
        let node = &self.nodes[left];
        let state = |t: f64| self.between(node, right, t);
        let at = |t: f64| (left as f64 + t) * self.step;
        let t = last_that_holds(0.0, 1.0, |t| at(t) + 1.0 + state(t).queue <= time);
        (time - at(t), state(t))
    }

    /// Returns the state at the share `t` of the step between two nodes.
    fn between(&self, left: &Node, right: &Node, t: f64) -> State {
        let between = |pick: fn(&State) -> f64| {
            let (from, to) = (pick(&left.state), pick(&right.state));
            let (leaving, arriving) = (self.step * pick(&left.slope), self.step * pick(&right.slope));
            let change = to - from;
            let bend = (1.0 - t) * (leaving - change) - t * (arriving - change);
            from + t * (change + (1.0 - t) * bend)
        };
        State { rate: between(|state| state.rate), queue: between(|state| state.queue) }
    }
}

impl Trajectory {
    /// Iterates over the points, from time zero on.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.nodes.iter().enumerate().map(|(index, node)| self.point(index, node))
    }

    /// Iterates over the points at multiples of d0.
    pub fn per_rtt(&self) -> impl Iterator<Item = Point> {
        self.points().step_by(self.steps as usize)
    }

    /// Whether the queue became longer than any crowd explains, so that the calculation ended early.
    pub fn is_endless(&self) -> bool {
        self.endless
    }

    /// Returns the point with the longest queue.
    pub fn longest_queue(&self) -> Point {
        let longest = self.points().max_by(|a, b| a.queue.total_cmp(&b.queue));
        longest.unwrap_or(Point { time: Duration::ZERO, rate: 1.0, queue: 0.0 })
    }

    /// Returns the shortest and the longest queue of the last quarter, in C d0: equal if
    /// the queue came to rest.
    pub fn last_queues(&self) -> (f64, f64) {
        let last = &self.nodes[self.nodes.len() - self.nodes.len().div_ceil(4)..];
        let queues = || last.iter().map(|node| node.state.queue);
        (queues().fold(f64::INFINITY, f64::min), queues().fold(0.0, f64::max))
    }

    fn point(&self, index: usize, node: &Node) -> Point {
        let time = self.rtt.scale(index as f64 / f64::from(self.steps));
        Point { time, rate: node.state.rate, queue: node.state.queue }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrivals, Surge};
    use super::*;

    const RTT: Duration = Duration::from_ms(100);
    /// C d0 of the thesis, 100 Mb/s times 0.1 s, in megabytes.
    const MEGABYTES: f64 = 1.25;

    fn growing(alpha: f64, beta: f64, growth: f64) -> Fluid {
        Fluid { alpha, beta, rtt: RTT, flows: Flows::Growing(growth) }
    }

    /// The queue to which the fluid settles.
    fn settled(fluid: Fluid, rtts: u32) -> f64 {
        let (least, most) = fluid.solve(rtts, STEPS).last_queues();
        assert!(most - least < 0.01 * most, "{fluid:?}: {least} to {most}");
        0.5 * (least + most)
    }

    /// xcp-rcp F51: the closed form and the integration agree within 2 %, for an alpha that
    /// prevents oscillation.
    #[test]
    fn the_queue_settles_where_the_closed_form_says() {
        for (alpha, beta) in [(0.4, 0.1), (0.4, 0.2), (0.4, 0.226), (0.5, 0.3), (0.6, 0.4)] {
            for growth in [0.01, 0.03, 0.05, 0.06] {
                let Some(expected) = Surge { beta }.compensation_queue(growth) else { continue };
                let queue = settled(growing(alpha, beta, growth), 300);
                assert!((queue / expected - 1.0).abs() < 0.02, "{beta} {growth}: {queue}, not {expected}");
            }
        }
    }

    /// xcp-rcp 2.13, H20.
    #[test]
    fn alpha_does_not_change_the_queue() {
        let queues = [0.4, 0.5, 0.6].map(|alpha| settled(growing(alpha, 0.226, 0.04), 300));
        let apart = queues.map(|queue| (queue / queues[0] - 1.0).abs());
        assert!(apart.iter().all(|apart| *apart < 0.001), "{queues:?}");
    }

    /// xcp-rcp 4.8, H16: 0.060 stays below 1.2 MB, 0.070 diverges; 4.9: 0.062 drifts.
    #[test]
    fn growth_beyond_the_limit_makes_the_queue_endless() {
        for (growth, longest) in [(0.06, 0.96), (0.0615, 1.2)] {
            let trajectory = growing(0.4, 0.226, growth).solve(1000, STEPS);
            assert!(trajectory.longest_queue().queue < longest && !trajectory.is_endless(), "{growth}");
        }
        for growth in [0.0625, 0.07] {
            assert!(growing(0.4, 0.226, growth).solve(1000, STEPS).is_endless(), "{growth}");
        }
    }

    /// The number of flows of this crowd is smooth at time zero: its first five derivatives are zero there.
    #[test]
    fn halving_the_step_divides_the_error_by_eight_at_least() {
        let arrivals = Arrivals::Erlang { shape: 6, mean: Duration::from_ms(5_000) };
        let flows = Flows::Crowd(Crowd { arrivals, size: 5000.0 });
        let fluid = Fluid { alpha: 0.4, beta: 0.226, rtt: RTT, flows };
        let queue = |steps| fluid.solve(40, steps).points().last().expect("a point").queue;
        let exact = queue(80);
        let errors = [2, 4, 8].map(|steps| (queue(steps) / exact - 1.0).abs());
        assert!(errors[1] < errors[0] / 8.0 && errors[2] < errors[1] / 8.0, "{errors:?}");
    }

    #[test]
    fn shorter_steps_than_usual_change_nothing() {
        for growth in [0.01, 0.04, 0.06] {
            let fluid = growing(0.4, 0.226, growth);
            let [usual, short] = [STEPS, 4 * STEPS].map(|steps| fluid.solve(50, steps));
            for (usual, short) in usual.per_rtt().zip(short.per_rtt()) {
                assert!((usual.queue - short.queue).abs() <= 1e-4 * short.queue, "{usual:?} {short:?}");
            }
        }
    }

    #[test]
    fn without_growth_nothing_happens() {
        let trajectory = growing(0.4, 0.226, 0.0).solve(10, STEPS);
        assert!(trajectory.points().all(|point| point.rate == 1.0 && point.queue == 0.0));
        assert_eq!(trajectory.points().count(), 10 * STEPS as usize + 1);
        assert_eq!(trajectory.per_rtt().last().map(|point| point.time), Some(Duration::from_secs_f64(1.0)));
    }

    /// 1.062 to the 200th: 20 s at the limit make almost 170 000 flows of one (xcp-rcp 2.13, H19).
    #[test]
    fn growth_at_the_limit_multiplies_flows_by_thousands() {
        let growth = Flows::Growing(0.062).growth(200.0, 200.0, RTT);
        assert!((growth + 1.0 - 167_843.0).abs() < 1.0, "{growth}");
    }

    /// xcp-rcp 4.8, H17: a Laplace crowd of 5000 flows with b = 2 s keeps the queue below 1 MB, one
    /// with 1.5 s does not.
    #[test]
    fn the_queue_of_a_laplace_crowd_is_that_of_its_growth() {
        let longest = |scale: f64| {
            let peak = Duration::from_secs_f64(20.0);
            let arrivals = Arrivals::Laplace { peak, scale: Duration::from_secs_f64(scale) };
            let flows = Flows::Crowd(Crowd { arrivals, size: 5000.0 });
            let fluid = Fluid { alpha: 0.4, beta: 0.226, rtt: RTT, flows };
            fluid.solve(400, STEPS).longest_queue()
        };
        let growth = (RTT.secs_f64() / 2.0).exp_m1();
        let expected = Surge { beta: 0.226 }.compensation_queue(growth).expect("below the limit");
        assert!((longest(2.0).queue / expected - 1.0).abs() < 0.02, "{:?} {expected}", longest(2.0));
        assert!(longest(2.0).queue * MEGABYTES < 1.0 && longest(1.5).queue * MEGABYTES > 1.0);
    }
}
