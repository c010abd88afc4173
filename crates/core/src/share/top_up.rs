//! Idle devices for those who need nothing else.
//!
//! Levels tie all of a set together: where one member is stopped by a full device, so are all. A
//! client that needs one device only could take what is left of it without harm:
//!
//! ```text
//! capacities 100 and 1000 IOPS; four clients of hit ratio .5, one of .95, one of 1
//!   levels alone     slow 100 %, fast 84 %, 940 IOPS in all
//!   DRF              goes on with the last client: 1100 IOPS
//!   topped up        the last client takes the 160 that were idle: 1100 IOPS
//! ```
//!
//! Nobody comes to envy it: its bundle holds nothing of any other device, so only its like could
//! use it, and they are topped up alike. Without this step BAA may serve less than DRF; with it,
//! never.
//!
//! Clients that need two devices of three are left as they are: raising them can make others
//! envious.

use super::fill::{self, Filler};
use super::problem::{DEVICES_MAX, DeviceId, Problem};

/// A device with less than this part idle counts as full.
const IDLE_MIN: f64 = 1e-12;

/// Hands what is idle of each device to the clients that need that device alone.
pub(super) fn top_up(problem: &Problem, rates_iops: &mut [f64]) {
    let used = problem.utilisation(rates_iops);
    for device in problem.devices() {
        let idle = 1.0 - used[device.index()];
        if idle > IDLE_MIN {
            top_up_device(problem, device, idle, rates_iops);
        }
    }
}

/// Shares the idle part and what its pure clients have of the device among them afresh; nobody can
/// lose by that.
fn top_up_device(problem: &Problem, device: DeviceId, idle: f64, rates_iops: &mut [f64]) {
    let is_pure = |client: &usize| problem.only_device(*client) == Some(device);
    let filler = |client: usize| Filler {
        client,
        rate_per_level: problem.fair_share_iops(client),
        floor_iops: problem.clients()[client].reserved_iops(),
        cap_iops: problem.clients()[client].cap_iops(),
    };
    let fillers: Vec<Filler> = (0..rates_iops.len()).filter(is_pure).map(filler).collect();
    let held =
        |terms: &Filler| rates_iops[terms.client] * problem.fractions(terms.client)[device.index()];
    let mut room = [0.0; DEVICES_MAX];
    room[device.index()] = idle + fillers.iter().map(held).sum::<f64>();
    let result = fill::fill(problem, &fillers, room);
    for (terms, rate) in fillers.iter().zip(result.rates_iops) {
        rates_iops[terms.client] = rates_iops[terms.client].max(rate);
    }
}
