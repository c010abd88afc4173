//! What other gates before a device say otherwise than this one: another controller, another share
//! of a tenant. Their words count all the same; what is divided by them is not what anybody wrote.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::peers::Known;
use evenkeel_core::control::summary::HostId;

/// A difference to one other gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// It decides by another controller.
    Control(Method),
    /// It gives a tenant so many thousandths of a share.
    Share(TenantNumber, u32),
    /// Its policy says otherwise what requests cost than this gate's.
    Cost {
        /// What it says.
        other: ArrayCost,
        /// What this gate's says.
        own: ArrayCost,
    },
}

/// The differences that stand. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Agreement {
    methods: BTreeMap<HostId, Method>,
    standing: BTreeSet<(HostId, Difference)>,
}

impl Agreement {
    /// A gate has said by what it decides.
    pub(super) fn heard(&mut self, host: HostId, method: Method) {
        self.methods.insert(host, method);
    }

    /// Compares what all said last; returns what is new, by gate. `shares` are those of this gate,
    /// `cost` is what is known already.
    pub(super) fn compare(
        &mut self,
        own: HostId,
        method: Method,
        shares: &BTreeMap<TenantNumber, u32>,
        known: &[Known],
        cost: Option<(HostId, Difference)>,
    ) -> Vec<(HostId, Difference)> {
        let mut standing: BTreeSet<(HostId, Difference)> = cost.into_iter().collect();
        for summary in known.iter().map(|known| &known.summary).filter(|one| one.host != own) {
            let other = self.methods.get(&summary.host).filter(|other| **other != method);
            standing.extend(other.map(|other| (summary.host, Difference::Control(*other))));
            for flow in &summary.flows {
                let differs = shares.get(&flow.tenant).is_some_and(|own| *own != flow.weight_milli);
                let share = Difference::Share(flow.tenant, flow.weight_milli);
                standing.extend(differs.then_some((summary.host, share)));
            }
        }
        let before = std::mem::replace(&mut self.standing, standing);
        self.standing.difference(&before).copied().collect()
    }

    /// The differences that stand, by gate.
    pub(super) fn standing(&self) -> impl Iterator<Item = (HostId, Difference)> {
        self.standing.iter().copied()
    }
}

impl Difference {
    /// For people; `tenant` names a tenant of this gate and its share here.
    pub(super) fn text(
        self,
        gate: &str,
        own: Method,
        tenant: impl Fn(TenantNumber) -> (String, u32),
    ) -> String {
        match self {
            Self::Control(other) => {
                let (other, own) = (other.name(), own.name());
                format!("{gate} decides by {other}, this gate by {own}: use one `control`")
            }
            Self::Share(number, other_milli) => {
                let (name, own_milli) = tenant(number);
                let (other, own) = (share(other_milli), share(own_milli));
                format!("{gate} gives {name} a share of {other}, this gate {own}: use one `share`")
            }
            Self::Cost { other, own } => {
                let (what, [other, own]) = costs(&other, &own);
                format!("{gate} counts {what} at {other}, this gate at {own}: use one `cost`")
            }
        }
    }
}

/// What costs something else, and the two costs.
fn costs(other: &ArrayCost, own: &ArrayCost) -> (&'static str, [String; 2]) {
    let rate = |rate: Rate| format!("{} and {} KiB/s", rate.fixed, rate.rate_bytes >> 10);
    if other.read != own.read {
        ("reads", [rate(other.read), rate(own.read)])
    } else if other.write != own.write {
        ("writes", [rate(other.write), rate(own.write)])
    } else {
        ("flushes", [other.flush.to_string(), own.flush.to_string()])
    }
}

fn share(milli: u32) -> f64 {
    f64::from(milli) / 1000.0
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::array_cost::WRITTEN;
    use evenkeel_core::control::summary::{FlowSummary, Summary};
    use evenkeel_core::time::Span;

    use super::*;

    #[test]
    fn what_others_say_otherwise_is_told_once_and_stands_until_it_is_mended() {
        let db = TenantNumber::named("db");
        let shares = BTreeMap::from([(db, 3000)]);
        let mut agreement = Agreement::default();
        let mut compare = |method, weight_milli| {
            let flow = FlowSummary { tenant: db, weight_milli, ..FlowSummary::default() };
            let host = HostId(2);
            let summary = Summary { host, flows: vec![flow], ..Summary::default() };
            agreement.heard(host, method);
            let known = [Known { summary, missed: 0 }];
            let fresh = agreement.compare(HostId(1), Method::Shares, &shares, &known, None);
            let text = |(_, difference): (HostId, Difference)| {
                difference.text("two", Method::Shares, |_| ("db".to_owned(), 3000))
            };
            let standing: Vec<String> = agreement.standing().map(text).collect();
            (fresh.len(), standing)
        };
        assert_eq!(compare(Method::Shares, 3000), (0, vec![]));
        let said = "two gives db a share of 0.5, this gate 3: use one `share`".to_owned();
        assert_eq!(compare(Method::Shares, 500), (1, vec![said.clone()]));
        assert_eq!(compare(Method::Shares, 500), (0, vec![said]));
        let said = "two decides by drg, this gate by shares: use one `control`".to_owned();
        assert_eq!(compare(Method::Drg, 3000), (1, vec![said]));
        assert_eq!(compare(Method::Shares, 3000), (0, vec![]));
    }

    #[test]
    fn another_cost_is_told_with_both() {
        let rate = |ms| Rate { fixed: Span::from_millis(ms), rate_bytes: 1 << 20 };
        let cost = |read_ms, write_ms| ArrayCost {
            load_s: WRITTEN,
            read: rate(read_ms),
            write: rate(write_ms),
            flush: Span::ZERO,
        };
        let text = |other, own| {
            Difference::Cost { other, own }.text("two", Method::Shares, |_| unreachable!())
        };
        assert_eq!(
            text(cost(5, 9), cost(3, 9)),
            "two counts reads at 5 ms and 1024 KiB/s, this gate at 3 ms and 1024 KiB/s: use one \
             `cost`"
        );
        assert!(text(cost(3, 9), cost(3, 4)).contains("counts writes at 9 ms"));
    }
}
