//! Dense identifiers: small integers that index vectors.

/// A tenant, as the index of its row in the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// A storage server of a scheduling domain, as the index of its scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl TenantId {
    /// The identifier as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ServerId {
    /// The identifier as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
