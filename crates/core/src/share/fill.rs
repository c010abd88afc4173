//! Progressive filling: raise everybody together until something is full.
//!
//! One **level** rises from zero. The rate of each client is `level * rate_per_level`, but never
//! below its floor nor above its cap. When a device is full, all who need it stop where they are;
//! the others go on. What differs between disciplines is only the unit of the level: requests per
//! weight for fair queuing, the dominant share for DRF.
//!
//! ```text
//! rate                ____________ cap reached
//!   |               /
//!   |       a     /         _______ a device that c needs is full
//!   |           /     c _ -
//!   | b ______/____ _ -________ below its floor, b waits for the level
//!   |       /   _ -
//!   +-----/ _ -------------------------> level
//! ```
//!
//! Between the instants at which a client starts or stops, the use of every device grows along a
//! straight line; so a sweep over those instants is exact. O(n log n) with floors or caps, O(n)
//! without, per device that fills.

use super::problem::{DEVICES_MAX, Problem};

/// Once a slope fell to this part of what it was, too much of it may be rounding: sum it afresh.
const SLOPE_CANCELLED: f64 = 1e-3;

/// One client's terms in a filling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filler {
    /// Its place in the problem.
    pub(super) client: usize,
    /// How its rate grows with the level; positive.
    pub(super) rate_per_level: f64,
    /// It has this from the beginning.
    pub(super) floor_iops: f64,
    /// It stops here; not below the floor.
    pub(super) cap_iops: f64,
}

/// What a filling ended with.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    /// Rates in the order of the fillers.
    pub(super) rates_iops: Vec<f64>,
    /// The level at which the first device that anybody needs was full; infinite if none was.
    pub(super) first_full_level: f64,
}

/// Fills `room`, parts of devices that are to be had.
pub(super) fn fill(problem: &Problem, fillers: &[Filler], room: [f64; DEVICES_MAX]) -> Filled {
    let mut sweep = Sweep::new(problem, fillers, room);
    let events = events(fillers);
    let mut next = events.iter().peekable();
    loop {
        let event_level = next.peek().map_or(f64::INFINITY, |event| event.level);
        if let Some((device, level)) = sweep.next_full(event_level) {
            sweep.advance(level);
            sweep.close(device);
        } else if let Some(event) = next.next() {
            sweep.advance(event.level);
            sweep.apply(*event);
        } else {
            return sweep.finish();
        }
    }
}

/// A client leaves its floor or reaches its cap.
#[derive(Clone, Copy, Debug)]
struct Event {
    level: f64,
    /// Index among the fillers.
    filler: usize,
    starts: bool,
}

/// Starts and stops in the order of the level. Clients without a floor start at once, unnoted.
fn events(fillers: &[Filler]) -> Vec<Event> {
    let mut events = Vec::new();
    for (filler, terms) in fillers.iter().enumerate() {
        let mut note = |rate: f64, starts| {
            events.push(Event { level: rate / terms.rate_per_level, filler, starts });
        };
        if terms.floor_iops > 0.0 {
            note(terms.floor_iops, true);
        }
        if terms.cap_iops.is_finite() {
            note(terms.cap_iops, false);
        }
    }
    // Whoever starts and stops at once must start first. The sort is stable: no ties are left.
    events.sort_by(|a, b| a.level.total_cmp(&b.level).then(b.starts.cmp(&a.starts)));
    events
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    AtFloor,
    Rising,
    Stopped,
}

struct Sweep<'a> {
    problem: &'a Problem,
    fillers: &'a [Filler],
    states: Vec<State>,
    rates_iops: Vec<f64>,
    level: f64,
    first_full_level: f64,
    room: [f64; DEVICES_MAX],
    /// How fast each device fills with the level.
    slope: [f64; DEVICES_MAX],
    /// The steepest that each slope was since it was last summed afresh.
    slope_max: [f64; DEVICES_MAX],
    /// Rising clients that need the device: when none is left, what rounding left of the slope
    /// must not count.
    rising: [usize; DEVICES_MAX],
}

impl<'a> Sweep<'a> {
    fn new(problem: &'a Problem, fillers: &'a [Filler], room: [f64; DEVICES_MAX]) -> Self {
        let at_start = |terms: &Filler| {
            if terms.floor_iops > 0.0 { State::AtFloor } else { State::Rising }
        };
        let mut sweep = Self {
            problem,
            fillers,
            states: fillers.iter().map(at_start).collect(),
            rates_iops: fillers.iter().map(|terms| terms.floor_iops).collect(),
            level: 0.0,
            first_full_level: f64::INFINITY,
            room,
            slope: [0.0; DEVICES_MAX],
            slope_max: [0.0; DEVICES_MAX],
            rising: [0; DEVICES_MAX],
        };
        for terms in fillers.iter().filter(|terms| terms.floor_iops > 0.0) {
            let fractions = problem.fractions(terms.client);
            for (room, fraction) in sweep.room.iter_mut().zip(fractions) {
                *room -= fraction * terms.floor_iops;
            }
        }
        sweep.measure_slopes();
        sweep
    }

    /// The next device to be full before `until`, and the level at which it is.
    fn next_full(&self, until: f64) -> Option<(usize, f64)> {
        let mut first = None;
        let mut first_level = until;
        for device in (0..DEVICES_MAX).filter(|&device| self.rising[device] > 0) {
            let level = self.level + self.room[device].max(0.0) / self.slope[device];
            if level < first_level {
                first = Some((device, level));
                first_level = level;
            }
        }
        first
    }

