//! Agreement: the policy of a merged trace is what the policies of its parts have in common.
//!
//! A part is under way from its first policy or request to its last request. Where all parts under
//! way were served under the same policy, to the letter, the whole was. Where not, none is known.
//!
//! ```text
//! a      P P P P P Q Q Q Q
//! b      P P P P P P Q Q Q Q Q Q Q
//! c                      Q Q Q Q Q Q Q
//! whole  P P P P P ? Q Q Q Q Q Q Q Q Q
//! ```

use std::collections::VecDeque;

use evenkeel_core::time::{Nanos, Span};

use crate::codec::RecordedPolicy;

/// What the parts of a merge agree on, from instant to instant.
#[derive(Clone, Debug)]
pub struct Agreement {
    parts: Vec<Part>,
    /// What was told last. Nothing says that none is known.
    told: Option<String>,
    /// The first instant at which parts that knew their policies knew different ones.
    differs_at: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    delay: Span,
    /// How many policies of the part were taken.
    taken: usize,
    /// What is to come, on the clock of the whole.
    coming: VecDeque<RecordedPolicy>,
    /// What is in force; nothing while it is not under way.
    in_force: Option<RecordedPolicy>,
    /// The instant of the last request offered, on the clock of the whole.
    last: Option<Nanos>,
    is_closed: bool,
}

impl Agreement {
    /// Of parts that are so much later than their own clocks say.
    pub fn new(delays: impl IntoIterator<Item = Span>) -> Self {
        let part = |delay| Part { delay, ..Part::default() };
        Self { parts: delays.into_iter().map(part).collect(), told: None, differs_at: None }
    }

    /// The next request of a part arrives at `at` on its own clock; `policies` are all that the
    /// part has told so far.
    pub fn offer(&mut self, part: usize, at: Nanos, policies: &[RecordedPolicy]) {
        let part = &mut self.parts[part];
        for policy in &policies[part.taken..] {
            let at = policy.at + part.delay;
            part.coming.push_back(RecordedPolicy { at, text: policy.text.clone() });
        }
        part.taken = policies.len();
        let at = at + part.delay;
        if part.last.is_none() && part.coming.front().is_none_or(|policy| policy.at > at) {
            // It is under way, and does not say under which policy.
            part.coming.push_front(RecordedPolicy { at, text: None });
        }
        part.last = Some(at);
    }

    /// A part has no more requests; its last one was given.
    pub fn close(&mut self, part: usize) {
        let part = &mut self.parts[part];
        part.is_closed = true;
        part.coming.clear();
    }

    /// The next request of the whole arrives at `at`: appends the policies that came into force up
    /// to then to `policies`.
    pub fn advance(&mut self, at: Nanos, policies: &mut Vec<RecordedPolicy>) {
        loop {
            let due = self.parts.iter().filter_map(|part| part.coming.front());
            let next = due.map(|policy| policy.at).filter(|&next| next <= at).min();
            let now = next.unwrap_or(at);
            for part in &mut self.parts {
                while let Some(policy) = part.coming.pop_front_if(|policy| policy.at <= now) {
                    part.in_force = Some(policy);
                }
                if part.is_closed && part.last.is_none_or(|last| last < now) {
                    part.in_force = None;
                }
            }
            self.tell(now, policies);
            if next.is_none() {
                return;
            }
        }
    }

    /// When parts were first under different policies; then none was told.
    pub fn differs_at(&self) -> Option<Nanos> {
        self.differs_at
    }

