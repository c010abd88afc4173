//! Fair queuing: the same number of requests per weight for everybody, whatever they need.
//!
//! This is what a fair queue does when it stands in front of several devices and counts requests
//! (or bytes): it knows one resource. As much as the devices bear is handed out; where one is full,
//! those who do not need it go on. The comparator of Wang and Varman, FAST 2014.
//!
//! ```text
//! capacities 100 and 500 IOPS, hit ratios 0.9 and 0.5
//!                 rate   slow   fast
//!   client 0     166.7   16.7  150.0     the slow device is full, the fast one 47 % busy:
//!   client 1     166.7   83.3   83.3     client 0 waits for a device that it hardly needs
//! ```
//!
//! It promises neither sharing incentive nor freedom from envy over several devices: client 0 has
//! less than its fair share, half of the fast device or 277.8.

use super::fill::{self, Filled, Filler};
use super::problem::{DEVICES_MAX, Problem};

/// Rates of fair queuing; floors first, caps respected.
pub(super) fn fill(problem: &Problem) -> Filled {
    let filler = |(client, terms): (usize, &super::Client)| Filler {
        client,
        rate_per_level: terms.weight,
        floor_iops: terms.reserved_iops(),
        cap_iops: terms.cap_iops(),
    };
    let fillers: Vec<Filler> = problem.clients().iter().enumerate().map(filler).collect();
    fill::fill(problem, &fillers, [1.0; DEVICES_MAX])
}
