//! Shares over windows: what each tenant got, was due, and could have had.
//!
//! Once per [`WINDOW`] the domain is looked at over all its servers, in units of service (device
//! time by the cost model), as parts of all that was delivered. With w the weights of the tenants
//! that were active in the window, and for each of them
//!
//! - d: what it got (**delivered**),
//! - u: the part of d that it got while nothing of it was queued,
//! - b: the part of the window in which something was (**backlogged**),
//!
//! **Entitled** is what its weight gives it when it asks for all that it can, beside others who
//! ask for what they asked for: everything if they were backlogged, what they got if not. What
//! those leave is divided by weight (water-filling).
//!
//! **Attainable** is the most that the work it offered could have had: its entitlement while it was
//! backlogged, and what it got while it was not, `b * entitled + u`; never less than d. A tenant
//! below its entitlement but at its attainable share did not ask for more; one below its attainable
//! share was held back.
//!
//! ```text
//! weights 16:1, the first queued for 60 % of the window only
//!           delivered  backlogged  entitled            attainable
//! first     0.84       0.6         16/17 = 0.94        0.6 * 0.94 + 0.28 = 0.845   has all it can
//! second    0.16       1.0          1/17 = 0.06        0.16
//! ```
//!
//! Where nothing queues at the gate (observe and shadow mode), nobody is backlogged: entitled is
//! the plain weight among the active, attainable is delivered.

use evenkeel_core::fair::water_fill;
use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};

use crate::account::Account;
use crate::report::ShareWindow;

/// The least length of a window; it ends with the first input after that.
pub const WINDOW: Span = Span::from_secs(1);

/// Queued for a smaller part of the window than this is no backlog.
const BACKLOGGED_MIN: f64 = 0.01;

/// The windows of one domain.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    started: Nanos,
    rows: Vec<Row>,
    /// Tenants that were active in the window that runs.
    active: Vec<TenantId>,
    /// Tenants with a row in the last full window.
    shown: Vec<TenantId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    is_active: bool,
    delivered_seen: u64,
    unbacklogged_seen: u64,
    backlogged_seen: Span,
    last: ShareWindow,
    sums: WindowSums,
}

/// All windows in which a tenant was active, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WindowSums {
    /// How many.
    pub(crate) windows: f64,
    /// What it got in them, and the rest of [`ShareWindow`].
    pub(crate) sum: ShareWindow,
}

impl WindowSums {
    fn add(&mut self, window: &ShareWindow) {
        self.windows += 1.0;
        self.sum.delivered += window.delivered;
        self.sum.entitled += window.entitled;
        self.sum.attainable += window.attainable;
        self.sum.backlogged += window.backlogged;
    }

    /// The mean of the windows since these; none without any.
    pub(crate) fn mean_since(&self, earlier: &Self) -> Option<ShareWindow> {
        let windows = self.windows - earlier.windows;
        (windows > 0.5).then(|| ShareWindow {
            delivered: (self.sum.delivered - earlier.sum.delivered) / windows,
            entitled: (self.sum.entitled - earlier.sum.entitled) / windows,
            attainable: (self.sum.attainable - earlier.sum.attainable) / windows,
            backlogged: (self.sum.backlogged - earlier.sum.backlogged) / windows,
        })
    }
}

/// What one tenant did in a window.
#[derive(Clone, Copy, Debug)]
struct Part {
    weight: f64,
    delivered: f64,
    unbacklogged: f64,
    backlogged: f64,
}

impl Shares {
    /// The first window begins.
    pub(crate) fn new(now: Nanos) -> Self {
        Self { started: now, rows: Vec::new(), active: Vec::new(), shown: Vec::new() }
    }

    /// A tenant did something. O(1).
    pub(crate) fn touch(&mut self, tenant: TenantId) {
        if tenant.index() >= self.rows.len() {
            self.rows.resize(tenant.index() + 1, Row::default());
        }
        let row = &mut self.rows[tenant.index()];
        if !row.is_active {
            row.is_active = true;
            self.active.push(tenant);
        }
    }

    /// The last full window of a tenant.
    pub(crate) fn last(&self, tenant: TenantId) -> ShareWindow {
        self.rows.get(tenant.index()).map(|row| row.last).unwrap_or_default()
    }

    /// All full windows of a tenant.
    pub(crate) fn sums(&self, tenant: TenantId) -> WindowSums {
        self.rows.get(tenant.index()).map(|row| row.sums).unwrap_or_default()
    }

