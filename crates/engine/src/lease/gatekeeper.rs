//! The right to send: asked for every byte that goes to a server of a leased volume, immediately
//! before it goes.
//!
//! ```text
//!            look is good      claim, beat written            after a while a look is good
//! no right ----------------> fresh -------------> settling ------------------------------> held
//!    ^                          | the look is old    |                       beat written |  |
//!    +--------------------------+--------------------+------ hold is over ----------------+<-+
//!                                                    +------ another gate's term ---> out for good
//! ```
//!
//! A beat that was sent while the volume was held holds it on. One that was sent after that has to
//! settle, as a claim has: another gate may have claimed the volume since the look, and its owner
//! beats over what reaches the servers late.
//!
//! | what is sent | right that it takes |
//! |---|---|
//! | a look at the front of a server | none, unless out of office |
//! | a claim or a beat | held, or a fresh look at this very server |
//! | anything else: data, notes, heads, copies, replays, questions | held |
//!
//! Whoever asks gives the time by a clock that counts suspended time too. The gatekeeper knows no
//! clock; a gate that slept asks with a time that is past every right.

use evenkeel_core::time::Nanos;

use super::Times;
use super::rules::{Mutant, Rules};

/// What is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sending {
    /// A read of a server's front.
    Look,
    /// This gate's name on a server: a claim, or a beat.
    Claim,
    /// Anything else.
    Data,
}

/// Says what may be sent to the servers of one volume: nothing else than a look without a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gatekeeper {
    times: Times,
    /// By server: until when the last beat or claim that counts keeps others off.
    held: Vec<Nanos>,
    /// By server: a claim or a beat that does not count yet.
    settling: Vec<Option<Settling>>,
    /// By server: until when the last good look may be relied on.
    fresh: Vec<Nanos>,
    /// How many servers have to tell that the volume is ours.
    needed: usize,
    /// Until when so many of them do.
    until: Nanos,
    is_out: bool,
    pub(crate) rules: Rules,
}

/// A claim or a beat that has to stand for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settling {
    sent_at: Nanos,
    answered_at: Nanos,
}

impl Gatekeeper {
    /// Nothing is held yet of these servers.
    pub fn new(times: Times, servers: usize) -> Self {
        Self {
            times,
            held: vec![Nanos::ZERO; servers],
            settling: vec![None; servers],
            fresh: vec![Nanos::ZERO; servers],
            needed: servers,
            until: Nanos::ZERO,
            is_out: false,
            rules: Rules::default(),
        }
    }

    /// The spans of the lease.
    pub fn times(&self) -> Times {
        self.times
    }

    /// So many servers have to tell from now on that the volume is ours.
    pub fn need(&mut self, servers: usize) {
        assert!((1..=self.held.len()).contains(&servers), "there are servers, and not more");
        self.needed = servers;
        self.count();
    }

    /// Whether this may go to this server now.
    pub fn may_send(&self, now: Nanos, server: usize, what: Sending) -> bool {
        if self.is_unasked(what) {
            return true;
        }
        !self.is_out
            && match what {
                Sending::Look => true,
                Sending::Claim => now < self.until || now < self.fresh[server],
                Sending::Data => now < self.until,
            }
    }

    /// Until when the volume is ours.
    pub fn held_until(&self) -> Nanos {
        if self.is_out { Nanos::ZERO } else { self.until }
    }

    /// Whether another gate has had the volume since, so that it is not ours for good.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// A look at a server that was sent at this time found that it is ours, or may be claimed.
    pub fn looked(&mut self, server: usize, sent_at: Nanos) {
        let fresh = &mut self.fresh[server];
        *fresh = (*fresh).max(sent_at + self.times.fresh());
        let settle = self.times.settle();
        if let Some(one) = self.settling[server].take_if(|one| sent_at >= one.answered_at + settle)
        {
            self.hold(server, one.sent_at);
        }
    }

    /// A claim that was sent at this time has been written: it counts once it has settled.
    pub fn claimed(&mut self, server: usize, sent_at: Nanos, answered_at: Nanos) {
        self.settling[server] = Some(Settling { sent_at, answered_at });
    }

