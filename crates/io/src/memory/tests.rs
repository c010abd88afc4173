//! The pool under clients of all kinds.

use super::*;

const MIB: usize = 1 << 20;
const TOTAL: u64 = 256 << 20;

fn pool(weights: &[u64]) -> Pool {
    let pool = Pool::new(Clock::start());
    let memory = Memory { per_tenant_bytes: 64 << 20, total_bytes: TOTAL, ..Memory::default() };
    pool.set_bounds(memory, weights);
    pool
}

/// A connection that takes part in the pool as the data path does.
struct Connection {
    tenant: TenantId,
    place: Arc<Place>,
    held: usize,
    is_waiting: bool,
}

impl Connection {
    fn new(pool: &Pool, tenant: u32) -> Self {
        Self { tenant: TenantId(tenant), place: pool.place(), held: 0, is_waiting: false }
    }

    fn ask(&mut self, pool: &Pool, step: usize, rest: usize, has_begun: bool) -> Option<usize> {
        let granted = if self.is_waiting {
            Pool::granted(&self.place)
        } else {
            let place = &self.place;
            let asker = Asker { tenant: self.tenant, place, has_begun, waker: None };
            pool.ask(asker, Ask { step_bytes: step, rest_bytes: rest, is_first: self.held == 0 })
        };
        self.is_waiting = granted.is_none();
        self.held += granted.unwrap_or(0);
        granted
    }

    /// Asks for a request that is there at once, as a read.
    fn take(&mut self, pool: &Pool, bytes: usize) -> bool {
        self.ask(pool, bytes, bytes, false).is_some()
    }

    fn give(&mut self, pool: &Pool) {
        pool.give(self.tenant, &self.place, std::mem::take(&mut self.held));
    }

    fn leave(mut self, pool: &Pool) {
        pool.forget(self.tenant, &self.place);
        self.give(pool);
    }
}

#[test]
fn a_tenant_finds_its_own_part_free_whatever_the_others_hold() {
    let pool = pool(&[1000, 1000, 1000, 1000, 4000]);
    let mut hogs: Vec<_> = (0..400).map(|index| Connection::new(&pool, index % 4)).collect();
    for hog in &mut hogs {
        hog.take(&pool, MIB);
    }
    assert!(hogs.iter().any(|hog| hog.is_waiting), "they take all that there is");
    let own = pool.report(&["a", "b", "c", "d", "victim"])[0].own_bytes;
    let mut victims: Vec<_> = (0..55).map(|_| Connection::new(&pool, 4)).collect();
    assert!(victims.iter_mut().all(|victim| victim.take(&pool, MIB)), "half of half of the rest");
    assert!(own < 14 << 20, "{own}: an eighth of it");
    assert!(pool.total_bytes() <= TOTAL);
}

#[test]
fn what_is_given_back_goes_to_whoever_has_least_for_its_share() {
    let pool = pool(&[1000, 3000, 0]);
    let mut hogs: Vec<_> = (0..64).map(|_| Connection::new(&pool, 2)).collect();
    assert!(hogs.iter_mut().all(|hog| hog.take(&pool, MIB)));
    let mut waiting: Vec<_> = (0..400).map(|index| Connection::new(&pool, index % 2)).collect();
    for one in &mut waiting {
        one.take(&pool, MIB);
    }
    for one in hogs {
        one.leave(&pool);
    }
    let report = pool.report(&["one", "three", "gone"]);
    // Each has at most its bound of 64 MiB; `one` has the reserve beyond it.
    assert!(report[1].held_bytes >= report[0].held_bytes, "{report:?}");
    assert!(report[1].waiting > 0 && report[1].waited > Span::ZERO);
    assert!(report[1].behind.iter().any(|(name, _)| name == "gone"), "{report:?}");
}

#[test]
fn half_bodies_never_block_each_other() {
    // Each tenant has bodies of the largest size of which half has come, more than fit.
    let pool = pool(&[1000; 8]);
    let mut bodies: Vec<_> = (0..64).map(|index| Connection::new(&pool, index % 8)).collect();
    let whole = 32 * MIB;
    let mut left = vec![whole; bodies.len()];
    let mut finished = 0;
    for _ in 0..100_000 {
        for (body, left) in bodies.iter_mut().zip(&mut left) {
            if *left == 0 {
                continue;
            }
            let step = (256 << 10).min(*left);
            *left -= body.ask(&pool, step, *left, *left < whole).unwrap_or(0);
            if *left == 0 {
                body.give(&pool);
                finished += 1;
            }
            assert!(pool.total_bytes() <= TOTAL);
        }
        if finished == bodies.len() {
            break;
        }
    }
    assert_eq!(finished, bodies.len());
    assert_eq!(pool.total_bytes(), 0);
    assert!(!pool.is_contended());
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let pool = pool(&[1000; 64]);
    let mut small: Vec<_> = (0..1024).map(|index| Connection::new(&pool, index % 63)).collect();
    for one in &mut small {
        one.take(&pool, MIB);
    }
    let mut large = Connection::new(&pool, 63);
    let granted_after = (0..1024).find(|_| {
        let is_there = large.take(&pool, 32 * MIB);
        if !is_there {
            for one in small.iter_mut().filter(|one| one.is_waiting) {
                one.take(&pool, MIB);
            }
            let next = small.iter_mut().find(|one| one.held > 0).expect("they hold all");
            next.give(&pool);
            next.take(&pool, MIB);
            small.rotate_left(1);
        }
        is_there
    });
    assert!(granted_after.is_some());
    assert!(pool.total_bytes() <= TOTAL);
}

