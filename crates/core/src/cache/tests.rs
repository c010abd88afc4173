//! Every policy against a naive one that keeps plain vectors, and what they have in common.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::prng::Prng;

/// The obvious implementations: everything is searched from one end to the other.
struct Naive {
    algorithm: Algorithm,
    capacity: usize,
    /// Newest in front: the whole cache, ARC's T1, the small queue of S3-FIFO.
    first: Vec<(u64, u32)>,
    /// ARC's T2, the main queue of S3-FIFO.
    second: Vec<(u64, u32)>,
    first_ghosts: VecDeque<u64>,
    second_ghosts: VecDeque<u64>,
    hand: Option<u64>,
    /// ARC's target in units of 1/65536 object, which are part of its definition here.
    target: u64,
}

impl Naive {
    fn new(algorithm: Algorithm, capacity: usize) -> Self {
        Self {
            algorithm,
            capacity,
            first: Vec::new(),
            second: Vec::new(),
            first_ghosts: VecDeque::new(),
            second_ghosts: VecDeque::new(),
            hand: None,
            target: 0,
        }
    }

    fn access(&mut self, object: u64) -> bool {
        match self.algorithm {
            Algorithm::S3Fifo => self.access_s3_fifo(object),
            Algorithm::Arc => self.access_arc(object),
            _ => self.access_single(object),
        }
    }

    fn access_single(&mut self, object: u64) -> bool {
        if let Some(index) = position(&self.first, object) {
            self.first[index].1 = 1;
            if self.algorithm == Algorithm::Lru {
                let entry = self.first.remove(index);
                self.first.insert(0, entry);
            }
            return true;
        }
        if self.first.len() == self.capacity {
            self.evict_single();
        }
        self.first.insert(0, (object, 0));
        false
    }

    fn evict_single(&mut self) {
        match self.algorithm {
            Algorithm::Clock => {
                while self.first.last().unwrap().1 == 1 {
                    let (object, _) = self.first.pop().unwrap();
                    self.first.insert(0, (object, 0));
                }
                self.first.pop();
            }
            Algorithm::Sieve => {
                let oldest = self.first.len() - 1;
                let mut at =
                    self.hand.map_or(oldest, |object| position(&self.first, object).unwrap());
                while self.first[at].1 == 1 {
                    self.first[at].1 = 0;
                    at = at.checked_sub(1).unwrap_or(oldest);
                }
                self.hand = at.checked_sub(1).map(|newer| self.first[newer].0);
                self.first.remove(at);
            }
            _ => {
                self.first.pop();
            }
        }
    }

    fn access_s3_fifo(&mut self, object: u64) -> bool {
        for queue in [&mut self.first, &mut self.second] {
            if let Some(index) = position(queue, object) {
                queue[index].1 = (queue[index].1 + 1).min(3);
                return true;
            }
        }
        let was_ghost = remove(&mut self.first_ghosts, object);
        let small_target = (self.capacity / 10).max(1);
        while self.first.len() + self.second.len() >= self.capacity {
            if self.first.len() >= small_target || self.second.is_empty() {
                let (object, count) = self.first.pop().unwrap();
                if count >= 2 {
                    self.second.insert(0, (object, 0));
                } else {
                    self.first_ghosts.push_front(object);
                    self.first_ghosts.truncate((self.capacity - small_target).max(1));
                }
            } else {
                let (object, count) = self.second.pop().unwrap();
                if count > 0 {
                    self.second.insert(0, (object, count - 1));
                }
            }
        }
        let queue = if was_ghost { &mut self.second } else { &mut self.first };
        queue.insert(0, (object, 0));
        false
    }

    fn access_arc(&mut self, object: u64) -> bool {
        for is_again in [false, true] {
            let queue = if is_again { &mut self.second } else { &mut self.first };
            if let Some(index) = position(queue, object) {
                queue.remove(index);
                self.second.insert(0, (object, 0));
                return true;
            }
        }
        let ratio = |over: usize, under: usize| (65_536 * over / under.max(1)).max(65_536) as u64;
        let (once, again) = (self.first_ghosts.len(), self.second_ghosts.len());
        if self.first_ghosts.contains(&object) {
            let target = self.target + ratio(again, once);
            self.target = target.min(65_536 * self.capacity as u64);
            self.replace_arc(false);
            remove(&mut self.first_ghosts, object);
            self.second.insert(0, (object, 0));
            return false;
        }
        if self.second_ghosts.contains(&object) {
            self.target = self.target.saturating_sub(ratio(once, again));
            self.replace_arc(true);
            remove(&mut self.second_ghosts, object);
            self.second.insert(0, (object, 0));
            return false;
        }
        self.make_room_arc();
        self.first.insert(0, (object, 0));
        false
    }

    fn make_room_arc(&mut self) {
        let once = self.first.len() + self.first_ghosts.len();
        let all = once + self.second.len() + self.second_ghosts.len();
        if once == self.capacity {
            if self.first.len() < self.capacity {
                self.first_ghosts.pop_back();
                self.replace_arc(false);
            } else {
                self.first.pop();
            }
        } else if all >= self.capacity {
            if all == 2 * self.capacity {
                self.second_ghosts.pop_back();
            }
            self.replace_arc(false);
        }
    }

