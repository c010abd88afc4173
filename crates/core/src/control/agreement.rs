//! What the policies of other gates before an array say otherwise than the own one.
//!
//! Their words count all the same; what is divided by them is not what anybody wrote. So each
//! difference is named: it begins to stand when a gate says so, and stands until that gate says
//! what the own policy says, or no longer says it ([`Told::begins`]), or is silent for
//! [`FORGOTTEN_AFTER`].
//!
//! ```text
//!   own policy       db: share 3           db: share 3
//!   gate two tells   db: share 4           DB: share 3
//!   what stands      two, db, share 4      two calls db "DB"
//! ```
//!
//! A gate that tells nonsense can make others neither keep nor say much: there are bounds for what
//! stands, by gate and in all, and for what is news.

use std::collections::BTreeMap;

use super::member::Method;
use super::name::TenantNumber;
use super::promise::{Promise, Rates, Told};
use super::summary::HostId;
use super::target::Target;
use crate::time::{Nanos, Span};

/// The most that stands of one gate.
pub const OF_GATE_MAX: usize = 16;

/// The most that stands of all gates together.
pub const OF_ALL_MAX: usize = 256;

/// So many differences are news in [`NEWS_WITHIN`].
pub const NEWS_MAX: usize = 16;

/// The time after which there may be as much news again.
pub const NEWS_WITHIN: Span = Span::from_secs(600);

/// What a gate said counts for so long after its last word; periods are shorter.
pub const FORGOTTEN_AFTER: Span = Span::from_secs(60);

/// What another gate says, and what the own policy does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It decides by another controller.
    Control(Method),
    /// Shares of a tenant, in thousandths.
    Share(TenantNumber, Both<u32>),
    /// Latency goals of a tenant.
    Goal(TenantNumber, Both<Option<Target>>),
    /// Floors of a tenant.
    Floor(TenantNumber, Both<Rates>),
    /// Limits of a tenant.
    Limit(TenantNumber, Both<Rates>),
    /// Names of a tenant that are alike but for case and signs.
    Name(Both<String>),
}

/// Two sides of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Both<T> {
    /// What the other gate says.
    pub other: T,
    /// What the own policy says.
    pub own: T,
}

impl<T: PartialEq> Both<T> {
    /// The two, if they are not the same.
    fn unlike(other: T, own: T) -> Option<Self> {
        (other != own).then_some(Self { other, own })
    }
}

/// What a difference is about: there is one for each of a gate.
type Subject = (TenantNumber, u8);

#[derive(Clone, Debug, Default)]
struct Other {
    heard: Nanos,
    method: Option<Method>,
    /// Rounds through its tenants that have begun.
    round: u64,
    standing: BTreeMap<Subject, Standing>,
    /// In which round there was no room for more.
    omitted: Option<u64>,
}

/// One difference, and the round in which it was said last.
#[derive(Clone, Debug)]
struct Standing {
    /// None where a gate has an own tenant's name and another spelling of it too: two tenants.
    difference: Option<Difference>,
    round: u64,
}

/// What differs. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    method: Method,
    own: BTreeMap<TenantNumber, Promise>,
    /// The own tenants by what is left of their names without case and signs.
    folded: BTreeMap<String, TenantNumber>,
    others: BTreeMap<HostId, Other>,
    /// What stood at the beginning of the period, and what has begun to since.
    count: usize,
    /// What has begun to stand since it was asked for.
    news: Vec<(HostId, Difference)>,
    /// When counting of news began, and how much there was.
    counted: (Nanos, usize),
    /// There was more than [`NEWS_MAX`].
    has_more: bool,
}

impl Agreement {
    /// From now on this is what the own policy says. If that is something else than before, what
    /// others say is to be compared anew.
    pub fn change(&mut self, method: Method, promises: &[Promise]) {
        let own: BTreeMap<_, _> = promises.iter().map(|one| (one.tenant, one.clone())).collect();
        if (method, &own) == (self.method, &self.own) {
            return;
        }
        let folded = promises.iter().filter_map(|one| Some((one.folded()?, one.tenant)));
        (self.folded, self.method, self.own) = (folded.collect(), method, own);
        self.others.clear();
        self.count = 0;
    }

