//! A tenant's limit among the hosts where it asks.
//!
//! Whoever does not reach its part keeps a little more than it uses, and those that do share the
//! rest by their requests. While nobody reaches it the half goes by use and the half to all alike.
//!
//! ```text
//!   limit 120: host 2 uses 20 and has 22; the others have 98, by their 30 and 10 requests
//! ```

use super::division::Flow;

/// A flow below its part has this much of what it uses.
const HEADROOM: f64 = 1.1;

/// The parts of its limit that the flows of a tenant have, in their order; there is one at least.
pub(super) fn limit_parts(flows: &[&Flow]) -> Vec<f64> {
    let used: f64 = flows.iter().map(|flow| flow.rate).sum();
    let equal = 1.0 / flows.len() as f64;
    if used <= 0.0 {
        return vec![equal; flows.len()];
    }
    let (full, below): (Vec<&Flow>, Vec<&Flow>) = flows.iter().partition(|flow| flow.is_limited);
    if full.is_empty() {
        return flows.iter().map(|flow| f64::midpoint(flow.rate / used, equal)).collect();
    }
    let kept = |flow: &Flow| (HEADROOM * flow.rate / used).min(equal);
    let rest = 1.0 - below.iter().map(|flow| kept(flow)).sum::<f64>();
    let requests: f64 = full.iter().map(|flow| flow.requests()).sum();
    let part = |flow: &&Flow| {
        if flow.is_limited { rest * flow.requests() / requests } else { kept(flow) }
    };
    flows.iter().map(part).collect()
}