    fn advance(&mut self, level: f64) {
        let rise = level - self.level;
        for (room, slope) in self.room.iter_mut().zip(&self.slope) {
            *room -= slope * rise;
        }
        self.level = level;
    }

    /// The device is full: whoever needs it stops.
    fn close(&mut self, device: usize) {
        self.first_full_level = self.first_full_level.min(self.level);
        for index in 0..self.fillers.len() {
            if self.problem.fractions(self.fillers[index].client)[device] > 0.0 {
                self.stop(index);
            }
        }
        self.measure_slopes();
    }

    fn stop(&mut self, index: usize) {
        if self.states[index] == State::Rising {
            let terms = self.fillers[index];
            let rate = self.level * terms.rate_per_level;
            self.rates_iops[index] = rate.clamp(terms.floor_iops, terms.cap_iops);
        }
        self.states[index] = State::Stopped;
    }

    fn apply(&mut self, event: Event) {
        let Filler { client, rate_per_level, .. } = self.fillers[event.filler];
        let fractions = self.problem.fractions(client);
        let needed = (0..DEVICES_MAX).filter(|&device| fractions[device] > 0.0);
        match (event.starts, self.states[event.filler]) {
            (true, State::AtFloor) => {
                self.states[event.filler] = State::Rising;
                for device in needed {
                    self.slope[device] += fractions[device] * rate_per_level;
                    self.slope_max[device] = self.slope_max[device].max(self.slope[device]);
                    self.rising[device] += 1;
                }
            }
            (false, State::Rising) => {
                self.stop(event.filler);
                let mut cancelled = false;
                for device in needed {
                    self.slope[device] -= fractions[device] * rate_per_level;
                    self.rising[device] -= 1;
                    cancelled |= self.slope[device] < SLOPE_CANCELLED * self.slope_max[device];
                }
                if cancelled {
                    self.measure_slopes();
                }
            }
            _ => {}
        }
    }

    fn measure_slopes(&mut self) {
        self.slope = [0.0; DEVICES_MAX];
        self.rising = [0; DEVICES_MAX];
        for (terms, _) in
            self.fillers.iter().zip(&self.states).filter(|(_, state)| **state == State::Rising)
        {
            let fractions = self.problem.fractions(terms.client);
            for (device, fraction) in fractions.iter().enumerate() {
                self.slope[device] += fraction * terms.rate_per_level;
                self.rising[device] += usize::from(*fraction > 0.0);
            }
        }
        self.slope_max = self.slope;
    }

    fn finish(self) -> Filled {
        // Every client needs a device, so whoever still rose would have filled it.
        debug_assert!(self.states.iter().all(|state| *state == State::Stopped));
        Filled { rates_iops: self.rates_iops, first_full_level: self.first_full_level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::problem::{Client, Demand};

    const WHOLE: [f64; DEVICES_MAX] = [1.0; DEVICES_MAX];

    fn rates(demands: &[[f64; 2]], bounds: &[(f64, f64)]) -> (Vec<f64>, f64) {
        let client = |demand: &[f64; 2]| Client::backlogged(1.0, Demand::per_request(demand));
        let problem = Problem::new(&[12.0, 12.0], demands.iter().map(client).collect()).unwrap();
        let filler = |(client, &(floor_iops, cap_iops)): (usize, &(f64, f64))| Filler {
            client,
            rate_per_level: 1.0,
            floor_iops,
            cap_iops,
        };
        let fillers: Vec<Filler> = bounds.iter().enumerate().map(filler).collect();
        let result = fill(&problem, &fillers, WHOLE);
        (result.rates_iops, result.first_full_level)
    }

    #[track_caller]
    fn close((got, first): (Vec<f64>, f64), rates: &[f64], first_full_level: f64) {
        let near = |(a, b): (&f64, &f64)| (a.min(1e9) - b.min(1e9)).abs() <= 1e-12 * b.min(1e9);
        assert_eq!(got.len(), rates.len());
        assert!(got.iter().zip(rates).all(near), "{got:?} is not {rates:?}");
        assert!(near((&first, &first_full_level)), "{first} is not {first_full_level}");
    }

    #[test]
    fn the_others_go_on_when_a_device_is_full() {
        let free = (0.0, f64::INFINITY);
        close(rates(&[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], &[free; 3]), &[6.0; 3], 6.0);
        close(rates(&[[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]], &[free; 3]), &[4.0, 4.0, 8.0], 4.0);
    }

    #[test]
    fn floors_are_there_from_the_beginning_and_caps_stop() {
        let only = [1.0, 0.0];
        let bounds = [(7.0, 20.0), (0.0, 1.0), (0.0, f64::INFINITY)];
        close(rates(&[only; 3], &bounds), &[7.0, 1.0, 4.0], 4.0);
        let bounds = [(1.0, 2.0), (0.5, 3.0), (0.0, 20.0)];
        close(rates(&[only; 3], &bounds), &[2.0, 3.0, 7.0], 7.0);
    }

    #[test]
    fn nobody_is_left_rising_when_all_are_satisfied() {
        close(rates(&[[1.0, 0.0]; 2], &[(0.0, 0.0), (0.0, 3.0)]), &[0.0, 3.0], f64::INFINITY);
        close(rates(&[], &[]), &[], f64::INFINITY);
    }

    #[test]
    fn what_is_left_of_a_slope_after_rounding_fills_no_device() {
        let (huge, tiny) = ((0.0, 1e-16), (0.0, f64::INFINITY));
        close(rates(&[[1e16, 0.0], [1.0, 0.0]], &[huge, tiny]), &[1e-16, 11.0], 11.0);
    }
}
