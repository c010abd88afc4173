//! How the memory for payload is divided among the tenants.
//!
//! ```text
//! total = reserve | own part of each tenant, by share | shared
//!         33 MiB  |         half of the rest          | what is left
//! ```
//!
//! - **Its own part** is always free for a tenant, whatever the others hold. It takes whole
//!   requests from it at once.
//! - **The shared part** is for everybody, up to the tenant's bound, and taken only as the bytes of
//!   requests come.
//! - **The reserve** finishes one request at a time that finds no other room. So requests of which
//!   half has come cannot deadlock, and a large one is not starved by small ones.
//!
//! The sum of the three is the total, so the bound is never exceeded. The last part of a tenant's
//! bound is for connections that hold nothing yet: one that does not read its answers must not lock
//! out the others of its tenant.

use evenkeel_core::id::TenantId;

/// The largest request, and its answer's headers.
const RESERVE_BYTES: usize = 33 << 20;

/// One over the part of a tenant's bound that is for connections that hold nothing.
const FIRST_PART: usize = 64;

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Needed to go on.
    pub(crate) step_bytes: usize,
    /// Needed until the request is whole; `step_bytes` at least.
    pub(crate) rest_bytes: usize,
    /// The connection holds nothing yet.
    pub(crate) is_first: bool,
}

/// The bounds of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of all tenants together.
    pub(crate) total_bytes: usize,
    /// Of each tenant, without what it has in user.
    pub(crate) tenant_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    /// Without what is held in user.
    held_bytes: usize,
    own_bytes: usize,
    weight: u64,
}

impl Holding {
    fn own_left(&self) -> usize {
        self.own_bytes.saturating_sub(self.held_bytes)
    }

    fn beyond(&self) -> usize {
        self.held_bytes.saturating_sub(self.own_bytes)
    }
}

/// Who has the part that is kept for one in user.
#[derive(Clone, Copy, Debug)]
struct ReserveUse {
    tenant: TenantId,
    /// Its connection.
    connection: u64,
    held_bytes: usize,
    /// What it may still take.
    left_bytes: usize,
}

/// The memory and who holds it. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Division {
    bounds: Bounds,
    reserve_bytes: usize,
    shared_bytes: usize,
    tenants: Vec<Holding>,
    /// Held of the shared part: by all tenants beyond their own parts.
    shared_held_bytes: usize,
    total_bytes: usize,
    in_reserve: Option<ReserveUse>,
}

impl Division {
    /// Divides anew; what is held stays. Tenants by index, with weight zero for those who have no
    /// part. O(tenants).
    pub(crate) fn set_bounds(&mut self, bounds: Bounds, weights: &[u64]) {
        self.bounds = bounds;
        self.reserve_bytes = RESERVE_BYTES.min(bounds.total_bytes);
        let rest = bounds.total_bytes - self.reserve_bytes;
        if self.tenants.len() < weights.len() {
            self.tenants.resize(weights.len(), Holding::default());
        }
        let sum: u64 = weights.iter().sum();
        let mut owned = 0;
        for (index, holding) in self.tenants.iter_mut().enumerate() {
            holding.weight = weights.get(index).copied().unwrap_or(0);
            holding.own_bytes = part(rest / 2, holding.weight, sum).min(bounds.tenant_bytes);
            owned += holding.own_bytes;
        }
        self.shared_bytes = rest - owned;
        self.shared_held_bytes = self.tenants.iter().map(Holding::beyond).sum();
    }

