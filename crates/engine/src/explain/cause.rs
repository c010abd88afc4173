//! The causes for which a tenant gets less than it could: one list for all who tell of them.

/// Why a tenant gets no more than it does. See the [module](super) for how it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It is at the limit that the policy sets it.
    OwnLimit,
    /// Other tenants' floors are served first.
    OthersFloors,
    /// Other tenants hold the device: by their shares, or in observe mode because nothing stops
    /// them.
    OthersShares,
    /// Other tenants' requests have earlier deadlines.
    OthersDeadlines,
    /// Its requests wait behind each other.
    OwnQueue,
    /// More is with the device at once than it needs, and each request waits for all of that.
    Depth,
    /// The gate's memory is used up, and its connections are not read.
    Memory,
    /// Its connections are refused, as a bound on them is reached.
    Connections,
    /// An export of its own is slow beside others of its backend, or does not answer.
    SlowExport,
    /// The gate's own work, such as moves between tiers or the cleaning of a log, delays it.
    InternalWork,
    /// The backend is away: the server behind the gate, or the network to it.
    Upstream,
    /// Requests of it fail: the backend answers them with errors.
    Errors,
    /// The device itself: it stands still, or can do no more.
    Device,
    /// It has too little under way at once to get more.
    AsksTooLittle,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::OwnLimit,
        Self::OthersFloors,
        Self::OthersShares,
        Self::OthersDeadlines,
        Self::OwnQueue,
        Self::Depth,
        Self::Memory,
        Self::Connections,
        Self::SlowExport,
        Self::InternalWork,
        Self::Upstream,
        Self::Errors,
        Self::Device,
        Self::AsksTooLittle,
    ];

    /// Its name for programs, which never changes its meaning.
    pub fn key(self) -> &'static str {
        match self {
            Self::OwnLimit => "own_limit",
            Self::OthersFloors => "others_floors",
            Self::OthersShares => "others_shares",
            Self::OthersDeadlines => "others_deadlines",
            Self::OwnQueue => "own_queue",
            Self::Depth => "depth",
            Self::Memory => "memory",
            Self::Connections => "connections",
            Self::SlowExport => "slow_export",
            Self::InternalWork => "internal_work",
            Self::Upstream => "upstream",
            Self::Errors => "errors",
            Self::Device => "device",
            Self::AsksTooLittle => "asks_too_little",
        }
    }
}

/// How a tenant stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It has asked for nothing lately.
    #[default]
    Idle,
    /// It has what it is due. With a cause it would take more.
    HasItsDue,
    /// It gets less than its share gives it, less than its floor, or later than its goal.
    BelowItsDue,
}

impl Standing {
    /// Its name for programs, which never changes its meaning.
    pub fn key(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::HasItsDue => "has_its_due",
            Self::BelowItsDue => "below_its_due",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_cause_has_a_name_of_its_own() {
        let keys: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.key()).collect();
        assert_eq!(keys.len(), Cause::ALL.len());
    }
}
