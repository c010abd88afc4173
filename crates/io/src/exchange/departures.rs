//! Words on their way out: each part of one goes to every peer at an instant of its own
//! ([`evenkeel_core::control::pace`]).

use std::collections::BTreeMap;

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::{Nanos, Span};

use super::transport::Topic;

/// One word in its parts, and who has still to get which, the next one last.
#[derive(Debug)]
struct Word {
    topic: Topic,
    parts: Vec<Vec<u8>>,
    to: Vec<(Nanos, HostId, usize)>,
}

/// The latest word on each device. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Departures(BTreeMap<DeviceId, Word>);

impl Departures {
    /// A word goes out from now on, each part to each after a time. Returns who has not got a part
    /// of the word before it on that device, once for each: it is no news any more.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        (device, topic): (DeviceId, Topic),
        parts: Vec<Vec<u8>>,
        to: impl IntoIterator<Item = (Span, HostId, usize)>,
    ) -> Vec<HostId> {
        let at = |(after, host, part)| (now + after, host, part);
        let mut to: Vec<_> = to.into_iter().map(at).collect();
        to.sort_unstable_by(|one, other| other.cmp(one));
        let before = self.0.insert(device, Word { topic, parts, to });
        before.map_or_else(Vec::new, |word| word.to.into_iter().map(|(_, host, _)| host).collect())
    }

    /// Who gets which part of a word now, and what it is about; none if nobody does yet.
    pub(super) fn due(&mut self, now: Nanos) -> Option<((HostId, Topic), &[u8])> {
        let mut words = self.0.values_mut();
        let word = words.find(|word| word.to.last().is_some_and(|(at, ..)| *at <= now))?;
        let (_, host, part) = word.to.pop().expect("it was found by its last");
        Some(((host, word.topic), &word.parts[part]))
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.values().filter_map(|word| word.to.last().map(|(at, ..)| *at)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceId = DeviceId(7);
    const TOPIC: Topic = Topic::Served(DEVICE);

    fn due(departures: &mut Departures, at: u64) -> Option<(HostId, u8)> {
        departures.due(Nanos(at)).map(|((host, topic), word)| {
            assert_eq!(topic, TOPIC);
            (host, word[0])
        })
    }

    #[test]
    fn each_gets_the_word_at_its_instant_and_an_old_word_goes_no_further() {
        let mut departures = Departures::default();
        let to = |first, last| [(Span(first), HostId(1), 0), (Span(last), HostId(2), 0)];
        assert!(
            departures.begin(Nanos(100), (DEVICE, TOPIC), vec![vec![1]], to(20, 10)).is_empty()
        );
        assert_eq!(departures.next(), Some(Nanos(110)));
        assert_eq!(due(&mut departures, 109), None);
        assert_eq!(due(&mut departures, 115), Some((HostId(2), 1)));
        assert_eq!(due(&mut departures, 115), None);
        let unsent = departures.begin(Nanos(116), (DEVICE, TOPIC), vec![vec![2]], to(0, 0));
        assert_eq!(unsent, [HostId(1)]);
        assert_eq!(due(&mut departures, 116), Some((HostId(1), 2)));
        assert_eq!(due(&mut departures, 116), Some((HostId(2), 2)));
        assert_eq!(due(&mut departures, 999), None);
        assert_eq!(departures.next(), None);
    }

    #[test]
    fn each_part_of_a_word_has_an_instant_of_its_own() {
        let mut departures = Departures::default();
        let to = [(Span(3), HostId(1), 0), (Span(1), HostId(1), 1)];
        departures.begin(Nanos(0), (DEVICE, TOPIC), vec![vec![1], vec![2]], to);
        assert_eq!(due(&mut departures, 2), Some((HostId(1), 2)));
        assert_eq!(due(&mut departures, 2), None);
        assert_eq!(due(&mut departures, 3), Some((HostId(1), 1)));
    }
}
