//! `latency` of a tenant: a time, or a table that says what of a window it bounds.
//!
//! ```toml
//! latency = "20 ms"                                                  # the mean of a second
//! latency = { mean = "20 ms", window = "5 s" }
//! latency = { most = "50 ms", percentile = 99, window = "10 s" }     # all but 1 in 100
//! ```

use evenkeel_core::control::target::Bounds;
use evenkeel_core::sched::{GOAL_WINDOW, Share};
use evenkeel_core::time::Span;
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::Fields;
use super::values;
use crate::units;

/// Part of a percent in the thousandths of a percent that percentiles are read in.
const MILLI_PERCENT_ALL: u32 = 100_000;
const MILLI_PERCENT_PER_MILLI: u32 = 100;

/// A goal and what it bounds.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    pub(super) latency: Span,
    pub(super) bounds: Bounds,
    pub(super) window: Span,
}

impl Goal {
    pub(super) fn read(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Self> {
        if !matches!(value.get_ref(), DeValue::Table(_)) {
            let latency = values::duration(value, out)?;
            return Some(Self { latency, bounds: Bounds::Mean, window: GOAL_WINDOW });
        }
        let mut fields = Fields::of("`latency`", value, out)?;
        let mean = fields.optional("mean", values::duration, out);
        let most = fields.optional("most", values::duration, out);
        let percentile = fields.optional("percentile", values::thousandths, out);
        let window = fields.optional("window", values::duration, out);
        fields.finish(out);
        let window = window.map_or(GOAL_WINDOW, Spanned::into_inner);
        if window == Span::ZERO {
            out.error(value.span(), "a window of no length", "write `window = \"1 s\"`");
        }
        let (latency, bounds) = match (mean, most, percentile) {
            (Some(mean), None, None) => (mean.into_inner(), Bounds::Mean),
            (None, Some(most), Some(percentile)) => (most.into_inner(), all_but(&percentile, out)?),
            _ => {
                let remedy =
                    "write `{ mean = \"20 ms\" }` or `{ most = \"50 ms\", percentile = 99 }`";
                out.error(value.span(), "this bounds neither a mean nor a percentile", remedy);
                return None;
            }
        };
        Some(Self { latency, bounds, window })
    }
}

fn all_but(percentile: &Spanned<u32>, out: &mut Diagnostics) -> Option<Bounds> {
    let late = MILLI_PERCENT_ALL.checked_sub(*percentile.get_ref());
    let late = late.filter(|late| late.is_multiple_of(MILLI_PERCENT_PER_MILLI));
    let late = late.and_then(|late| u16::try_from(late / MILLI_PERCENT_PER_MILLI).ok());
    let late = late.filter(|late| (1..=999).contains(late));
    if late.is_none() {
        let remedy = "write a number from 0.1 to 99.9 with one decimal at most";
        out.error(percentile.span(), "this is no percentile", remedy);
    }
    late.map(|late_milli| Bounds::AllBut { late_milli })
}

/// The goal of a share, as text.
pub(super) fn printed(share: &Share) -> String {
    let duration = |span| toml::Value::String(units::print_duration(span)).to_string();
    let (latency, window) = (duration(share.latency_goal), duration(share.goal_window));
    match share.goal_bounds {
        Bounds::Mean if share.goal_window == GOAL_WINDOW => latency,
        Bounds::Mean => format!("{{ mean = {latency}, window = {window} }}"),
        Bounds::AllBut { late_milli } => {
            let (whole, tenth) = ((1000 - late_milli) / 10, (1000 - late_milli) % 10);
            format!("{{ most = {latency}, percentile = {whole}.{tenth}, window = {window} }}")
        }
    }
}
