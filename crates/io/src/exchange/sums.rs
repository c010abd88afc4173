//! This gate's part in the sums of a large site, at one device: whether it hears sums in place of
//! words, and those that it tells itself ([`evenkeel_core::control::sums`]).
//!
//! ```text
//!   common time   n x period            +1/4                +1/4           (n+1) x period
//!                 |--- words of n ------|--- sums of n -----|--- decide ----|
//! ```
//!
//! Only over a server that passes words on, and by shares; others hear words.

use evenkeel_core::control::pace;
use evenkeel_core::control::peers::{AHEAD_MAX, Refusal};
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_core::control::sums::{Hearing, SHARDS, Shard, Sum, Summing, began};
use evenkeel_core::time::Span;
use evenkeel_wire::exchange::Speaker;
use evenkeel_wire::exchange::roster::RosterDatagram;

/// For so many periods nobody begins to collect where no sum is heard at all: until the client has
/// noticed that its server does not answer.
const QUIET_FOR: u32 = 30;

/// A gate that starts waits so many periods for its server before it decides by itself alone.
const AWAY_FOR: u32 = 25;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Sums {
    own: HostId,
    hearing: Hearing,
    summing: Summing,
    /// Periods in a row without the server.
    away_for: u32,
    /// Periods in a row without any sum.
    quiet_for: u32,
    /// How many gates are in its shard, as far as it knows.
    in_shard: u32,
    /// The term and period of the last roster of the own shard.
    roster: (u64, u64),
    /// Whether this gate is in it.
    is_counted: bool,
    /// The period whose sum is to be told.
    due: Option<u64>,
}

impl Sums {
    pub(super) fn new(own: HostId) -> Self {
        Self {
            own,
            hearing: Hearing::default(),
            summing: Summing::new(own),
            away_for: 0,
            quiet_for: 0,
            in_shard: 0,
            roster: (0, 0),
            is_counted: false,
            due: None,
        }
    }

    /// Whether this gate decides by sums.
    pub(super) fn are_heard(&self) -> bool {
        self.hearing.hears_sums()
    }

    /// Whether words are added up in this site.
    pub(super) fn is_large(&self) -> bool {
        self.hearing.is_large()
    }

    /// Whether this gate adds up the words of its shard.
    pub(super) fn collects(&self) -> bool {
        self.summing.collects()
    }

    pub(super) fn shard(&self) -> Shard {
        self.summing.shard()
    }

    /// Whether this gate is in the sum of its shard, as far as it knows.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// How many gates the last sums are of.
    pub(super) fn gates(&self, period: u64) -> u32 {
        self.hearing.hosts(period)
    }

    /// Whether it does not hear yet what it could decide by, and the server is not away for good.
    pub(super) fn is_starting(&self, period: u64) -> bool {
        self.away_for < AWAY_FOR && self.hearing.is_starting(period)
    }

    /// Whether the words of all gates are to be heard.
    pub(super) fn hear_all(&self) -> bool {
        self.hearing.hears_all()
    }

    /// In which the words of a period go out, of so many parts each.
    pub(super) fn window(&self, length: Span, period: u64, parts: usize) -> Span {
        pace::window_with_sums(length, self.gates(period) as usize * parts)
    }

    /// The period of this number has ended, in which so many gates were heard by words, this one
    /// among them.
    pub(super) fn end_period(&mut self, period: u64, by_words: u32) {
        self.away_for = 0;
        if self.are_heard() && self.gates(period) == 0 && self.quiet_for < QUIET_FOR {
            // Not one of eight gates is heard: the server rather stands still.
            self.quiet_for += 1;
            return self.stop();
        }
        if self.gates(period) > 0 {
            self.quiet_for = 0;
        }
        self.hearing.end_period(period, by_words);
        self.in_shard = match self.hearing.in_shard(period) {
            Some((hosts, true)) => hosts,
            // Some shards tell first, and their collectors have not heard all.
            Some((hosts, false)) => hosts.max(self.in_shard),
            None if self.are_heard() => self.in_shard,
            None if self.hear_all() => by_words / SHARDS,
            None => by_words,
        };
        self.summing.expect(self.in_shard);
        if self.is_large() {
            self.summing.end_period(period);
        } else if self.collects() {
            self.summing = Summing::new(self.own);
        }
        self.due = self.collects().then_some(period);
    }

    /// A period has ended in which the server was away: that the others are silent says nothing of
    /// them, and what this gate adds up nobody hears.
    pub(super) fn skip_period(&mut self) {
        self.stop();
        self.away_for = self.away_for.saturating_add(1);
        // Who is connected again knows that the server goes.
        self.quiet_for = QUIET_FOR;
    }

    fn stop(&mut self) {
        self.summing = Summing::new(self.own);
        self.due = None;
    }

