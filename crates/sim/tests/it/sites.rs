//! Sites drawn at random ([`evenkeel_sim::fleet::sites`]): shares, goals, waits and how soon all of
//! that is as it should be, up to 200 gates, with words lost, networks parted and clocks off.

use std::ops::Range;

use evenkeel_core::control::member::Method;
use evenkeel_core::fair::water_fill;
use evenkeel_core::time::Span;
use evenkeel_sim::fleet::sites::{LENGTH, Site, TROUBLE_AT, Trouble};
use evenkeel_sim::fleet::{Record, Second};

use crate::depths::percentile;

/// Time until shares are judged after the start, and after whatever has happened.
const SETTLING_S: u64 = 6;

/// Tenants that are due fewer requests in what is looked at are not judged by their share: chance
/// makes a tenth of them.
const REQUESTS_MIN: f64 = 100.0;

/// A mean goal is one that can be kept where it is so many times what a request takes, ..
const GOAL_MIN: u64 = 4;
/// .. and its tenant asks for this part of its share at most.
const MODEST: f64 = 0.85;

/// What came of a site.
struct Outcome {
    site: Site,
    record: Record,
}

impl Outcome {
    fn of(seed: u64, gates_max: u32, method: Method) -> Self {
        Self::run(Site::draw(seed, gates_max, method))
    }

    fn run(site: Site) -> Self {
        let record = site.fleet.run(site.device());
        Self { site, record }
    }

    fn sums(&self, seconds: &Range<u64>) -> Vec<Second> {
        let tenants = 0..self.record.tenants.len();
        tenants.map(|tenant| self.record.sum(tenant, seconds.start, seconds.end)).collect()
    }

    /// What each tenant asked for in these seconds, with what it had waiting before.
    fn asked(&self, seconds: &Range<u64>) -> Vec<f64> {
        let (before, now) = (self.sums(&(0..seconds.start)), self.sums(seconds));
        let waiting = before.iter().map(|sum| (sum.asked_ns - sum.cost_ns) as f64);
        now.iter().zip(waiting).map(|(now, waiting)| now.asked_ns as f64 + waiting).collect()
    }

    fn weights(&self) -> Vec<f64> {
        self.site.fleet.tenants.iter().map(|share| f64::from(share.weight_milli)).collect()
    }

    /// For each tenant what it asked, was due and got, in thousandths of all that was done.
    fn parts(&self, seconds: &Range<u64>) -> String {
        let served: Vec<f64> = self.sums(seconds).iter().map(|sum| sum.cost_ns as f64).collect();
        let all: f64 = served.iter().sum();
        let asked = self.asked(seconds);
        let due = water_fill(&self.weights(), &asked, all);
        let part = |of: f64| (1e3 * of / all).round();
        let tenants = asked.iter().zip(&due).zip(&served);
        let tenants = tenants.map(|((asked, due), served)| [*asked, *due, *served].map(part));
        tenants.map(|parts| format!("{parts:?}")).collect::<Vec<_>>().join(" ")
    }

    /// How far the tenant that is furthest off is from its due, in parts of it: by share of what
    /// was done, and no more than asked.
    fn error(&self, seconds: &Range<u64>) -> f64 {
        let sums = self.sums(seconds);
        let served: Vec<f64> = sums.iter().map(|sum| sum.cost_ns as f64).collect();
        let all: f64 = served.iter().sum();
        let completions: u64 = sums.iter().map(|sum| sum.completions).sum();
        let due = water_fill(&self.weights(), &self.asked(seconds), all);
        let least = REQUESTS_MIN * all / completions.max(1) as f64;
        let judged = due.iter().zip(&served).filter(|(due, _)| **due >= least);
        judged.map(|(due, served)| (served / due - 1.0).abs()).fold(0.0, f64::max)
    }

    /// What was done, in parts of what could be and was asked for.
    fn done(&self, seconds: &Range<u64>) -> f64 {
        let sums = self.sums(seconds);
        let completions: u64 = sums.iter().map(|sum| sum.completions).sum();
        let cost: u64 = sums.iter().map(|sum| sum.cost_ns).sum();
        let each = cost as f64 / completions.max(1) as f64;
        let asked = self.asked(seconds).iter().sum::<f64>() / each;
        let can = self.site.device.1 as f64 * (seconds.end - seconds.start) as f64;
        completions as f64 / asked.min(can)
    }

    /// Tenants whose goals can be kept, with their goals.
    fn promised(&self, seconds: &Range<u64>) -> Vec<(usize, Span)> {
        let sums = self.sums(seconds);
        let completions: u64 = sums.iter().map(|sum| sum.completions).sum();
        let cost: u64 = sums.iter().map(|sum| sum.cost_ns).sum();
        let each = cost as f64 / completions.max(1) as f64;
        let can = self.site.device.1 as f64 * (seconds.end - seconds.start) as f64 * each;
        let weights = self.weights();
        let all: f64 = weights.iter().sum();
        let asked = self.asked(seconds);
        let least = Span(GOAL_MIN * self.site.fixed().0);
        let tenants = self.site.fleet.tenants.iter().enumerate();
        let promised = tenants.filter(|(tenant, share)| {
            let is_modest = asked[*tenant] <= MODEST * can * weights[*tenant] / all;
            share.latency_goal > Span::ZERO && share.latency_goal >= least && is_modest
        });
        promised.map(|(tenant, share)| (tenant, share.latency_goal)).collect()
    }

