//! Words on their way out: each goes to every peer at an instant of its own
//! ([`evenkeel_core::control::pace`]).

use std::collections::BTreeMap;

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::{Nanos, Span};

/// One word, and who has still to get it, the next one last.
#[derive(Debug)]
struct Word {
    bytes: Vec<u8>,
    to: Vec<(Nanos, HostId)>,
}

/// The latest word on each device. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Departures(BTreeMap<DeviceId, Word>);

impl Departures {
    /// A word goes out from now on, to each after a time. Returns who has not got the word before
    /// it on that device: it is no news any more.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        device: DeviceId,
        bytes: Vec<u8>,
        to: impl IntoIterator<Item = (Span, HostId)>,
    ) -> Vec<HostId> {
        let mut to: Vec<_> = to.into_iter().map(|(after, host)| (now + after, host)).collect();
        to.sort_unstable_by(|one, other| other.cmp(one));
        let before = self.0.insert(device, Word { bytes, to });
        before.map_or_else(Vec::new, |word| word.to.into_iter().map(|(_, host)| host).collect())
    }

    /// Who gets which word now; none if nobody does yet.
    pub(super) fn due(&mut self, now: Nanos) -> Option<(HostId, &[u8])> {
        let mut words = self.0.values_mut();
        let word = words.find(|word| word.to.last().is_some_and(|(at, _)| *at <= now))?;
        let (_, host) = word.to.pop().expect("it was found by its last");
        Some((host, &word.bytes))
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.values().filter_map(|word| word.to.last().map(|(at, _)| *at)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_the_word_at_its_instant_and_an_old_word_goes_no_further() {
        let mut departures = Departures::default();
        let to = |first, last| [(Span(first), HostId(1)), (Span(last), HostId(2))];
        assert!(departures.begin(Nanos(100), DeviceId(7), vec![1], to(20, 10)).is_empty());
        assert_eq!(departures.next(), Some(Nanos(110)));
        assert_eq!(departures.due(Nanos(109)), None);
        assert_eq!(departures.due(Nanos(115)), Some((HostId(2), &[1][..])));
        assert_eq!(departures.due(Nanos(115)), None);
        let unsent = departures.begin(Nanos(116), DeviceId(7), vec![2], to(0, 0));
        assert_eq!(unsent, [HostId(1)]);
        assert_eq!(departures.due(Nanos(116)), Some((HostId(1), &[2][..])));
        assert_eq!(departures.due(Nanos(116)), Some((HostId(2), &[2][..])));
        assert_eq!(departures.due(Nanos(999)), None);
        assert_eq!(departures.next(), None);
    }
}