    fn replace_arc(&mut self, is_again_ghost: bool) {
        let once = 65_536 * self.first.len() as u64;
        let is_over = once > self.target || is_again_ghost && once == self.target;
        if !self.first.is_empty() && is_over || self.second.is_empty() {
            self.first_ghosts.push_front(self.first.pop().unwrap().0);
        } else {
            self.second_ghosts.push_front(self.second.pop().unwrap().0);
        }
    }
}

fn position(queue: &[(u64, u32)], object: u64) -> Option<usize> {
    queue.iter().position(|&(other, _)| other == object)
}

fn remove(ghosts: &mut VecDeque<u64>, object: u64) -> bool {
    let index = ghosts.iter().position(|&other| other == object);
    index.map(|index| ghosts.remove(index)).is_some()
}

/// Accesses with a skew, scans and repetitions, so that every branch of every policy is taken.
fn accesses() -> impl Strategy<Value = Vec<u64>> {
    let skewed = (0u64..40, 0u64..40).prop_map(|(a, b)| a.min(b));
    let access = prop_oneof![3 => skewed, 1 => 0u64..200];
    proptest::collection::vec(access, 0..800)
}

proptest! {
    #[test]
    fn every_policy_hits_when_the_naive_one_hits(accesses in accesses(), capacity in 1usize..40) {
        for algorithm in Algorithm::ALL {
            let mut policy = algorithm.build(capacity);
            let mut naive = Naive::new(algorithm, capacity);
            for (index, &object) in accesses.iter().enumerate() {
                let expected = naive.access(object);
                prop_assert_eq!(policy.access(object), expected, "{:?}, {}", algorithm, index);
                prop_assert_eq!(policy.len(), naive.first.len() + naive.second.len());
                prop_assert!(policy.len() <= capacity);
            }
        }
    }

    #[test]
    fn a_cache_that_holds_everything_misses_each_object_once(accesses in accesses()) {
        let mut distinct = accesses.clone();
        distinct.sort_unstable();
        distinct.dedup();
        // ARC and LRU would do with the count of objects; S3-FIFO needs room in its small queue.
        for algorithm in Algorithm::ALL {
            let mut policy = algorithm.build(2_000);
            let misses = accesses.iter().filter(|&&object| !policy.access(object)).count();
            prop_assert_eq!(misses, distinct.len());
        }
    }
}

#[test]
fn a_loop_over_one_object_too_many_defeats_recency_and_arrival() {
    for algorithm in [Algorithm::Lru, Algorithm::Fifo, Algorithm::Clock] {
        let mut policy = algorithm.build(9);
        let hits = (0..1_000).filter(|index| policy.access(index % 10)).count();
        assert_eq!(hits, 0, "{algorithm:?}");
    }
}

#[test]
fn sizes_at_the_edges_work() {
    let mut prng = Prng::new(2);
    for algorithm in Algorithm::ALL {
        for capacity in [1, 2, 9, 10, 11] {
            let mut policy = algorithm.build(capacity);
            (0..2_000).for_each(|_| {
                policy.access(prng.below(20));
            });
            assert!(policy.len() <= capacity && !policy.is_empty());
            let object = u64::MAX;
            policy.access(object);
            assert!(policy.access(object), "{algorithm:?} keeps what it just took in");
        }
    }
}

#[test]
fn names_lead_back_to_their_policy() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
    }
}

proptest! {
    #[test]
    fn removing_and_renaming_leave_what_a_naive_s3_fifo_has(
        steps in proptest::collection::vec((0u8..8, 0u64..30), 0..600),
        capacity in 1usize..20,
    ) {
        let mut fast = S3Fifo::new(capacity);
        let mut naive = Naive::new(Algorithm::S3Fifo, capacity);
        for (step, object) in steps {
            match step {
                0 => {
                    prop_assert_eq!(fast.remove(object).is_some(), naive.forget(object));
                }
                1 => {
                    let name = object + 100;
                    if !naive.knows(name) {
                        fast.rename(object, name);
                        naive.rename(object, name);
                    }
                }
                _ => {
                    let cached = naive.objects();
                    let is_hit = naive.access(object);
                    prop_assert_eq!(fast.hit(object).is_some(), is_hit);
                    if !is_hit {
                        let left = fast.insert(object, ());
                        let kept = naive.objects();
                        let expected = cached.into_iter().find(|old| !kept.contains(old));
                        prop_assert_eq!(left.map(|evicted| evicted.object), expected);
                    }
                }
            }
            prop_assert_eq!(fast.len(), naive.objects().len());
        }
    }
}

impl Naive {
    fn objects(&self) -> Vec<u64> {
        self.first.iter().chain(&self.second).map(|&(object, _)| object).collect()
    }

    fn knows(&self, object: u64) -> bool {
        self.objects().contains(&object) || self.first_ghosts.contains(&object)
    }

    fn forget(&mut self, object: u64) -> bool {
        let before = self.objects().len();
        self.first.retain(|&(other, _)| other != object);
        self.second.retain(|&(other, _)| other != object);
        remove(&mut self.first_ghosts, object);
        self.objects().len() < before
    }

    fn rename(&mut self, object: u64, name: u64) {
        let entries = self.first.iter_mut().chain(&mut self.second).map(|entry| &mut entry.0);
        entries.chain(&mut self.first_ghosts).filter(|id| **id == object).for_each(|id| *id = name);
    }
}
