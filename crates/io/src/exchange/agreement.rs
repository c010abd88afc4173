//! Whether other gates' policies say what this gate's does, for people: what differs, in words with
//! the remedy, once in the log and for as long as it does in the report.

use std::collections::BTreeMap;
use std::fmt::Display;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::control::agreement::{Agreement, Both, Difference};
use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::promise::{Promise, Rates, Told, Turns};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::control::target::{Bounds, Target};
use evenkeel_core::sched::{GOAL_WINDOW, Share};
use evenkeel_core::time::{Nanos, Span};

/// This gate's policy beside those of others. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Compared {
    method: Method,
    agreement: Agreement,
    turns: Turns,
    /// The same for the sums that this gate tells.
    sums: Turns,
    /// Names of this gate's tenants, by what all gates call them.
    pub(super) names: BTreeMap<TenantNumber, String>,
}

impl Compared {
    /// From now on this gate's policy says so.
    pub(super) fn change(&mut self, method: Method, tenants: &[(String, Share)]) {
        let promises = tenants.iter().map(|(name, share)| Promise::new(name, share));
        let promises: Vec<Promise> = promises.collect();
        self.method = method;
        self.agreement.change(method, &promises);
        self.names =
            tenants.iter().map(|(name, _)| (TenantNumber::named(name), name.clone())).collect();
        self.sums.change(promises.clone());
        self.turns.change(promises);
    }

    /// What the next word tells of it.
    pub(super) fn next_told(&mut self) -> Option<Told> {
        self.turns.next_told()
    }

    /// What the next sum tells of it.
    pub(super) fn next_summed(&mut self) -> Option<Told> {
        self.sums.next_told()
    }

    /// A word of another gate was taken.
    pub(super) fn hear(&mut self, now: Nanos, host: HostId, method: Method, told: Option<&Told>) {
        if self.agreement.hear(now, host, method, told) {
            self.turns.begin();
            self.sums.begin();
        }
    }

    /// Forgets gates that are silent.
    pub(super) fn forget(&mut self, now: Nanos) {
        self.agreement.forget(now);
    }

    /// Says what has begun to differ; `of` is what is divided.
    pub(super) fn log(&mut self, of: &str, gate: impl Fn(HostId) -> String) {
        let (news, has_more) = self.agreement.news();
        for (host, difference) in news {
            tracing::warn!(of, "{}", self.text(&difference, &gate(host)));
        }
        if has_more {
            tracing::warn!(of, "policies of gates differ in more: `evenkeel ctl status` lists it");
        }
    }

    /// What differs now, in words.
    pub(super) fn lines(&self, gate: impl Fn(HostId) -> String) -> Vec<String> {
        let standing = self.agreement.standing();
        let standing = standing.map(|(host, difference)| self.text(&difference, &gate(host)));
        let omitted = self.agreement.omitted();
        let omitted = omitted.map(|host| format!("{} says more otherwise than this", gate(host)));
        standing.chain(omitted).collect()
    }

    /// What this gate calls a tenant.
    pub(super) fn name(&self, tenant: TenantNumber) -> String {
        let unknown = || format!("{:08x}", tenant.0);
        self.names.get(&tenant).cloned().unwrap_or_else(unknown)
    }

    fn text(&self, difference: &Difference, gate: &str) -> String {
        let given = |tenant: &TenantNumber, what: &str, [other, own]: [Option<String>; 2]| {
            let (name, own) = (self.name(*tenant), own.unwrap_or_else(|| "none".to_owned()));
            let other =
                other.map_or_else(|| format!("no {what}"), |it| format!("a {what} of {it}"));
            let word = what.split(' ').next().unwrap_or(what);
            format!("{gate} gives {name} {other}, this gate {own}: use one `{word}`")
        };
        match difference {
            Difference::Control(other) => {
                let (other, own) = (other.name(), self.method.name());
                format!("{gate} decides by {other}, this gate by {own}: use one `control`")
            }
            Difference::Share(tenant, both) => {
                let share = |milli: u32| Some((f64::from(milli) / 1000.0).to_string());
                given(tenant, "share", [both.other, both.own].map(share))
            }
            Difference::Goal(tenant, Both { other, own }) => given(
                tenant,
                "latency goal",
                [other, own].map(|goal| goal.as_ref().map(self::goal)),
            ),
            Difference::Floor(tenant, both) => given(tenant, "floor", rates(both)),
            Difference::Limit(tenant, both) => given(tenant, "limit", rates(both)),
            Difference::Name(Both { other, own }) => {
                format!(
                    "{gate} calls a tenant {other:?} that this gate calls {own:?}: use one name"
                )
            }
        }
    }
}

fn rates(both: &Both<Rates>) -> [Option<String>; 2] {
    [both.other, both.own].map(|Rates { requests, bytes }| {
        let requests = (requests > 0).then(|| format!("{requests} requests/s"));
        let bytes = (bytes > 0).then(|| format!("{}/s", Bytes(bytes)));
        let all: Vec<String> = requests.into_iter().chain(bytes).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    })
}