    /// A beat that was sent at this time has been written.
    pub fn beaten(&mut self, server: usize, sent_at: Nanos, answered_at: Nanos) {
        let was_held = sent_at < self.until;
        let is_settling =
            self.settling[server].is_some_and(|one| answered_at < one.sent_at + self.times.hold());
        if was_held {
            self.settling[server] = None;
            self.hold(server, sent_at);
        } else if !is_settling {
            self.claimed(server, sent_at, answered_at);
        }
    }

    /// Another gate has the volume, or has had it: nothing is sent any more.
    pub fn leave_office(&mut self) {
        self.is_out = true;
    }

    fn hold(&mut self, server: usize, sent_at: Nanos) {
        let held = &mut self.held[server];
        *held = (*held).max(sent_at + self.times.hold());
        self.count();
    }

    fn count(&mut self) {
        let mut latest_first = self.held.clone();
        latest_first.sort_unstable_by_key(|until| std::cmp::Reverse(*until));
        self.until = latest_first[self.needed - 1];
    }

    /// Whether a test has broken the rule that this needs a right.
    fn is_unasked(&self, what: Sending) -> bool {
        let is_data = what == Sending::Data && !self.is_out;
        is_data && self.rules.is_broken(Mutant::DataUnasked)
            || self.is_out && self.rules.is_broken(Mutant::StayIn)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::*;

    const TIMES: Times = Times::DEFAULT;

    fn at(millis: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(millis)
    }

    fn rights(keeper: &Gatekeeper, now: Nanos) -> [bool; 3] {
        [Sending::Look, Sending::Claim, Sending::Data].map(|what| keeper.may_send(now, 0, what))
    }

    #[test]
    fn a_look_gives_the_right_to_claim_for_a_while_and_a_claim_that_has_settled_the_right_to_all() {
        let mut keeper = Gatekeeper::new(TIMES, 1);
        assert_eq!(rights(&keeper, at(1000)), [true, false, false]);
        keeper.looked(0, at(1000));
        assert_eq!(rights(&keeper, at(3999)), [true, true, false]);
        assert_eq!(rights(&keeper, at(4000)), [true, false, false], "the look is too old");
        keeper.claimed(0, at(1400), at(1500));
        keeper.looked(0, at(2499));
        assert_eq!(keeper.held_until(), Nanos::ZERO, "it has not settled");
        keeper.looked(0, at(2500));
        assert_eq!(keeper.held_until(), at(4400));
        assert_eq!(rights(&keeper, at(4399)), [true; 3]);
        assert!(!keeper.may_send(at(4400), 0, Sending::Data), "asleep for too long");
    }

    #[test]
    fn a_beat_holds_on_what_was_held_and_has_to_settle_after_that() {
        let mut keeper = Gatekeeper::new(TIMES, 1);
        keeper.claimed(0, at(0), at(1));
        keeper.looked(0, at(1001));
        keeper.beaten(0, at(2999), at(9000));
        assert_eq!(keeper.held_until(), at(5999), "it counts from when it was sent");
        keeper.beaten(0, at(6000), at(6001));
        assert_eq!(keeper.held_until(), at(5999), "somebody may have claimed since the look");
        keeper.looked(0, at(7001));
        assert_eq!(keeper.held_until(), at(9000));
    }

    #[test]
    fn as_many_servers_have_to_tell_as_are_needed() {
        let mut keeper = Gatekeeper::new(TIMES, 3);
        keeper.need(2);
        for (server, sent_at) in [(2, 1000), (0, 2000)] {
            assert!(!keeper.may_send(at(1001), 2, Sending::Data), "the next gate may miss one");
            keeper.claimed(server, at(sent_at), at(sent_at));
            keeper.looked(server, at(sent_at + 1000));
        }
        assert_eq!(keeper.held_until(), at(4000), "the second best");
        assert!(keeper.may_send(at(3999), 1, Sending::Data));
    }

    #[test]
    fn whoever_is_out_of_office_sends_nothing_ever() {
        let mut keeper = Gatekeeper::new(TIMES, 1);
        keeper.claimed(0, at(0), at(1));
        keeper.looked(0, at(1001));
        keeper.leave_office();
        keeper.beaten(0, at(1100), at(1101));
        keeper.looked(0, at(1100));
        assert_eq!(rights(&keeper, at(1200)), [false; 3]);
        assert_eq!(keeper.held_until(), Nanos::ZERO);
    }
}
