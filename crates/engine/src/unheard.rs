//! Who has not yet heard of a flush that failed.
//!
//! A flush that fails may have lost what others wrote, too, and drives tell only whom they answer.
//! So whoever else wrote through the volume hears of it with the next flush of his own: each tenant
//! once, and the volume itself, for what it notes.

use evenkeel_core::id::TenantId;

/// By tenant, and for the volume's own notes: a bit for each server of the volume.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    tenants: Vec<u64>,
    own: u64,
}

impl Unheard {
    /// There are so many tenants, or as many as there were.
    pub(crate) fn resize(&mut self, tenants: usize) {
        self.tenants.resize(tenants.max(self.tenants.len()), 0);
    }

    /// How many tenants there are.
    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// A flush of the volume's own failed.
    pub(crate) fn own_failed(&mut self, bit: u64) {
        self.tenants.iter_mut().for_each(|servers| *servers |= bit);
    }

    /// A flush of a tenant failed.
    pub(crate) fn tenant_failed(&mut self, tenant: TenantId, bit: u64) {
        let others = self.tenants.iter_mut().enumerate();
        let others = others.filter(|(other, _)| *other != tenant.index());
        others.for_each(|(_, servers)| *servers |= bit);
        self.own |= bit;
    }

    /// Takes out what the volume has not heard of this server; false if there was something.
    pub(crate) fn own_hears(&mut self, bit: u64) -> bool {
        hears(&mut self.own, bit)
    }

    /// Takes out what a tenant has not heard of this server; false if there was something.
    pub(crate) fn tenant_hears(&mut self, tenant: TenantId, bit: u64) -> bool {
        hears(&mut self.tenants[tenant.index()], bit)
    }
}

fn hears(unheard: &mut u64, bit: u64) -> bool {
    let had = *unheard & bit;
    *unheard &= !bit;
    had == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_else_hears_of_a_failure_once() {
        let mut unheard = Unheard::default();
        unheard.resize(2);
        unheard.tenant_failed(TenantId(0), 4);
        assert!(unheard.tenant_hears(TenantId(0), 4), "whom the drive has told");
        assert!(unheard.tenant_hears(TenantId(1), 2), "another server");
        assert!(!unheard.tenant_hears(TenantId(1), 4));
        assert!(unheard.tenant_hears(TenantId(1), 4));
        assert!(!unheard.own_hears(4));
        unheard.own_failed(1);
        assert!(unheard.own_hears(1));
        assert!(!unheard.tenant_hears(TenantId(0), 1));
    }
}