    /// Common time was moved.
    pub(super) fn count_anew(&mut self) {
        self.hearing.count_anew();
        self.roster = (0, 0);
        self.stop();
    }

    /// When in a period its sum goes out; none if it has, or if this gate does not collect.
    pub(super) fn due_at(&self, length: Span, window: Span) -> Option<Span> {
        self.due.map(|_| pace::decide_after(length, window))
    }

    /// The sum that is due.
    pub(super) fn take(&mut self) -> Option<Sum> {
        self.summing.sum(self.due.take()?)
    }

    /// A word of a gate came in while `period` is under way; none if this gate does not collect, or
    /// not of its shard.
    pub(super) fn hear_word(&mut self, period: u64, word: &Summary) -> Option<Result<(), Refusal>> {
        let is_own = Shard::of(word.host) == self.shard();
        (is_own && self.collects()).then(|| self.summing.hear_word(period, word.clone()))?
    }

    /// Another gate has proven that it lives in this life.
    pub(super) fn vouch(&mut self, host: HostId, incarnation: u64) {
        self.summing.vouch(host, incarnation);
    }

    /// A sum came in that may count.
    pub(super) fn hear_sum(&mut self, sum: &Summary) {
        let (Some(shard), hosts) = (Shard::of_sum(sum.host), sum.hosts()) else { return };
        // One summary of each sum counts the hosts.
        if hosts == 0 {
            return;
        }
        let is_news = self.hearing.hear_sum(shard, sum.incarnation, sum.period, hosts);
        if is_news && shard == self.shard() {
            self.summing.hear_sum(sum.incarnation, hosts);
        }
    }

    /// A part of a roster came in: whether it says something new of this gate.
    pub(super) fn hear_roster(&mut self, period: u64, roster: &RosterDatagram) -> bool {
        let is_now = roster.period.abs_diff(period) <= AHEAD_MAX
            && began(roster.term) <= period.saturating_add(2 * AHEAD_MAX);
        let is_own = Shard::of(roster.collector.0) == self.shard();
        let is_newer = (roster.term, roster.period) > self.roster;
        match roster.counts(self.own) {
            Some(is_counted) if is_now && is_own && is_newer => {
                self.roster = (roster.term, roster.period);
                std::mem::replace(&mut self.is_counted, is_counted) != is_counted
            }
            _ => false,
        }
    }
}

