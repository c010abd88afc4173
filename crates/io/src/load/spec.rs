//! What load to make: plain data, checked as a whole before anything connects.

use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{
    DEPTH_MAX, Layout, Mix, Pace, Pattern, SIZE_BYTES_MAX, Turn, WeightedSize,
};
use evenkeel_wire::nbd::uri::NbdUri;

use super::LoadError;

/// Clients that one plan may have.
pub const CLIENTS_MAX: u32 = 4096;

/// Several groups of clients, and when they run together.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// The groups; each stands for one tenant. They start together.
    pub groups: Vec<LoadSpec>,
    /// Time at the start that is not measured.
    pub ramp: Span,
    /// Time that is measured. `None` runs until each group has made its requests.
    pub runtime: Option<Span>,
    /// Width of one entry of the time series; at least 10 ms.
    pub interval: Span,
    /// Determines every offset, size, kind, arrival and payload.
    pub seed: u64,
    /// An interrupt (Ctrl-C) ends the load, and what was measured until then counts; a second one
    /// ends the process. Otherwise interrupts are none of the load's business.
    pub ends_on_interrupt: bool,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            ramp: Span::ZERO,
            runtime: Some(Span::from_secs(10)),
            interval: Span::from_secs(1),
            seed: 1,
            ends_on_interrupt: false,
        }
    }
}

/// What one group of equal clients does.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    /// Its name in the report.
    pub name: String,
    /// The exports to use.
    pub targets: Vec<NbdUri>,
    /// How the clients use several targets.
    pub layout: Layout,
    /// How many clients; each has its own connections.
    pub clients: u32,
    /// Requests that each client has under way at most.
    pub depth: u32,
    /// When the next request starts.
    pub arrivals: Arrivals,
    /// Sizes to draw from.
    pub sizes: Vec<WeightedSize>,
    /// Offsets to draw.
    pub pattern: Pattern,
    /// Part of the requests that read, 0 to 100; the others write.
    pub read_percent: u8,
    /// Flush after so many writes have been acknowledged; zero never flushes.
    pub flush_every: u32,
    /// Part of the writes that carry FUA, 0 to 100.
    pub fua_percent: u8,
    /// The part of each export to use; `None` uses all of it.
    pub range: Option<Range<u64>>,
    /// Requests of all clients together, flushes included; `None` is bounded by the runtime.
    pub requests: Option<u64>,
    /// Write marked content, check what is read, and read everything back at the end.
    pub verify: bool,
    /// Intervals, counted from the start, in which no request starts.
    pub idle: Vec<Range<Span>>,
}

impl Default for LoadSpec {
    /// One client that reads 4 KiB at random, one at a time.
    fn default() -> Self {
        Self {
            name: "load".to_owned(),
            targets: Vec::new(),
            layout: Layout::Spread,
            clients: 1,
            depth: 1,
            arrivals: Arrivals::Closed,
            sizes: vec![WeightedSize { size_bytes: 4096, weight: 1 }],
            pattern: Pattern::Uniform,
            read_percent: 100,
            flush_every: 0,
            fua_percent: 0,
            range: None,
            requests: None,
            verify: false,
            idle: Vec::new(),
        }
    }
}

/// When the next request starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// As soon as a previous one has ended.
    #[default]
    Closed,
    /// At equal distances, so many per second over all clients of the group.
    Constant {
        /// Requests per second.
        per_second: f64,
    },
    /// At random, memorylessly, so many per second on average.
    Poisson {
        /// Requests per second.
        per_second: f64,
    },
}

impl LoadPlan {
    /// Checks what can be checked before connecting.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let clients: u64 = self.groups.iter().map(|group| u64::from(group.clients)).sum();
        let whole = |what: &str| Err(LoadError::Plan { group: String::new(), what: what.into() });
        if self.groups.is_empty() {
            return whole("there is no group of clients");
        }
        if clients > u64::from(CLIENTS_MAX) {
            return whole("more than 4096 clients in all");
        }
        if self.interval < Span::from_millis(10) {
            return whole("the interval of the time series is below 10 ms");
        }
        self.groups.iter().try_for_each(|group| group.check(self.runtime))
    }
}