    /// Windows of a second of goals that can be kept: broken, and all; and the longest wait of
    /// their tenants in goals.
    fn goals(&self, seconds: &Range<u64>) -> (u64, u64, f64) {
        let (mut broken, mut all, mut longest) = (0, 0, 0.0_f64);
        for (tenant, goal) in self.promised(seconds) {
            for second in seconds.clone() {
                let sum = self.record.sum(tenant, second, second + 1);
                if sum.completions > 0 {
                    all += 1;
                    broken += u64::from(sum.mean_s() > goal.as_secs_f64());
                    longest = longest.max(sum.longest.as_secs_f64() / goal.as_secs_f64());
                }
            }
        }
        (broken, all, longest)
    }

    /// What the site is, and how it went before whatever happened, for whoever looks into it.
    fn line(&self, seed: u64) -> String {
        let Site { fleet, device, trouble, .. } = &self.site;
        let before = SETTLING_S..TROUBLE_AT;
        let after = self.site.during.end + SETTLING_S..LENGTH.0 / 1_000_000_000;
        let (broken, all, longest) = self.goals(&after);
        let depth = self.record.depths.get(60).copied().unwrap_or(0);
        format!(
            "{seed}: {} gates, {device:?}, lost {}, delay {}, {trouble:?}: error {:.3} of {}, done \
             {:.2}, then broken {broken}/{all}, longest {longest:.1}, depth {depth}",
            fleet.gates,
            fleet.way.lost_milli,
            fleet.way.delay,
            self.error(&before),
            self.parts(&before),
            self.done(&before),
        )
    }

    /// Seconds from `from` on until shares are within a tenth in each three seconds before `until`.
    fn settled(&self, from: u64, until: u64) -> f64 {
        let is_off = |second: &u64| self.error(&(*second..second + 3)) > 0.1;
        (from..until - 2).rfind(is_off).map_or(0.0, |last| (last + 1 - from) as f64)
    }
}

/// Before, during and after what happens. The first seconds of a site are an overload, whose rest
/// is worked off before; after it there is none.
const WHEN: [&str; 3] = ["before", "during", "after"];

/// What came of sites under a method.
#[derive(Default)]
struct Figures {
    errors: [Vec<f64>; 3],
    done: Vec<f64>,
    /// Broken windows and all, before, during and after trouble.
    windows: [(u64, u64); 3],
    longest: Vec<f64>,
    settled: [Vec<f64>; 2],
}

impl Figures {
    fn of(method: Method, (gates_max, is_slow): (u32, bool), seeds: Range<u64>) -> Self {
        let mut figures = Self::default();
        for seed in seeds {
            if Site::draw(seed, gates_max, method).is_slow() != is_slow {
                continue;
            }
            let outcome = Outcome::of(seed, gates_max, method);
            println!("{}", outcome.line(seed));
            figures.add(&outcome);
        }
        figures
    }

    fn add(&mut self, outcome: &Outcome) {
        let end = LENGTH.0 / 1_000_000_000;
        let during = outcome.site.during.clone();
        let (before, after) = (SETTLING_S..TROUBLE_AT, during.end + SETTLING_S..end);
        self.errors[0].push(outcome.error(&before));
        self.done.push(outcome.done(&before));
        self.settled[0].push(outcome.settled(0, TROUBLE_AT));
        for (when, seconds) in [&before, &during, &after].into_iter().enumerate() {
            let (broken, all, longest) = outcome.goals(seconds);
            let windows = &mut self.windows[when];
            *windows = (windows.0 + broken, windows.1 + all);
            if when == 2 && all > 0 {
                self.longest.push(longest);
            }
        }
        if !during.is_empty() {
            self.errors[1].push(outcome.error(&during));
            self.settled[1].push(outcome.settled(during.end, end));
        }
        self.errors[2].push(outcome.error(&after));
    }

    /// Prints a line for each kind of figure; the part of the sites that are within a tenth before
    /// and after.
    fn show(&mut self, what: &str) -> [f64; 2] {
        let [before, _, after] = [0, 1, 2]
            .map(|when| shown(&format!("{what}: shares {}", WHEN[when]), &mut self.errors[when]));
        for (name, (broken, all)) in WHEN.into_iter().zip(self.windows) {
            let percent = 100.0 * broken as f64 / all.max(1) as f64;
            println!("{what}: {percent:.2} % of {all} windows broken {name}");
        }
        spread(&format!("{what}: longest wait in goals"), &mut self.longest);
        spread(&format!("{what}: done of what could be"), &mut self.done);
        let [start, trouble] = &mut self.settled;
        spread(&format!("{what}: seconds to settle from the start"), start);
        spread(&format!("{what}: seconds to settle after trouble"), trouble);
        [before, after]
    }
}