/// Whether a sum may count: it is current, and comes from a gate of its shard.
///
/// # Errors
/// Why it may not.
pub(super) fn check(period: u64, (host, _): Speaker, sum: &Summary) -> Result<(), Refusal> {
    if Shard::of_sum(sum.host) != Some(Shard::of(host)) {
        return Err(Refusal::Stranger);
    }
    let latest = period.saturating_add(AHEAD_MAX);
    // Who follows one whose clock was ahead begins a period later than that one.
    if sum.period > latest || began(sum.incarnation) > latest.saturating_add(AHEAD_MAX) {
        return Err(Refusal::Ahead);
    }
    if period > sum.period.saturating_add(AHEAD_MAX) {
        return Err(Refusal::Stale);
    }
    if !sum.is_plausible() {
        return Err(Refusal::Absurd);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::name::DeviceId;
    use evenkeel_core::control::summary::SumOf;

    use super::*;

    const OWN: HostId = HostId(1);
    const NOW: u64 = 17_952_900_123;

    /// A gate of this shard.
    fn gate_of(shard: Shard) -> HostId {
        (2..999).map(HostId).find(|host| Shard::of(*host) == shard).expect("one in eight")
    }

    fn sum(shard: Shard, began: u64, period: u64) -> Summary {
        let host = shard.hosts().next().expect("of each kind");
        let sum = Some(SumOf { hosts: 100, leader: HostId(9) });
        Summary { host, incarnation: began << 24, period, sum, ..Summary::default() }
    }

    /// Hears the sums of all shards at the end of each of these periods.
    fn hear(sums: &mut Sums, periods: std::ops::Range<u64>) {
        for period in periods {
            for shard in Shard::all() {
                sums.hear_sum(&sum(shard, NOW - 100, period));
            }
            sums.end_period(period, 1);
        }
    }

    #[test]
    fn a_sum_counts_if_a_gate_of_its_shard_tells_it_now() {
        let shard = Shard::all().nth(3).expect("there are eight");
        let (gate, other) = ((gate_of(shard), 1), (gate_of(Shard::of(OWN)), 1));
        let check = |period, began, gate| check(NOW, gate, &sum(shard, began, period));
        assert_eq!(check(NOW, NOW - 5, gate), Ok(()));
        assert_ne!(Shard::of(OWN), shard);
        assert_eq!(check(NOW, NOW - 5, other), Err(Refusal::Stranger));
        assert_eq!(check(NOW + 17, NOW - 5, gate), Err(Refusal::Ahead));
        assert_eq!(check(NOW - 17, NOW - 50, gate), Err(Refusal::Stale));
        assert_eq!(check(NOW, NOW + 33, gate), Err(Refusal::Ahead), "nobody could follow it");
        let mut absurd = sum(shard, NOW - 5, NOW);
        absurd.depth = u32::MAX;
        assert_eq!(super::check(NOW, gate, &absurd), Err(Refusal::Absurd));
    }

    #[test]
    fn the_newest_roster_of_its_shard_says_whether_it_is_counted() {
        let mut sums = Sums::new(OWN);
        let own = Shard::of(OWN);
        let mut roster = RosterDatagram {
            device: DeviceId(1),
            collector: (gate_of(own), 1),
            period: NOW,
            term: NOW << 24,
            first: HostId(0),
            last: HostId(u32::MAX),
            gates: vec![OWN],
        };
        assert!(sums.hear_roster(NOW, &roster) && sums.is_counted());
        roster.gates.clear();
        assert!(!sums.hear_roster(NOW, &roster) && sums.is_counted(), "it is no newer");
        roster.period += 1;
        roster.first = HostId(2);
        assert!(!sums.hear_roster(NOW, &roster), "another part");
        roster.first = OWN;
        roster.collector.0 = gate_of(Shard::all().find(|shard| *shard != own).expect("another"));
        assert!(!sums.hear_roster(NOW, &roster), "of another shard");
        roster.collector.0 = gate_of(own);
        assert!(sums.hear_roster(NOW, &roster) && !sums.is_counted());
        roster.term = (NOW + 99) << 24;
        roster.gates.push(OWN);
        assert!(!sums.hear_roster(NOW, &roster), "nobody could follow it");
    }

    #[test]
    fn who_is_cut_off_from_the_server_collects_nothing_and_goes_on_hearing_sums() {
        let mut sums = Sums::new(OWN);
        hear(&mut sums, NOW..NOW + 9);
        assert!(sums.are_heard() && !sums.collects() && sums.gates(NOW + 9) == 800);
        for _ in 0..500 {
            sums.skip_period();
        }
        assert!(sums.are_heard() && !sums.collects() && sums.due.is_none());
        hear(&mut sums, NOW + 509..NOW + 520);
        assert!(sums.are_heard() && !sums.collects());
        // Its shard falls silent: it waits as is its turn among a hundred.
        let begins = (NOW + 520..NOW + 560).position(|period| {
            let own = sums.shard();
            for shard in Shard::all().filter(|shard| *shard != own) {
                sums.hear_sum(&sum(shard, NOW - 100, period));
            }
            sums.end_period(period, 1);
            sums.collects()
        });
        assert!((3..=16).contains(&begins.expect("it begins")));
    }

    #[test]
    fn who_starts_without_a_server_waits_for_it_but_not_for_good() {
        let mut sums = Sums::new(OWN);
        for _ in 0..24 {
            sums.skip_period();
        }
        assert!(sums.is_starting(NOW));
        sums.skip_period();
        assert!(!sums.is_starting(NOW), "it decides by itself alone");
        sums.end_period(NOW, 1);
        assert!(sums.is_starting(NOW) && !sums.hear_all(), "it is there");
    }

    /// Eight hundred gates whose connections come back one after the other: in each shard few begin
    /// to collect, though the first sums are of a few gates.
    #[test]
    fn few_collect_where_connections_come_back_one_after_the_other() {
        let all: Vec<HostId> = (1..=800).map(HostId).collect();
        let mut gates: Vec<Sums> = all.iter().map(|gate| Sums::new(*gate)).collect();
        for sums in &mut gates {
            hear(sums, NOW..NOW + 9);
            sums.skip_period();
        }
        let mut most = 0;
        for period in NOW + 100..NOW + 160 {
            let is_back = |gate: HostId| NOW + 100 + u64::from(gate.0 % 25) <= period;
            let told: Vec<Summary> =
                gates.iter_mut().filter_map(Sums::take).flat_map(|sum| sum.words).collect();
            for sums in gates.iter_mut().filter(|sums| is_back(sums.own)) {
                for sum in &told {
                    sums.hear_sum(sum);
                }
                sums.end_period(period, 1);
                for host in all.iter().copied().filter(|host| is_back(*host)) {
                    let word = Summary { host, incarnation: 1, period, ..Summary::default() };
                    let _ = sums.hear_word(period, &word);
                }
            }
            most = most.max(gates.iter().filter(|sums| sums.collects()).count());
        }
        assert!(most <= 40, "{most} collected at once");
        assert_eq!(gates.iter().filter(|sums| sums.collects()).count(), 8);
        assert!(gates.iter().all(|sums| sums.are_heard() && sums.gates(NOW + 160) == 800));
    }
}
