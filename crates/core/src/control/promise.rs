//! What a policy says of a tenant, as gates before one array tell each other: to find out whether
//! they say the same, and for nothing else.
//!
//! Each gate tells all its tenants in turn, a few with one word, and then now and then again:
//!
//! ```text
//!   words after a start     1      2      3                 then every 25th
//!   of 40 tenants           1-16   17-32  33-40             1-16   17-32  33-40   1-16 ..
//! ```
//!
//! A round through all tenants has a beginning that others can see, so that they can forget what a
//! gate no longer says.

use super::name::TenantNumber;
use super::target::Target;
use crate::sched::{Floor, Limit, Share};

/// The most tenants that one word tells of: half a kilobyte, beside what it says of flows.
pub const TOLD_MAX: usize = 16;

/// Of a longer name only the number is sent.
pub const NAME_BYTES_MAX: usize = 48;

/// One of so many words tells of some tenants, once all have been told.
const TOLD_EVERY: u64 = 25;

/// Rates of a floor or of a limit; zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rates {
    /// Requests per second.
    pub requests: u64,
    /// Bytes per second.
    pub bytes: u64,
}

/// What a policy says of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Whom, by the number of its name.
    pub tenant: TenantNumber,
    /// Its name, of at most [`NAME_BYTES_MAX`] bytes; empty if it is longer.
    pub name: String,
    /// Its share, in thousandths.
    pub weight_milli: u32,
    /// Its latency goal.
    pub target: Option<Target>,
    /// Its floor.
    pub floor: Rates,
    /// Its limit. Bursts are left out: they are of a gate.
    pub limit: Rates,
}

/// What one word tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Whether a round through all tenants begins with it.
    pub begins: bool,
    /// Of at least one tenant and at most [`TOLD_MAX`].
    pub promises: Vec<Promise>,
}

impl Promise {
    /// What this share says of the tenant of this name, as it is sent: times in whole microseconds.
    pub fn new(name: &str, share: &Share) -> Self {
        let Floor { rate_iops, rate_bytes } = share.floor;
        let floor = Rates { requests: rate_iops, bytes: rate_bytes };
        let Limit { rate_iops, rate_bytes, .. } = share.limit;
        Self {
            tenant: TenantNumber::named(name),
            name: if name.len() > NAME_BYTES_MAX { String::new() } else { name.to_owned() },
            weight_milli: share.weight_milli.max(1),
            target: share.target().map(Target::in_microseconds),
            floor,
            limit: Rates { requests: rate_iops, bytes: rate_bytes },
        }
    }

    /// The letters and digits of its name, small: names that are alike in these are one name, spelt
    /// in two ways. None for a name without any.
    pub fn folded(&self) -> Option<String> {
        let kept = self.name.chars().filter(|letter| letter.is_alphanumeric());
        let folded: String = kept.flat_map(char::to_lowercase).collect();
        (!folded.is_empty()).then_some(folded)
    }
}

/// Whose turn it is to be told. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Turns {
    promises: Vec<Promise>,
    next: usize,
    words: u64,
    /// All have been told once.
    is_through: bool,
}

impl Turns {
    /// From now on this is what there is to tell; it begins at once if that is something else.
    pub fn change(&mut self, promises: Vec<Promise>) {
        if promises != self.promises {
            self.promises = promises;
            self.begin();
        }
    }

    /// Somebody has joined who has heard nothing yet.
    pub fn begin(&mut self) {
        (self.next, self.words, self.is_through) = (0, 0, false);
    }

    /// What the next word tells, if anything.
    pub fn next_told(&mut self) -> Option<Told> {
        let is_due = !self.is_through || self.words.is_multiple_of(TOLD_EVERY);
        self.words += 1;
        let rest = self.promises.get(self.next..).filter(|rest| is_due && !rest.is_empty())?;
        let promises = rest[..rest.len().min(TOLD_MAX)].to_vec();
        let begins = self.next == 0;
        self.next += promises.len();
        if self.next == self.promises.len() {
            (self.next, self.is_through) = (0, true);
        }
        Some(Told { begins, promises })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(name: &str) -> Promise {
        Promise::new(name, &Share::default())
    }

    #[test]
    fn names_are_one_if_only_their_letters_and_digits_count() {
        let folded = |name: &str| promise(name).folded();
        assert_eq!(folded("DB-Main_1"), folded("db main1"));
        assert_ne!(folded("db1"), folded("db2"));
        assert_eq!(folded("-"), None);
        assert_eq!(folded(&"a".repeat(NAME_BYTES_MAX + 1)), None, "only its number is sent");
    }

    #[test]
    fn all_are_told_at_once_and_then_now_and_then() {
        let mut turns = Turns::default();
        assert_eq!(turns.next_told(), None, "nobody is there");
        turns.change((0..40).map(|index| promise(&index.to_string())).collect());
        let mut told = |words: usize| -> Vec<(bool, usize)> {
            let told = (0..words).filter_map(|_| turns.next_told());
            told.map(|told| (told.begins, told.promises.len())).collect()
        };
        let round = [(true, 16), (false, 16), (false, 8)];
        assert_eq!(told(3), round);
        assert_eq!(told(73), round, "one of 25 words");
        turns.begin();
        assert_eq!(turns.next_told().map(|told| told.promises[15].name.clone()), Some("15".into()));
    }
}