    fn holding(&mut self, tenant: TenantId) -> &mut Holding {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Holding::default());
        }
        &mut self.tenants[tenant.index()]
    }

    fn of(&self, tenant: TenantId) -> Holding {
        self.tenants.get(tenant.index()).copied().unwrap_or_default()
    }

    /// Whether all of the request fits what is the tenant's own.
    pub(crate) fn is_own(&self, tenant: TenantId, ask: Ask) -> bool {
        let whole = Ask { step_bytes: ask.rest_bytes, ..ask };
        ask.rest_bytes <= self.of(tenant).own_left() && self.is_within_bound(tenant, whole)
    }

    /// How much the tenant would get: the whole of what is its own, else the step; none if there is
    /// no room.
    pub(crate) fn room(&self, tenant: TenantId, ask: Ask) -> Option<usize> {
        let holding = self.of(tenant);
        let is_own = self.is_own(tenant, ask);
        let bytes = if is_own { ask.rest_bytes } else { ask.step_bytes };
        let beyond = bytes.saturating_sub(holding.own_left());
        let fits = is_own
            || self.is_within_bound(tenant, ask)
                && self.shared_held_bytes.saturating_add(beyond) <= self.shared_bytes;
        // A new policy may leave less to divide than is held, or give what is held to others.
        let in_reserve = self.in_reserve.map_or(0, |user| user.held_bytes);
        let left = self.bounds.total_bytes - self.reserve_bytes;
        let is_there = (self.total_bytes - in_reserve).saturating_add(bytes) <= left;
        (fits && is_there).then_some(bytes)
    }

    /// Whether the tenant's own bound allows the step; one request it may always have.
    pub(crate) fn is_within_bound(&self, tenant: TenantId, ask: Ask) -> bool {
        let held_bytes = self.of(tenant).held_bytes;
        let kept_bytes = if ask.is_first { 0 } else { self.bounds.tenant_bytes / FIRST_PART };
        let bound_bytes = self.bounds.tenant_bytes - kept_bytes;
        held_bytes == 0 || held_bytes.saturating_add(ask.step_bytes) <= bound_bytes
    }

    /// Takes what there is [room](Self::room) for.
    pub(crate) fn take(&mut self, tenant: TenantId, ask: Ask) -> Option<usize> {
        let bytes = self.room(tenant, ask)?;
        self.put(tenant, bytes);
        Some(bytes)
    }

    fn put(&mut self, tenant: TenantId, bytes: usize) {
        let holding = self.holding(tenant);
        let before = holding.beyond();
        holding.held_bytes += bytes;
        let grown = holding.beyond() - before;
        self.shared_held_bytes += grown;
        self.total_bytes += bytes;
    }

    /// Takes a step from the reserve, if it is free or finishes this connection's request.
    pub(crate) fn take_from_reserve(
        &mut self,
        tenant: TenantId,
        connection: u64,
        ask: Ask,
    ) -> Option<usize> {
        if self.in_reserve.is_none() && ask.rest_bytes <= self.reserve_bytes {
            let left_bytes = ask.rest_bytes;
            self.in_reserve = Some(ReserveUse { tenant, connection, held_bytes: 0, left_bytes });
        }
        let user = self.in_reserve.as_mut().filter(|user| user.connection == connection)?;
        if user.left_bytes < ask.step_bytes {
            return None;
        }
        user.left_bytes -= ask.step_bytes;
        user.held_bytes += ask.step_bytes;
        self.total_bytes += ask.step_bytes;
        Some(ask.step_bytes)
    }

    /// Whether nobody is in user.
    pub(crate) fn is_reserve_free(&self) -> bool {
        self.in_reserve.is_none()
    }

    /// Whether the reserve finishes a request of this connection that is not whole yet.
    pub(crate) fn uses_reserve(&self, connection: u64) -> bool {
        self.in_reserve.is_some_and(|user| user.connection == connection && user.left_bytes > 0)
    }

    /// Gives back; to the reserve first.
    pub(crate) fn give(&mut self, tenant: TenantId, connection: u64, bytes: usize) {
        self.total_bytes -= bytes;
        let of_reserve = match &mut self.in_reserve {
            Some(user) if user.connection == connection => {
                let of_reserve = bytes.min(user.held_bytes);
                user.held_bytes -= of_reserve;
                of_reserve
            }
            _ => 0,
        };
        let holding = self.holding(tenant);
        let before = holding.beyond();
        holding.held_bytes -= bytes - of_reserve;
        let shrunk = before - holding.beyond();
        self.shared_held_bytes -= shrunk;
        self.free_reserve();
    }

    /// A connection that holds so much is another tenant's from now on.
    pub(crate) fn pass_on(&mut self, [old, new]: [TenantId; 2], connection: u64, bytes: usize) {
        let mut moved = bytes;
        if let Some(user) = self.in_reserve.as_mut().filter(|user| user.connection == connection) {
            user.tenant = new;
            moved -= user.held_bytes;
        }
        let before = self.beyond_of([old, new]);
        self.holding(old).held_bytes -= moved;
        self.holding(new).held_bytes += moved;
        self.shared_held_bytes = self.shared_held_bytes + self.beyond_of([old, new]) - before;
    }

    fn beyond_of(&self, tenants: [TenantId; 2]) -> usize {
        tenants.iter().map(|tenant| self.of(*tenant).beyond()).sum()
    }

    /// The request of this connection that the reserve was to finish is given up.
    pub(crate) fn give_up_reserve(&mut self, connection: u64) {
        if let Some(user) = self.in_reserve.as_mut().filter(|user| user.connection == connection) {
            user.left_bytes = 0;
            self.free_reserve();
        }
    }

    fn free_reserve(&mut self) {
        self.in_reserve.take_if(|user| user.held_bytes == 0 && user.left_bytes == 0);
    }

    /// All that is held.
    pub(crate) fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// What a tenant holds.
    pub(crate) fn held_bytes(&self, tenant: TenantId) -> usize {
        let in_reserve = self.in_reserve.filter(|user| user.tenant == tenant);
        self.of(tenant).held_bytes + in_reserve.map_or(0, |user| user.held_bytes)
    }

    /// What a tenant always finds free.
    pub(crate) fn own_bytes(&self, tenant: TenantId) -> usize {
        self.of(tenant).own_bytes
    }

    /// What a tenant holds for its share: of those who wait, whoever holds least is next.
    pub(crate) fn rank(&self, tenant: TenantId) -> u128 {
        let holding = self.of(tenant);
        (holding.held_bytes as u128) * 1_000_000_000 / u128::from(holding.weight.max(1))
    }

    /// Who holds most beyond its own part. O(tenants).
    pub(crate) fn greatest(&self) -> Option<TenantId> {
        let beyond = self.tenants.iter().enumerate().map(|(index, one)| (one.beyond(), index));
        let (bytes, index) = beyond.max()?;
        let tenant = TenantId(u32::try_from(index).expect("tenants are few"));
        (bytes > 0).then_some(tenant)
    }
}

fn part(whole: usize, weight: u64, sum: u64) -> usize {
    let part = whole as u128 * u128::from(weight) / u128::from(sum.max(1));
    usize::try_from(part).expect("a part of the whole")
}
