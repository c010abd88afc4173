//! Whether an allocation keeps what was promised, by the definitions alone.
//!
//! Nothing here knows sets, levels or cases. It looks at rates:
//!
//! - **Capacity**: no device is used beyond itself.
//! - **Sharing incentive**: nobody gets less than its entitlement: the fair share (scaled down
//!   where floors leave less), or the floor if that is more, as far as it asks for it.
//! - **No envy**: no client would be served better by the bundle of another, scaled by weight.
//!   Excepted is who has all it asked for, and the bundle of a client held at its floor, which is
//!   a promise and no share.
//!
//! Envy is a question about every pair. A certificate answers it for most clients at once: if of
//! some device that i needs nobody holds more per weight than i does, i envies nobody. Only those
//! who can use the bundle count, that is who need all the devices that i needs. Clients without
//! certificate are compared pair by pair. O(n) as a rule, O(n^2) at worst.
//!
//! All comparisons are relative, with a tolerance of [`TOLERANCE`].

use super::drf;
use super::problem::{DEVICES_MAX, DeviceId, Problem};

/// How far, relatively, rounding may carry an allocation beyond a promise.
pub const TOLERANCE: f64 = 1e-9;

/// What an allocation is held to besides capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promises {
    /// Fair shares scaled by this are the least that anyone gets; 0 to promise none.
    pub entitled_level: f64,
    /// Whether nobody may envy anybody.
    pub no_envy: bool,
}

impl Promises {
    /// Everything: fair shares, as far as floors leave them, and no envy.
    pub fn fair(problem: &Problem) -> Self {
        Self { entitled_level: drf::entitled_level(problem), no_envy: true }
    }
}

/// A promise that an allocation breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Violation {
    /// A rate is negative or not a number.
    Rate {
        /// The client.
        client: usize,
    },
    /// A device is used beyond its capacity.
    Capacity {
        /// The device.
        device: DeviceId,
        /// Part of it in use, above 1.
        utilisation: f64,
    },
    /// A client gets less than it is entitled to.
    SharingIncentive {
        /// The client.
        client: usize,
        /// What it gets over what it is entitled to, below 1.
        ratio: f64,
    },
    /// A client would rather have another's bundle.
    Envy {
        /// The client that envies.
        client: usize,
        /// The client that is envied.
        rival: usize,
        /// How much better off it would be, above 1.
        ratio: f64,
    },
    /// There was nothing to verify: the solver did not come to an end.
    Unsolved,
}

/// Checks rates, one per client in requests per second.
///
/// # Errors
/// The first promise that is broken.
pub fn verify(problem: &Problem, rates_iops: &[f64], promises: Promises) -> Result<(), Violation> {
    assert_eq!(rates_iops.len(), problem.clients().len(), "one rate per client");
    if let Some(client) = rates_iops.iter().position(|rate| !(rate.is_finite() && *rate >= 0.0)) {
        return Err(Violation::Rate { client });
    }
    for (device, utilisation) in problem.devices().zip(problem.utilisation(rates_iops)) {
        if utilisation > 1.0 + TOLERANCE {
            return Err(Violation::Capacity { device, utilisation });
        }
    }
    for (client, terms) in problem.clients().iter().enumerate() {
        let share = promises.entitled_level * problem.fair_share_iops(client);
        let entitled = share.max(terms.reserved_iops()).min(terms.cap_iops());
        if rates_iops[client] < entitled * (1.0 - TOLERANCE) {
            let ratio = rates_iops[client] / entitled;
            return Err(Violation::SharingIncentive { client, ratio });
        }
    }
    if promises.no_envy { Bundles { problem, rates_iops }.check() } else { Ok(()) }
}

/// What clients hold, as a relation between them.
struct Bundles<'a> {
    problem: &'a Problem,
    rates_iops: &'a [f64],
}

