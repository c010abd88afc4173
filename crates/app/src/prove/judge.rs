//! Whether promises were kept, from status documents of some seconds in a row. Pure.
//!
//! | promise | shows where | is kept if |
//! |---|---|---|
//! | share | requests wait in nearly all of a second | 95 % of what the weight gives is there |
//! | limit | it was reached | no more was delivered than it and its burst let pass |
//! | floor | requests wait in nearly all of a second | 95 % of it was delivered |
//! | goal | 20 requests were answered, or more | the mean is below it, or all but a part |
//!
//! Shares and floors count on average over all such seconds.

use evenkeel_core::control::target::Bounds;
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Discipline, PROOF_PREFIX, Policy};
use serde::Serialize;

use crate::human;
use crate::status::{Amount, Domain, Status, Tenant};
use crate::units;

/// A second counts for shares and floors if requests waited for so great a part of it.
const BACKLOGGED_MIN: f64 = 0.9;
/// So many such seconds show something.
const SECONDS_MIN: usize = 3;
/// The part of a share or a floor that must be there.
const DUE_MIN: f64 = 0.95;
/// A limit that is reached to this part was put to the test, ..
const REACHED_MIN: f64 = 0.9;
/// .. and may be exceeded by this part: requests are counted when they are answered.
const EXCESS_MAX: f64 = 0.02;
/// So many answers show something of a goal.
const ANSWERS_MIN: u64 = 20;
/// What the promise of a response time is called.
const LATENCY: &str = "latency";
/// Times are known this exactly.
const RESOLUTION: f64 = 1.03;

/// One promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) domain: String,
    pub(super) tenant: String,
    /// In words.
    pub(super) promise: String,
    pub(super) verdict: Verdict,
    /// What shows it, and the cause where it was not kept.
    pub(super) figure: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Kept,
    NotKept,
    NothingToSee,
}

/// All promises of all tenants that have done anything since the gate started, in the documents'
/// order.
pub(super) fn all(policy: &Policy, documents: &[Status]) -> Vec<Row> {
    let last = documents.last().expect("there is one");
    let mut rows = Vec::new();
    for (place, domain) in last.domains.iter().enumerate() {
        for (row, tenant) in domain.tenants.iter().enumerate() {
            let Some(declared) = policy.tenants.iter().find(|one| one.name == tenant.name) else {
                continue;
            };
            // The two of `--load` are held to something else.
            if tenant.offered.requests == 0 || tenant.name.starts_with(PROOF_PREFIX) {
                continue;
            }
            let of = |status: &Status| {
                let domain = status.domains.get(place).filter(|one| one.name == domain.name)?;
                Some((status.uptime_seconds, domain.tenants.get(row)?.clone()))
            };
            let seen: Option<Vec<_>> = documents.iter().map(of).collect();
            let Some(seen) = seen.filter(|seen| seen.len() > 1) else { continue };
            let case = Case { policy, domain, share: &declared.share, seen: &seen };
            rows.extend(case.promises().map(|(promise, (verdict, figure))| Row {
                domain: domain.name.clone(),
                tenant: tenant.name.clone(),
                promise,
                verdict,
                figure: case.with_cause(verdict, figure),
            }));
        }
    }
    rows
}

/// The goal of some tenant that was late since the first of two instants, or since the second: only
/// the mean of some moments says something.
pub(super) fn late(policy: &Policy, since: [&Status; 2], now: &Status) -> Option<Row> {
    let late_since = |before: &Status| {
        let documents = [before.clone(), now.clone()];
        let is_late =
            |row: &Row| row.verdict == Verdict::NotKept && row.promise.starts_with(LATENCY);
        all(policy, &documents).into_iter().filter(is_late).collect::<Vec<_>>()
    };
    let is_of_mean = |row: &Row| {
        let mut tenants = policy.tenants.iter();
        tenants.any(|one| one.name == row.tenant && one.share.goal_bounds == Bounds::Mean)
    };
    let first = late_since(since[0]).into_iter().next();
    first.or_else(|| late_since(since[1]).into_iter().find(is_of_mean))
}