impl LoadSpec {
    fn check(&self, runtime: Option<Span>) -> Result<(), LoadError> {
        let sizes_ok =
            self.sizes.iter().all(|size| (1..=SIZE_BYTES_MAX).contains(&size.size_bytes));
        let pattern = self.pattern.fault();
        let rate_ok = |rate: f64| rate.is_finite() && rate > 0.0;
        let faults = [
            (self.targets.is_empty(), "it has no address to send to"),
            (self.clients == 0, "it has no clients"),
            (!(1..=DEPTH_MAX).contains(&self.depth), "its depth is not within 1 to 4096"),
            (self.sizes.is_empty() || !sizes_ok, "its sizes are not within 1 B to 32 MiB"),
            (self.sizes.iter().all(|size| size.weight == 0), "its sizes all have weight zero"),
            (self.read_percent > 100, "more than 100 percent of its requests read"),
            (self.fua_percent > 100, "more than 100 percent of its writes carry FUA"),
            (
                runtime.is_none() && self.requests.is_none(),
                "nothing ends it: give a runtime or a number of requests",
            ),
            (pattern.is_some(), pattern.unwrap_or_default()),
            (
                matches!(self.arrivals, Arrivals::Constant { per_second: rate }
                    | Arrivals::Poisson { per_second: rate } if !rate_ok(rate)),
                "its rate is not above zero",
            ),
            (self.targets.iter().any(|target| target.tls), "TLS is not offered here; use nbd://"),
            (
                self.verify && self.layout == Layout::Striped,
                "verifying needs the layout that is not striped",
            ),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, what)) => Err(self.fault((*what).to_owned())),
            None => Ok(()),
        }
    }

    pub(super) fn fault(&self, what: String) -> LoadError {
        LoadError::Plan { group: self.name.clone(), what }
    }

    pub(super) fn size_bytes_max(&self) -> u32 {
        self.sizes.iter().map(|size| size.size_bytes).max().unwrap_or(0)
    }

    pub(super) fn mix(&self) -> Mix<'_> {
        Mix {
            sizes: &self.sizes,
            pattern: self.pattern,
            read_percent: self.read_percent,
            fua_percent: self.fua_percent,
            flush_every: self.flush_every,
        }
    }

    /// When client `index` starts its requests, with the load beginning at `start`.
    pub(super) fn pace(&self, start: Nanos, index: u32, seed: u64) -> Pace {
        let turn = Turn { start, index, clients: self.clients };
        match self.arrivals {
            Arrivals::Closed => Pace::closed(),
            Arrivals::Constant { per_second } => Pace::constant(per_second, None, turn),
            Arrivals::Poisson { per_second } => Pace::poisson(per_second, turn, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_run_is_refused_with_the_reason() {
        let target: NbdUri = "nbd://127.0.0.1:1".parse().unwrap();
        let good = LoadSpec { targets: vec![target], ..LoadSpec::default() };
        let refusal = |change: fn(&mut LoadSpec)| {
            let mut group = good.clone();
            change(&mut group);
            let plan = LoadPlan { groups: vec![group], ..LoadPlan::default() };
            plan.check().err().map(|error| error.to_string())
        };
        assert_eq!(refusal(|_| ()), None);
        assert!(refusal(|group| group.depth = 0).unwrap().contains("depth"));
        assert!(refusal(|group| group.targets.clear()).unwrap().contains("address"));
        assert!(refusal(|group| group.sizes[0].size_bytes = 0).unwrap().contains("sizes"));
        let skewed = |group: &mut LoadSpec| group.pattern = Pattern::Zipf { theta: f64::NAN };
        assert!(refusal(skewed).unwrap().contains("skew"));
    }
}
