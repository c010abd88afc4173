//! Dominant resource fairness (Ghodsi et al., NSDI 2011), weighted, by progressive filling.
//!
//! A client's **dominant share** is the part that it holds of the device of which it holds most:
//! `rate * greatest fraction / part`. DRF raises the dominant shares of all together until a device
//! is full; clients that do not need that device go on.
//!
//! ```text
//! capacities 9 and 18, demands (1,4) and (3,1): the example of the paper
//!   client 0   fraction 4/18 of the second     3 requests = 12/18 of it
//!   client 1   fraction 3/9 of the first       2 requests =  6/9  of it      both hold 2/3
//! ```
//!
//! The level of the filling is the dominant share over the part by weight, so that at level 1
//! everybody has the fair share. At level 1 everything fits still: nobody takes more than its part
//! of any device. Hence DRF always gives the fair shares at least, and it leaves nobody envious:
//! whoever was stopped had, on the device that stopped it, as large a part as anyone.
//!
//! DRF is what all other allocations here are measured against, and what they fall back to. It
//! handles floors and caps exactly, without iteration.

use super::fill::{self, Filled, Filler};
use super::problem::{DEVICES_MAX, Problem};

/// Rates of DRF; floors first, caps respected.
pub(super) fn fill(problem: &Problem) -> Filled {
    fill::fill(problem, &fillers(problem, super::Client::cap_iops), [1.0; DEVICES_MAX])
}

/// The level of fair shares that everybody can have even if all ask for all they may: 1, or less if
/// the floors took too much. A client is entitled to its fair share times this level, or to its
/// floor if that is more, as far as it asks for it.
pub(super) fn entitled_level(problem: &Problem) -> f64 {
    if problem.clients().iter().all(|terms| terms.reserved_iops() == 0.0) {
        return 1.0;
    }
    let fillers = fillers(problem, |_| f64::INFINITY);
    fill::fill(problem, &fillers, [1.0; DEVICES_MAX]).first_full_level.min(1.0)
}

fn fillers(problem: &Problem, cap_iops: impl Fn(&super::Client) -> f64) -> Vec<Filler> {
    let filler = |(client, terms): (usize, &super::Client)| Filler {
        client,
        rate_per_level: problem.fair_share_iops(client),
        floor_iops: terms.reserved_iops(),
        cap_iops: cap_iops(terms),
    };
    problem.clients().iter().enumerate().map(filler).collect()
}