    /// A gate has said how it decides, and perhaps what its policy says of some tenants. True if it
    /// was silent until now.
    pub fn hear(&mut self, now: Nanos, host: HostId, method: Method, told: Option<&Told>) -> bool {
        let other = self.others.entry(host).or_default();
        let is_new = other.method.is_none() || now.since(other.heard) >= FORGOTTEN_AFTER;
        if is_new {
            *other = Other::default();
        }
        other.heard = now;
        let has_changed = other.method.replace(method) != Some(method);
        if let Some(told) = told {
            other.turn(told.begins);
        }
        if has_changed && method != self.method {
            self.tell(now, host, Difference::Control(method));
        }
        for promise in told.map_or(&[][..], |told| &told.promises) {
            self.compare(now, host, promise);
        }
        is_new
    }

    /// Forgets gates that are silent; to be called once a period.
    pub fn forget(&mut self, now: Nanos) {
        self.others.retain(|_, other| now.since(other.heard) < FORGOTTEN_AFTER);
        self.count = self.others.values().map(|other| other.standing.len()).sum();
    }

    fn compare(&mut self, now: Nanos, host: HostId, told: &Promise) {
        let tenant = told.tenant;
        let found: Vec<(Subject, Option<Difference>)> = match self.own.get(&tenant) {
            Some(own) => differences(told, own).into_iter().collect(),
            None => self.spelling(told).into_iter().collect(),
        };
        for (subject, difference) in found {
            self.settle(now, host, subject, difference);
        }
    }

    /// Whether a name that is unknown here is one of the own names in another spelling.
    fn spelling(&self, told: &Promise) -> Option<(Subject, Option<Difference>)> {
        let own = self.own.get(self.folded.get(&told.folded()?)?)?;
        let names = Both { other: told.name.clone(), own: own.name.clone() };
        Some(((own.tenant, NAME), Some(Difference::Name(names))))
    }

    fn settle(&mut self, now: Nanos, host: HostId, subject: Subject, found: Option<Difference>) {
        let other = self.others.get_mut(&host).expect("it is heard");
        let (round, known) = (other.round, other.standing.get_mut(&subject));
        let Some(difference) = found else {
            match known {
                Some(known) if subject.1 == NAME => *known = Standing { difference: None, round },
                _ => _ = other.standing.remove(&subject),
            }
            return;
        };
        if let Some(known) = known {
            if known.difference.is_some() {
                *known = Standing { difference: Some(difference), round };
            }
        } else if other.standing.len() < OF_GATE_MAX && self.count < OF_ALL_MAX {
            self.count += 1;
            let standing = Standing { difference: Some(difference.clone()), round };
            other.standing.insert(subject, standing);
            self.tell(now, host, difference);
        } else {
            other.omitted = Some(round);
        }
    }

    /// Something is news, as long as there is not too much of it.
    fn tell(&mut self, now: Nanos, host: HostId, difference: Difference) {
        if now.since(self.counted.0) >= NEWS_WITHIN {
            self.counted = (now, 0);
        }
        self.counted.1 += 1;
        if self.counted.1 <= NEWS_MAX {
            self.news.push((host, difference));
        } else if self.counted.1 == NEWS_MAX + 1 {
            self.has_more = true;
        }
    }

    /// What has begun to stand since this was asked last, at most [`NEWS_MAX`], and whether there
    /// is more, which is left out for [`NEWS_WITHIN`].
    pub fn news(&mut self) -> (Vec<(HostId, Difference)>, bool) {
        (std::mem::take(&mut self.news), std::mem::take(&mut self.has_more))
    }

    /// What stands, by gate.
    pub fn standing(&self) -> impl Iterator<Item = (HostId, Difference)> {
        self.others.iter().flat_map(|(host, other)| {
            let method = other.method.filter(|method| *method != self.method);
            let of_tenants = other.standing.values().filter_map(|one| one.difference.clone());
            method.map(Difference::Control).into_iter().chain(of_tenants).map(|one| (*host, one))
        })
    }

    /// Gates that say more otherwise than stands.
    pub fn omitted(&self) -> impl Iterator<Item = HostId> {
        self.others.iter().filter(|(_, other)| other.omitted.is_some()).map(|(host, _)| *host)
    }
}