    /// Whether the window that runs is full.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now.since(self.started) >= WINDOW
    }

    /// Ends the window. O(active tenants, log of them).
    pub(crate) fn close(&mut self, now: Nanos, accounts: &[Account]) {
        let length_ns = now.since(self.started).0.max(1) as f64;
        self.started = now;
        for tenant in std::mem::take(&mut self.shown) {
            self.rows[tenant.index()].last = ShareWindow::default();
        }
        let parts = self.take_parts(now, length_ns, accounts);
        for (tenant, window) in self.active.iter().zip(windows(&parts)) {
            let row = &mut self.rows[tenant.index()];
            row.last = window;
            row.sums.add(&window);
        }
        self.shown = std::mem::take(&mut self.active);
        for index in 0..self.shown.len() {
            let tenant = self.shown[index];
            self.rows[tenant.index()].is_active = false;
            // Whoever still waits for something is active in the next window from the start.
            if accounts[tenant.index()].in_flight.present() > 0 {
                self.touch(tenant);
            }
        }
    }

    fn take_parts(&mut self, now: Nanos, length_ns: f64, accounts: &[Account]) -> Vec<Part> {
        let rows = &mut self.rows;
        let mut part_of = |tenant: &TenantId| {
            let (row, account) = (&mut rows[tenant.index()], &accounts[tenant.index()]);
            let backlogged = account.backlog.total(now);
            let part = Part {
                weight: f64::from(account.share.weight_milli.max(1)),
                delivered: (account.delivered_cost.0 - row.delivered_seen) as f64,
                unbacklogged: (account.delivered_unbacklogged.0 - row.unbacklogged_seen) as f64,
                backlogged: (backlogged.0 - row.backlogged_seen.0) as f64 / length_ns,
            };
            row.delivered_seen = account.delivered_cost.0;
            row.unbacklogged_seen = account.delivered_unbacklogged.0;
            row.backlogged_seen = backlogged;
            part
        };
        let mut parts: Vec<Part> = self.active.iter().map(&mut part_of).collect();
        let delivered: f64 = parts.iter().map(|part| part.delivered).sum();
        if delivered > 0.0 {
            for part in &mut parts {
                part.delivered /= delivered;
                part.unbacklogged /= delivered;
            }
        }
        parts
    }
}

fn windows(parts: &[Part]) -> impl Iterator<Item = ShareWindow> {
    let is_backlogged = |part: &Part| part.backlogged >= BACKLOGGED_MIN;
    let weights: Vec<f64> = parts.iter().map(|part| part.weight).collect();
    let demands: Vec<f64> = parts
        .iter()
        .map(|part| if is_backlogged(part) { f64::INFINITY } else { part.delivered })
        .collect();
    let granted = water_fill(&weights, &demands, 1.0);
    let weight_sum: f64 = weights.iter().sum();
    // Those whose demand was not met, and what they have together, is what one more would share.
    let unmet = |index: &usize| granted[*index] < demands[*index];
    let weight_unmet: f64 = (0..parts.len()).filter(unmet).map(|index| weights[index]).sum();
    let granted_unmet: f64 = (0..parts.len()).filter(unmet).map(|index| granted[index]).sum();
    let entitled: Vec<f64> = (0..parts.len())
        .map(|index| {
            let plain = weights[index] / weight_sum;
            let filled = if unmet(&index) {
                granted[index]
            } else if weight_unmet == 0.0 {
                // Nobody was backlogged: what anybody would have asked for is not known.
                plain
            } else {
                let pool = granted_unmet + granted[index];
                pool * weights[index] / (weight_unmet + weights[index])
            };
            plain.max(filled)
        })
        .collect();
    parts.iter().zip(entitled).map(|(part, entitled)| {
        let attainable = part.backlogged * entitled + part.unbacklogged;
        ShareWindow {
            delivered: part.delivered,
            entitled,
            attainable: attainable.min(1.0).max(part.delivered),
            backlogged: part.backlogged.min(1.0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(weight: f64, delivered: f64, unbacklogged: f64, backlogged: f64) -> Part {
        Part { weight, delivered, unbacklogged, backlogged }
    }

    fn rounded(parts: &[Part]) -> Vec<(f64, f64)> {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        windows(parts).map(|one| (round(one.entitled), round(one.attainable))).collect()
    }

    #[test]
    fn the_example_of_the_module() {
        let shares = rounded(&[part(16.0, 0.84, 0.28, 0.6), part(1.0, 0.16, 0.0, 1.0)]);
        assert_eq!(shares, [(0.941, 0.845), (0.059, 0.16)]);
    }

    #[test]
    fn what_a_quiet_tenant_leaves_is_divided_by_weight() {
        let quiet = part(8.0, 0.02, 0.02, 0.0);
        let hog = part(1.0, 0.49, 0.0, 1.0);
        let shares = rounded(&[quiet, hog, hog]);
        assert_eq!(shares, [(0.8, 0.02), (0.49, 0.49), (0.49, 0.49)]);
    }

    #[test]
    fn without_backlogs_entitled_is_the_plain_weight() {
        let shares = rounded(&[part(3.0, 0.5, 0.5, 0.0), part(1.0, 0.5, 0.5, 0.0)]);
        assert_eq!(shares, [(0.75, 0.5), (0.25, 0.5)]);
    }
}