#[test]
fn a_connection_that_reads_nothing_leaves_the_others_of_its_tenant_a_way() {
    let pool = pool(&[1000]);
    let mut greedy = Connection::new(&pool, 0);
    while greedy.take(&pool, 4096) {}
    let mut another = Connection::new(&pool, 0);
    assert!(!another.take(&pool, 2 * MIB), "there is no room for as much");
    let mut other = Connection::new(&pool, 0);
    for _ in 0..100 {
        assert!(other.take(&pool, 4096), "it holds nothing");
        other.give(&pool);
    }
    assert!(pool.wanted().is_of(TenantId(0)), "so that the greedy one has to move");
}

#[test]
fn a_connection_that_holds_nothing_does_not_wait_behind_those_that_do() {
    let pool = pool(&[1000]);
    let mut greedy = Connection::new(&pool, 0);
    while greedy.take(&pool, 4096) {}
    let mut small: Vec<_> = (0..300).map(|_| Connection::new(&pool, 0)).collect();
    for one in &mut small {
        one.take(&pool, 4096);
    }
    let waits = small.iter().position(|one| one.is_waiting).expect("their part is full, too");
    small[0].give(&pool);
    assert!(small[waits].take(&pool, 4096), "what another gives back is for it");
}

#[test]
fn whoever_leaves_while_it_waits_takes_nothing_with_it() {
    let pool = pool(&[1000, 1000]);
    let mut all: Vec<_> = (0..600).map(|index| Connection::new(&pool, index % 2)).collect();
    for one in &mut all {
        one.take(&pool, MIB);
    }
    assert!(pool.is_contended());
    for one in all {
        one.leave(&pool);
    }
    assert_eq!((pool.total_bytes(), pool.is_contended()), (0, false));
}

#[test]
fn a_connection_of_another_tenant_takes_what_it_holds_along() {
    let pool = pool(&[1000, 1000]);
    let mut one = Connection::new(&pool, 0);
    assert!(one.take(&pool, 32 * MIB));
    pool.pass_on([TenantId(0), TenantId(1)], &one.place, one.held);
    one.tenant = TenantId(1);
    assert_eq!(pool.report(&["a", "b"])[0].tenant, "b");
    // What was the first tenant's own is free for it again, and the bound holds all the same.
    let mut others: Vec<_> = (0..600).map(|index| Connection::new(&pool, index % 2)).collect();
    for other in &mut others {
        other.take(&pool, MIB);
    }
    assert!(pool.total_bytes() <= TOTAL);
    one.leave(&pool);
    for one in others {
        one.leave(&pool);
    }
    assert_eq!(pool.total_bytes(), 0);
}

#[test]
fn the_bound_holds_when_a_policy_makes_it_smaller() {
    let pool = pool(&[1000, 1000]);
    let mut held: Vec<_> = (0..120).map(|index| Connection::new(&pool, index % 2)).collect();
    assert!(held.iter_mut().all(|one| one.take(&pool, MIB)));
    let memory = Memory { total_bytes: 64 << 20, ..Memory::default() };
    pool.set_bounds(memory, &[1000, 1000]);
    let mut more = Connection::new(&pool, 0);
    assert!(!more.take(&pool, 2 * MIB) || pool.total_bytes() <= 122 << 20, "from the reserve");
    for one in held {
        one.leave(&pool);
    }
    let mut others: Vec<_> = (0..200).map(|index| Connection::new(&pool, index % 2)).collect();
    for other in &mut others {
        other.take(&pool, MIB);
    }
    assert!(pool.total_bytes() <= 64 << 20);
}

#[test]
fn pools_keep_their_promises_under_any_order_of_events() {
    for seed in 0..200 {
        let mut random = evenkeel_core::prng::Prng::new(seed);
        let tenants = 1 + random.below(6);
        let weights: Vec<u64> = (0..tenants).map(|_| 1 + random.below(5000)).collect();
        let pool = pool(&weights);
        let mut all: Vec<_> = (0..40)
            .map(|_| Connection::new(&pool, u32::try_from(random.below(tenants)).expect("few")))
            .collect();
        for _ in 0..2000 {
            let index = usize::try_from(random.below(all.len() as u64)).expect("few");
            let one = &mut all[index];
            if one.held > 0 && random.below(2) == 0 && !one.is_waiting {
                one.give(&pool);
            } else {
                let bytes = 1 << random.below(26);
                if one.is_waiting {
                    one.ask(&pool, 0, 0, false);
                } else {
                    one.take(&pool, bytes);
                }
            }
            let granted: usize =
                all.iter().map(|one| one.held + one.place.granted.load(Relaxed)).sum();
            assert_eq!(granted as u64, pool.total_bytes(), "seed {seed}");
            assert!(granted as u64 <= TOTAL, "seed {seed}");
        }
        for one in all {
            one.leave(&pool);
        }
        assert_eq!((pool.total_bytes(), pool.is_contended()), (0, false), "seed {seed}");
    }
}