impl Other {
    /// A word tells of tenants, and may begin a round. What was said neither in the round that has
    /// ended nor in the one before is no longer said: in each of two words may have been lost.
    fn turn(&mut self, begins: bool) {
        if !begins {
            return;
        }
        self.round += 1;
        let is_said = |round: u64| round + 2 >= self.round;
        self.standing.retain(|_, standing| is_said(standing.round));
        self.omitted = self.omitted.filter(|round| is_said(*round));
    }
}

const SHARE: u8 = 0;
const GOAL: u8 = 1;
const FLOOR: u8 = 2;
const LIMIT: u8 = 3;
const NAME: u8 = 4;

/// Whether two policies say the same of a tenant, subject by subject.
fn differences(other: &Promise, own: &Promise) -> [(Subject, Option<Difference>); 5] {
    let tenant = own.tenant;
    let share = Both::unlike(other.weight_milli, own.weight_milli);
    let goal = Both::unlike(other.target, own.target);
    let floor = Both::unlike(other.floor, own.floor);
    let limit = Both::unlike(other.limit, own.limit);
    [
        ((tenant, SHARE), share.map(|both| Difference::Share(tenant, both))),
        ((tenant, GOAL), goal.map(|both| Difference::Goal(tenant, both))),
        ((tenant, FLOOR), floor.map(|both| Difference::Floor(tenant, both))),
        ((tenant, LIMIT), limit.map(|both| Difference::Limit(tenant, both))),
        ((tenant, NAME), None),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{Floor, Limit, Share};

    const TWO: HostId = HostId(2);

    fn at_s(seconds: u64) -> Nanos {
        Nanos::ZERO + Span::from_secs(seconds)
    }

    fn told(promises: &[Promise]) -> Told {
        Told { begins: true, promises: promises.to_vec() }
    }

    fn db(share: &Share) -> Promise {
        Promise::new("db", share)
    }

    fn agreement(own: &[Promise]) -> Agreement {
        let mut agreement = Agreement::default();
        agreement.change(Method::Shares, own);
        agreement
    }

    fn standing(agreement: &Agreement) -> Vec<Difference> {
        agreement.standing().map(|(_, difference)| difference).collect()
    }

    #[test]
    fn each_promise_is_compared_and_told_once_with_both_values() {
        let own = Share::default();
        let number = TenantNumber::named("db");
        let goal = Share { latency_goal: Span::from_millis(20), ..own };
        let floor = Share { floor: Floor { rate_iops: 500, rate_bytes: 0 }, ..own };
        let limit = Limit { rate_bytes: 9, burst_bytes: 7, ..Limit::default() };
        let rates = |requests, bytes| Rates { requests, bytes };
        for (share, expected) in [
            (
                Share { weight_milli: 500, ..own },
                Difference::Share(number, Both { other: 500, own: 1000 }),
            ),
            (goal, Difference::Goal(number, Both { other: goal.target(), own: None })),
            (
                floor,
                Difference::Floor(number, Both { other: rates(500, 0), own: Rates::default() }),
            ),
            (
                Share { limit, ..own },
                Difference::Limit(number, Both { other: rates(0, 9), own: Rates::default() }),
            ),
        ] {
            let mut agreement = agreement(&[db(&own)]);
            for second in 0..3 {
                let told = told(&[db(&share)]);
                agreement.hear(at_s(second), TWO, Method::Shares, Some(&told));
            }
            assert_eq!(standing(&agreement), std::slice::from_ref(&expected));
            assert_eq!(agreement.news(), (vec![(TWO, expected)], false));
            agreement.hear(at_s(3), TWO, Method::Shares, Some(&told(&[db(&own)])));
            assert_eq!((standing(&agreement).len(), agreement.news().0.len()), (0, 0));
        }
    }

    #[test]
    fn bursts_are_of_a_gate_and_tenants_of_one_side_are_nobodys_business() {
        let burst = Limit { burst_requests: 9, ..Limit::default() };
        let mut agreement = agreement(&[db(&Share::default())]);
        let other = [
            db(&Share { limit: burst, ..Share::default() }),
            Promise::new("other", &Share::default()),
        ];
        agreement.hear(at_s(1), TWO, Method::Shares, Some(&told(&other)));
        assert!(standing(&agreement).is_empty());
    }

    #[test]
    fn another_spelling_of_a_name_is_named_with_both() {
        let promise = |name| Promise::new(name, &Share::default());
        let mut agreement = agreement(&[promise("db-main")]);
        let hear = |agreement: &mut Agreement, second, name| {
            agreement.hear(at_s(second), TWO, Method::Shares, Some(&told(&[promise(name)])));
        };
        hear(&mut agreement, 1, "DB_main");
        let names = Both { other: "DB_main".to_owned(), own: "db-main".to_owned() };
        assert_eq!(standing(&agreement), [Difference::Name(names)]);
        hear(&mut agreement, 2, "db-main");
        assert!(standing(&agreement).is_empty(), "it is mended");
        let _ = agreement.news();
        hear(&mut agreement, 3, "DB_main");
        assert!(standing(&agreement).is_empty(), "that gate has two tenants");
        for second in 4..7 {
            hear(&mut agreement, second, "DB_main");
        }
        assert_eq!((standing(&agreement).len(), agreement.news().0.len()), (1, 1), "it has not");
    }

    #[test]
    fn what_a_gate_no_longer_says_is_forgotten_and_so_is_one_that_is_silent() {
        let mut agreement = agreement(&[db(&Share::default())]);
        let other = db(&Share { weight_milli: 7, ..Share::default() });
        let nobody = Told { begins: true, promises: vec![Promise::new("x", &Share::default())] };
        agreement.hear(at_s(1), TWO, Method::Slack, Some(&told(&[other])));
        assert_eq!(standing(&agreement).len(), 2);
        agreement.hear(at_s(2), TWO, Method::Shares, Some(&nobody));
        agreement.hear(at_s(3), TWO, Method::Shares, Some(&nobody));
        assert_eq!(standing(&agreement).len(), 1, "a word may have been lost");
        agreement.hear(at_s(4), TWO, Method::Shares, Some(&nobody));
        assert!(standing(&agreement).is_empty());
        agreement.hear(at_s(5), TWO, Method::Drg, None);
        assert_eq!(standing(&agreement), [Difference::Control(Method::Drg)]);
        agreement.forget(at_s(65));
        assert!(standing(&agreement).is_empty());
    }

    #[test]
    fn another_policy_is_compared_anew() {
        let mut agreement = agreement(&[db(&Share::default())]);
        let share = Share { weight_milli: 7, ..Share::default() };
        agreement.hear(at_s(1), TWO, Method::Shares, Some(&told(&[db(&share)])));
        agreement.change(Method::Shares, &[db(&Share::default())]);
        assert_eq!(standing(&agreement).len(), 1, "nothing has changed");
        agreement.change(Method::Shares, &[db(&share)]);
        agreement.hear(at_s(2), TWO, Method::Shares, Some(&told(&[db(&share)])));
        assert!(standing(&agreement).is_empty());
    }

    #[test]
    fn gates_that_tell_nonsense_fill_neither_memory_nor_log() {
        let names: Vec<String> = (0..100).map(|index| format!("tenant-{index}")).collect();
        let promise = |name: &String, weight_milli| {
            Promise::new(name, &Share { weight_milli, ..Share::default() })
        };
        let own: Vec<Promise> = names.iter().map(|name| promise(name, 1)).collect();
        let mut agreement = agreement(&own);
        let (mut news, mut more) = (0, 0);
        for second in 0..100_u32 {
            let others: Vec<Promise> = names.iter().map(|name| promise(name, second)).collect();
            let method = Method::ALL[second as usize % Method::ALL.len()];
            for host in 0..50 {
                agreement.hear(at_s(second.into()), HostId(host), method, Some(&told(&others)));
            }
            agreement.forget(at_s(second.into()));
            let (told, has_more) = agreement.news();
            (news, more) = (news + told.len(), more + usize::from(has_more));
        }
        let of_tenants = |one: &Difference| !matches!(one, Difference::Control(_));
        let all = standing(&agreement);
        assert_eq!(all.iter().filter(|one| of_tenants(one)).count(), OF_ALL_MAX);
        assert_eq!((news, more), (NEWS_MAX, 1));
        assert_eq!(agreement.omitted().count(), 50);
        let of_one = agreement.others[&HostId(0)].standing.len();
        assert_eq!(of_one, OF_GATE_MAX);
    }
}