type Judged = (Verdict, String);

/// A tenant in a domain, as it was seen at some instants.
struct Case<'a> {
    policy: &'a Policy,
    domain: &'a Domain,
    share: &'a Share,
    seen: &'a [(f64, Tenant)],
}

impl Case<'_> {
    fn promises(&self) -> impl Iterator<Item = (String, Judged)> {
        let Share { limit, floor, latency_goal, .. } = *self.share;
        let share = format!("share {}", self.last().share);
        let rate = |word, rate| format!("{word} {}", units::print_rate(rate));
        let limits = units::amounts(limit.rate_bytes, limit.rate_iops).into_iter();
        let floors = units::amounts(floor.rate_bytes, floor.rate_iops).into_iter();
        let goal = (latency_goal > Span::ZERO)
            .then(|| (format!("{LATENCY} {latency_goal}"), self.goal(latency_goal)));
        std::iter::once((share, self.share()))
            .chain(limits.map(move |one| (rate("limit", one), self.limit(one))))
            .chain(floors.map(move |one| (rate("floor", one), self.floor(one))))
            .chain(goal)
    }

    fn last(&self) -> &Tenant {
        &self.seen[self.seen.len() - 1].1
    }

    fn with_cause(&self, verdict: Verdict, figure: String) -> String {
        let finding = &self.last().finding;
        match verdict {
            Verdict::NotKept if finding.is_below() => format!("{figure}; {}", finding.sentence),
            _ => figure,
        }
    }

    fn seconds(&self) -> f64 {
        self.seen[self.seen.len() - 1].0 - self.seen[0].0
    }

    /// Those seconds of which nearly all passed with requests waiting.
    fn backlogged(&self) -> impl Iterator<Item = &Tenant> {
        let seen = self.seen[1..].iter().map(|(_, tenant)| tenant);
        seen.filter(|tenant| tenant.window.backlogged >= BACKLOGGED_MIN)
    }

    fn share(&self) -> Judged {
        let disciplines = self.domain.servers.iter().map(|server| server.discipline.as_str());
        let has =
            |discipline: Discipline| disciplines.clone().any(|name| name == discipline.name());
        if has(Discipline::Fifo) {
            let figure = "discipline fifo serves by arrival: nobody has a share";
            return (Verdict::NotKept, figure.to_owned());
        }
        if self.domain.allocation.is_some() || has(Discipline::Shared) {
            return nothing("weights alone do not say what it is due here");
        }
        let is_promised = |tenant: &Tenant| {
            let declared = self.policy.tenants.iter().find(|one| one.name == tenant.name);
            declared.is_some_and(|one| {
                let floor = one.share.floor;
                let has_floor = has(Discipline::Mclock) && floor.rate_iops + floor.rate_bytes > 0;
                has_floor || has(Discipline::Edf) && one.share.latency_goal > Span::ZERO
            })
        };
        if self.domain.tenants.iter().any(is_promised) {
            return nothing("floors and deadlines go first");
        }
        let count = self.backlogged().count();
        if count < SECONDS_MIN {
            return nothing("it seldom had requests waiting");
        }
        let mean = |of: fn(&Tenant) -> f64| self.backlogged().map(of).sum::<f64>() / count as f64;
        let (has, due) = (mean(|one| one.window.delivered), mean(|one| one.window.entitled));
        let figure = format!(
            "{} of {} due, in {count} s with requests waiting",
            human::percent(has),
            human::percent(due)
        );
        (kept(has >= DUE_MIN * due), figure)
    }

    fn limit(&self, limit: units::Amount) -> Judged {
        let (rate, burst) = match limit {
            units::Amount::Requests(rate) => (rate, self.share.limit.burst_requests),
            units::Amount::Bytes(rate) => (rate, self.share.limit.burst_bytes),
        };
        let delivered = delivered(limit, &self.seen[0].1, self.last());
        // A limit holds at each server of a domain where they are ordered each by itself.
        let is_together = self.domain.allocation.is_some();
        let servers = if is_together { 1.0 } else { self.domain.servers.len().max(1) as f64 };
        // A burst may go on by the request that ends it.
        let last = match limit {
            units::Amount::Requests(_) => 1,
            units::Amount::Bytes(_) => {
                self.domain.servers.iter().map(|server| server.unit_bytes).max().unwrap_or(0)
            }
        };
        let allowed = rate as f64 * self.seconds() * servers;
        let figure = format!("{} on average", per_second(limit, delivered / self.seconds()));
        if delivered > allowed * (1.0 + EXCESS_MAX) + (burst + last) as f64 * servers {
            return (Verdict::NotKept, figure);
        }
        let is_held = self.last().throttled_seconds > self.seen[0].1.throttled_seconds;
        if is_held || delivered >= REACHED_MIN * allowed {
            return (Verdict::Kept, figure);
        }
        nothing(&format!("it asked for less: {figure}"))
    }

    fn floor(&self, floor: units::Amount) -> Judged {
        let (units::Amount::Requests(rate) | units::Amount::Bytes(rate)) = floor;
        let (mut sum, mut seconds, mut count) = (0.0, 0.0, 0);
        for pair in self.seen.windows(2) {
            let [(then, before), (now, after)] = pair else { continue };
            if after.window.backlogged >= BACKLOGGED_MIN {
                sum += delivered(floor, before, after);
                seconds += now - then;
                count += 1;
            }
        }
        if count < SECONDS_MIN {
            return nothing("it seldom had requests waiting");
        }
        let mean = sum / seconds;
        let figure = format!("{} in {count} s with requests waiting", per_second(floor, mean));
        (kept(mean >= DUE_MIN * rate as f64), figure)
    }

    fn goal(&self, goal: Span) -> Judged {
        let (before, after) = (&self.seen[0].1.total_time, &self.last().total_time);
        let answers = after.count.saturating_sub(before.count);
        if answers < ANSWERS_MIN {
            return nothing("it asked for too little");
        }
        match self.share.goal_bounds {
            Bounds::Mean => {
                let sum = |times: &crate::status::Times| {
                    times.mean_seconds.unwrap_or(0.0) * times.count as f64
                };
                let mean_seconds = (sum(after) - sum(before)) / answers as f64;
                let mean = crate::ctl::seconds(mean_seconds);
                let figure = format!("{mean} on average, of {answers} answers");
                (kept(mean_seconds <= goal.as_secs_f64()), figure)
            }
            Bounds::AllBut { late_milli } => {
                let in_time = |times: &crate::status::Times| {
                    let bound = goal.0 as f64 * RESOLUTION;
                    let until = times.buckets.iter().filter(|(at, _)| *at as f64 <= bound);
                    until.map(|(_, count)| count).sum::<u64>()
                };
                let in_time = in_time(after).saturating_sub(in_time(before)).min(answers);
                let late = (answers - in_time) as f64 / answers as f64;
                let figure = format!("{:.1}% late, of {answers} answers", late * 100.0);
                (kept(late <= f64::from(late_milli) / 1000.0), figure)
            }
        }
    }
}

fn kept(is_kept: bool) -> Verdict {
    if is_kept { Verdict::Kept } else { Verdict::NotKept }
}

fn nothing(why: &str) -> Judged {
    (Verdict::NothingToSee, why.to_owned())
}

/// What was delivered between two instants, in requests or bytes as these are counted.
fn delivered(counted: units::Amount, before: &Tenant, after: &Tenant) -> f64 {
    let of = |amount: &Amount| match counted {
        units::Amount::Requests(_) => amount.requests,
        units::Amount::Bytes(_) => amount.bytes,
    };
    of(&after.delivered).saturating_sub(of(&before.delivered)) as f64
}

fn per_second(counted: units::Amount, rate: f64) -> String {
    match counted {
        units::Amount::Requests(_) => format!("{} iops", human::count(rate)),
        units::Amount::Bytes(_) => human::byte_rate(rate),
    }
}

#[cfg(test)]
mod tests;