    fn tell(&mut self, now: Nanos, policies: &mut Vec<RecordedPolicy>) {
        let mut under_way =
            self.parts.iter().filter_map(|part| Some(&part.in_force.as_ref()?.text));
        let Some(first) = under_way.next() else { return };
        let mut others = under_way.filter(|text| *text != first).peekable();
        let is_agreed = others.peek().is_none();
        if !is_agreed && (first.is_some() || others.any(Option::is_some)) {
            self.differs_at.get_or_insert(now);
        }
        let text = first.as_ref().filter(|_| is_agreed);
        if self.told.as_ref() != text {
            self.told = text.cloned();
            policies.push(RecordedPolicy { at: now, text: self.told.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = (u64, Option<&'static str>);
    /// The policies of a part, and the instants of its requests.
    type Kept<'a> = (&'a [Told], &'a [u64]);

    /// Merges parts of policies and instants of requests; says which policy is in front of which.
    fn merged(delays: &[u64], parts: &[Kept<'_>]) -> (Vec<RecordedPolicy>, Option<u64>) {
        let mut agreement = Agreement::new(delays.iter().map(|&delay| Span(delay)));
        let policies: Vec<Vec<RecordedPolicy>> =
            parts.iter().map(|(told, _)| told.iter().copied().map(policy).collect()).collect();
        let mut next = vec![0; parts.len()];
        let mut offer = |agreement: &mut Agreement, part: usize| {
            let Some(&at) = parts[part].1.get(next[part]) else {
                agreement.close(part);
                return None;
            };
            // A decoder has told what came into force up to its next request.
            let known = policies[part].partition_point(|policy| policy.at.0 <= at);
            agreement.offer(part, Nanos(at), &policies[part][..known]);
            next[part] += 1;
            Some((at + delays[part], part))
        };
        let mut waiting: Vec<_> =
            (0..parts.len()).filter_map(|part| offer(&mut agreement, part)).collect();
        let mut told = Vec::new();
        while let Some(&(at, part)) = waiting.iter().min() {
            agreement.advance(Nanos(at), &mut told);
            waiting.retain(|&(_, other)| other != part);
            waiting.extend(offer(&mut agreement, part));
        }
        (told, agreement.differs_at().map(|at| at.0))
    }

    fn policy((at, text): Told) -> RecordedPolicy {
        RecordedPolicy { at: Nanos(at), text: text.map(str::to_owned) }
    }

    fn policies<const N: usize>(told: [Told; N]) -> Vec<RecordedPolicy> {
        told.into_iter().map(policy).collect()
    }

    const P: Option<&str> = Some("p");
    const Q: Option<&str> = Some("q");

    #[test]
    fn parts_under_the_same_policy_keep_it() {
        let part: Kept<'_> = (&[(0, P), (50, Q)], &[10, 40, 60]);
        assert_eq!(merged(&[0, 0], &[part, part]), (policies([(0, P), (50, Q)]), None));
    }

    #[test]
    fn none_is_known_while_parts_differ() {
        let (early, late): (Kept<'_>, Kept<'_>) =
            ((&[(0, P), (50, Q)], &[10, 60, 90]), (&[(0, P), (55, Q)], &[20, 70]));
        let expected = policies([(0, P), (50, None), (55, Q)]);
        assert_eq!(merged(&[0, 0], &[early, late]), (expected, Some(50)));
    }

    #[test]
    fn a_part_is_under_way_up_to_its_last_request_and_no_longer() {
        let (long, short): (Kept<'_>, Kept<'_>) = ((&[(0, P)], &[5, 9, 12]), (&[(0, Q)], &[9]));
        let expected = policies([(12, P)]);
        assert_eq!(merged(&[0, 0], &[short, long]), (expected, Some(0)));
    }

    #[test]
    fn the_pieces_of_a_trace_keep_the_policies_of_each() {
        let (first, second): (Kept<'_>, Kept<'_>) = ((&[(0, P)], &[0, 99]), (&[(0, Q)], &[1, 5]));
        let expected = policies([(0, P), (100, Q)]);
        assert_eq!(merged(&[0, 100], &[first, second]), (expected, None));
    }

    #[test]
    fn a_part_that_knows_no_policy_makes_it_unknown_as_long_as_it_lasts() {
        let (known, other): (Kept<'_>, Kept<'_>) = ((&[(0, P)], &[1, 9, 30, 40]), (&[], &[10, 20]));
        let expected = policies([(0, P), (10, None), (30, P)]);
        assert_eq!(merged(&[0, 0], &[known, other]), (expected, Some(10)));
        assert_eq!(merged(&[0, 0], &[other, other]), (vec![], None));
    }

    #[test]
    fn what_one_part_lost_to_damage_is_not_known_of_the_whole() {
        let (whole, damaged): (Kept<'_>, Kept<'_>) =
            ((&[(0, P)], &[1, 60]), (&[(0, P), (20, None), (50, P)], &[2, 25, 55]));
        let expected = policies([(0, P), (20, None), (50, P)]);
        assert_eq!(merged(&[0, 0], &[whole, damaged]), (expected, Some(20)));
    }
}