fn spread(what: &str, values: &mut [f64]) {
    if values.is_empty() {
        return println!("{what}: none");
    }
    let all = [5, 50, 90, 99].map(|percent| percentile(values, percent));
    println!("{what}: 5th, 50th, 90th, 99th percentile {all:.2?} of {}", values.len());
}

fn shown(what: &str, errors: &mut [f64]) -> f64 {
    let count = errors.len().max(1) as f64;
    let parts = [0.05, 0.1, 0.2]
        .map(|most| errors.iter().filter(|error| **error <= most).count() as f64 / count);
    spread(&format!("{what}: within 5, 10, 20 % {parts:.3?}"), errors);
    parts[1]
}

/// How many sites to draw, of up to how many gates: few small ones, unless `EVENKEEL_SITES` says
/// how many of up to 200.
#[expect(clippy::disallowed_methods, reason = "how many sites to draw")]
fn sites() -> (u64, u32) {
    let told = std::env::var("EVENKEEL_SITES").ok();
    told.map_or((8, 10), |count| (count.parse().expect("a number"), 200))
}

/// Eight sites, or as many as `EVENKEEL_SITES` says, by seeds on which nothing was fitted;
/// docs/shared-arrays.md has the figures of more.
#[test]
fn shares_and_goals_hold_over_sites_drawn_at_random() {
    let (count, gates_max) = sites();
    let seeds = 500_000..500_000 + count;
    let [before, after] =
        Figures::of(Method::Shares, (gates_max, false), seeds.clone()).show("shares");
    assert!(before >= 0.75 && after >= 0.75, "{before:.2} and {after:.2} within a tenth");
    // Nothing is promised there (docs/shared-arrays.md).
    Figures::of(Method::Shares, (gates_max, true), seeds).show("shares, slow devices");
}

/// The other controls beside it, at a quarter of the sites: in the ladder at one.
#[test]
fn other_controls_beside_shares_over_sites_drawn_at_random() {
    let (count, gates_max) = sites();
    for method in [Method::Slack, Method::Drg, Method::Parda, Method::Window] {
        let seeds = 500_000..500_000 + if gates_max < 200 { 1 } else { count.div_ceil(4) };
        Figures::of(method, (gates_max, false), seeds).show(method.name());
    }
}

/// How many gates hear sums, and how many of such sites to draw; one of 800 unless
/// `EVENKEEL_SUMS` says how many of 10,000.
#[expect(clippy::disallowed_methods, reason = "how many sites to draw")]
fn sites_with_sums() -> (u32, u64) {
    let told = std::env::var("EVENKEEL_SUMS").ok();
    told.map_or((800, 1), |count| (10_000, count.parse().expect("a number")))
}

/// Sites whose gates hear sums of others' words, by seeds on which nothing was fitted.
#[test]
fn shares_and_goals_hold_where_thousands_of_gates_hear_sums() {
    let (gates, count) = sites_with_sums();
    let mut figures = Figures::default();
    for seed in 900_000..900_000 + count {
        let outcome = Outcome::run(Site::draw_with_sums(seed, gates));
        println!("{}", outcome.line(seed));
        figures.add(&outcome);
    }
    let [before, after] = figures.show("sums");
    assert!(before >= 0.75 && after >= 0.75, "{before:.2} and {after:.2} within a tenth");
}

/// The same sites by words and by sums: what tenants get is the same.
#[test]
fn sums_divide_as_words_do() {
    for seed in 800_000..800_004 {
        let by_sums = Site::draw_with_sums(seed, 60);
        let mut by_words = by_sums.clone();
        by_words.fleet.hears_sums = false;
        let [by_sums, by_words] = [by_sums, by_words].map(Outcome::run);
        println!("{}\n{}", by_words.line(seed), by_sums.line(seed));
        let seconds = SETTLING_S..TROUBLE_AT;
        let (words, sums) = (by_words.error(&seconds), by_sums.error(&seconds));
        assert!(sums <= words + 0.05, "seed {seed}: {sums:.3}, by words {words:.3}");
    }
}

#[test]
fn a_clock_that_is_off_or_set_moves_no_shares() {
    let mut seeds = (700_000..).filter(|seed| {
        let site = Site::draw(*seed, 10, Method::Shares);
        site.fleet.way.lost_milli == 0 && site.device.1 == 2_000 && !site.is_slow()
    });
    for trouble in [Trouble::Off, Trouble::Step] {
        let is_such = |seed: &u64| Site::draw(*seed, 10, Method::Shares).trouble == trouble;
        for seed in seeds.by_ref().filter(is_such).take(2) {
            let outcome = Outcome::of(seed, 10, Method::Shares);
            for seconds in [SETTLING_S..TROUBLE_AT, TROUBLE_AT..TROUBLE_AT + 10, 30..45] {
                let error = outcome.error(&seconds);
                assert!(error < 0.05, "seed {seed}, {trouble:?}: {error:.3} in {seconds:?}");
            }
        }
    }
}