fn goal(target: &Target) -> String {
    let most = exact(target.latency_max);
    let bounds = match target.bounds {
        Bounds::Mean => most,
        Bounds::AllBut { late_milli } => {
            let percent = f64::from(1000 - late_milli) / 10.0;
            format!("{most} for {percent} %")
        }
    };
    if target.window == GOAL_WINDOW {
        bounds
    } else {
        format!("{bounds} over {}", exact(target.window))
    }
}

/// A time in whole numbers, so that two that differ look so.
fn exact(time: Span) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let is_whole = |(unit, _): &(u64, &str)| time.0.is_multiple_of(*unit);
    let (unit, name) = units.into_iter().find(is_whole).expect("one divides all");
    format!("{} {name}", time.0 / unit)
}

/// What two policies say that requests cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CostDifference {
    pub(super) other: ArrayCost,
    pub(super) own: ArrayCost,
}

impl CostDifference {
    /// For people.
    pub(super) fn text(&self, gate: &str) -> String {
        let Self { other, own } = self;
        let rate = |rate: Rate| format!("{} and {} KiB/s", rate.fixed, rate.rate_bytes >> 10);
        let (what, other, own): (_, Box<dyn Display>, Box<dyn Display>) = if other.read != own.read
        {
            ("reads", Box::new(rate(other.read)), Box::new(rate(own.read)))
        } else if other.write != own.write {
            ("writes", Box::new(rate(other.write)), Box::new(rate(own.write)))
        } else {
            ("flushes", Box::new(other.flush), Box::new(own.flush))
        };
        format!("{gate} counts {what} at {other}, this gate at {own}: use one `cost`")
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::array_cost::WRITTEN;
    use evenkeel_core::sched::{Floor, Limit};

    use super::*;

    /// What a gate says that gives `db` a share of 3 and this, of one that gives it that.
    fn said(own: Share, other: Share) -> Vec<String> {
        let mut compared = Compared::default();
        compared.change(Method::Shares, &[("db".to_owned(), own)]);
        let told = Told { begins: true, promises: vec![Promise::new("db", &other)] };
        compared.hear(Nanos(1), HostId(2), Method::Shares, Some(&told));
        compared.lines(|_| "two".to_owned())
    }

    #[test]
    fn each_difference_is_told_with_both_values_and_the_remedy() {
        let own = Share { weight_milli: 3000, ..Share::default() };
        assert_eq!(said(own, own), Vec::<String>::new());
        let half = Share { weight_milli: 500, ..own };
        assert_eq!(said(own, half), ["two gives db a share of 0.5, this gate 3: use one `share`"]);
        let goal = Share { latency_goal: Span::from_millis(20), ..own };
        let most = Share {
            latency_goal: Span::from_micros(20_500),
            goal_bounds: Bounds::AllBut { late_milli: 10 },
            goal_window: Span::from_secs(10),
            ..own
        };
        assert_eq!(
            [said(own, goal), said(goal, most), said(goal, own)].concat(),
            [
                "two gives db a latency goal of 20 ms, this gate none: use one `latency`",
                "two gives db a latency goal of 20500 us for 99 % over 10 s, this gate 20 ms: use \
                 one `latency`",
                "two gives db no latency goal, this gate 20 ms: use one `latency`",
            ]
        );
        let floor = Floor { rate_iops: 500, rate_bytes: 2 << 20 };
        let limit = Limit { rate_bytes: 1_000_000, ..Limit::default() };
        assert_eq!(
            said(own, Share { floor, limit, ..own }),
            [
                "two gives db a floor of 500 requests/s and 2 MiB/s, this gate none: use one \
                 `floor`",
                "two gives db a limit of 1 MB/s, this gate none: use one `limit`",
            ]
        );
    }

    #[test]
    fn another_controller_and_another_spelling_are_told() {
        let mut compared = Compared::default();
        compared.change(Method::Shares, &[("db-main".to_owned(), Share::default())]);
        let promises = vec![Promise::new("DB\u{202e}main", &Share::default())];
        let told = Told { begins: true, promises };
        compared.hear(Nanos(1), HostId(2), Method::Drg, Some(&told));
        assert_eq!(
            compared.lines(|_| "two".to_owned()),
            [
                "two decides by drg, this gate by shares: use one `control`",
                "two calls a tenant \"DB\\u{202e}main\" that this gate calls \"db-main\": use one \
                 name",
            ]
        );
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
        let text = |other, own| CostDifference { other, own }.text("two");
        assert_eq!(
            text(cost(5, 9), cost(3, 9)),
            "two counts reads at 5 ms and 1024 KiB/s, this gate at 3 ms and 1024 KiB/s: use one \
             `cost`"
        );
        assert!(text(cost(3, 9), cost(3, 4)).contains("counts writes at 9 ms"));
    }

    #[test]
    fn a_gate_that_is_heard_for_the_first_time_is_told_everything_again() {
        let mut compared = Compared::default();
        compared.change(Method::Shares, &[("db".to_owned(), Share::default())]);
        assert!(compared.next_told().is_some() && compared.next_told().is_none());
        compared.hear(Nanos(1), HostId(2), Method::Shares, None);
        assert!(compared.next_told().is_some() && compared.next_told().is_none());
    }
}