impl Bundles<'_> {
    fn check(&self) -> Result<(), Violation> {
        let most = self.most_by_needs();
        for client in (0..self.rates_iops.len()).filter(|&client| !self.is_satisfied(client)) {
            let most = &most[self.needs(client)];
            let is_certain = (0..self.problem.device_count()).any(|device| {
                let held = self.held(client, device);
                held > 0.0 && held >= most[device] * (1.0 - TOLERANCE)
            });
            if !is_certain && let Some(violation) = self.envied(client) {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// What a client holds of a device, per weight.
    fn held(&self, client: usize, device: usize) -> f64 {
        let fraction = self.problem.fractions(client)[device];
        self.rates_iops[client] * fraction / self.problem.part(client)
    }

    /// The devices that a client needs, as bits.
    fn needs(&self, client: usize) -> usize {
        let fractions = self.problem.fractions(client);
        (0..self.problem.device_count())
            .map(|device| usize::from(fractions[device] > 0.0) << device)
            .sum()
    }

    fn is_satisfied(&self, client: usize) -> bool {
        self.rates_iops[client] >= self.problem.clients()[client].cap_iops() * (1.0 - TOLERANCE)
    }

    fn is_at_floor(&self, client: usize) -> bool {
        let floor_iops = self.problem.clients()[client].reserved_iops();
        floor_iops > 0.0 && self.rates_iops[client] <= floor_iops * (1.0 + TOLERANCE)
    }

    /// For every set of needs, the most that anyone who needs all that and perhaps more holds of
    /// each device, per weight.
    fn most_by_needs(&self) -> Vec<[f64; DEVICES_MAX]> {
        let devices = self.problem.device_count();
        let mut most = vec![[0.0; DEVICES_MAX]; 1 << devices];
        for client in (0..self.rates_iops.len()).filter(|&client| !self.is_at_floor(client)) {
            let row = &mut most[self.needs(client)];
            for (device, most) in row.iter_mut().enumerate().take(devices) {
                *most = self.held(client, device).max(*most);
            }
        }
        // One device at a time, whoever needs it too is counted among those who need not.
        for added in 0..devices {
            for needs in (0..most.len()).filter(|needs| needs & (1 << added) == 0) {
                let wider = most[needs | (1 << added)];
                for (most, wider) in most[needs].iter_mut().zip(wider) {
                    *most = wider.max(*most);
                }
            }
        }
        most
    }

    /// Whom the client envies, if anybody.
    fn envied(&self, client: usize) -> Option<Violation> {
        let ratio = |rival: usize| {
            let served = (0..self.problem.device_count())
                .filter(|&device| self.problem.fractions(client)[device] > 0.0)
                .map(|device| match self.held(rival, device) {
                    0.0 => 0.0,
                    held => held / self.held(client, device),
                });
            served.fold(f64::INFINITY, f64::min)
        };
        (0..self.rates_iops.len())
            .filter(|&rival| rival != client && !self.is_at_floor(rival))
            .map(|rival| Violation::Envy { client, rival, ratio: ratio(rival) })
            .find(|v| matches!(v, Violation::Envy { ratio, .. } if *ratio > 1.0 + TOLERANCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::problem::{Client, Demand};

    const FAIR: Promises = Promises { entitled_level: 1.0, no_envy: true };

    /// Four equal clients of one device of 64 IOPS.
    fn problem(change: impl Fn(&mut [Client])) -> Problem {
        let mut clients = [Client::backlogged(1.0, Demand::per_request(&[1.0])); 4];
        change(&mut clients);
        Problem::new(&[64.0], clients.to_vec()).unwrap()
    }

    #[test]
    fn each_broken_promise_has_its_name() {
        let problem = problem(|_| {});
        let verdict = |rates: [f64; 4]| verify(&problem, &rates, FAIR);
        assert_eq!(verdict([16.0; 4]), Ok(()));
        assert_eq!(verdict([16.0, f64::NAN, 16.0, 16.0]), Err(Violation::Rate { client: 1 }));
        let overused = Violation::Capacity { device: DeviceId(0), utilisation: 2.0 };
        assert_eq!(verdict([32.0; 4]), Err(overused));
        let short = Violation::SharingIncentive { client: 3, ratio: 0.5 };
        assert_eq!(verdict([24.0, 16.0, 16.0, 8.0]), Err(short));
        let modest = Promises { entitled_level: 0.5, ..FAIR };
        let envy = Violation::Envy { client: 1, rival: 0, ratio: 2.0 };
        assert_eq!(verify(&problem, &[16.0, 8.0, 16.0, 16.0], modest), Err(envy));
    }

    #[test]
    fn who_has_all_it_asked_for_envies_nobody() {
        let modest = problem(|clients| clients[0].offered_iops = 4.0);
        assert_eq!(verify(&modest, &[4.0, 20.0, 20.0, 20.0], FAIR), Ok(()));
    }

    #[test]
    fn a_floor_is_nobodys_to_envy_and_must_be_met() {
        let reserved = problem(|clients| clients[0].floor_iops = 40.0);
        let promises = Promises::fair(&reserved);
        assert_eq!(promises, Promises { entitled_level: 0.5, no_envy: true });
        assert_eq!(verify(&reserved, &[40.0, 8.0, 8.0, 8.0], promises), Ok(()));
        let short = Violation::SharingIncentive { client: 0, ratio: 0.5 };
        assert_eq!(verify(&reserved, &[20.0, 8.0, 8.0, 8.0], promises), Err(short));
        // Where floors take it all, nobody holds anything that others could envy.
        let taken = problem(|clients| clients[0].floor_iops = 64.0);
        assert_eq!(verify(&taken, &[64.0, 0.0, 0.0, 0.0], Promises::fair(&taken)), Ok(()));
    }
}
