//! Where an owner notes, so that what it has under way when it is displaced does no harm.

/// Half of the places that there are for what a volume notes. An owner keeps to one: whatever it
/// has written that a server carries out late lies over nothing that the owner after it has noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Half {
    /// The first places.
    #[default]
    First,
    /// The others.
    Second,
}

impl Half {
    /// The other one.
    pub(crate) fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }
}
