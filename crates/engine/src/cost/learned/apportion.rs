//! Whose the device's time was: every instant is divided among the requests that were being served.
//!
//! The gate sees requests go and come back, not what the device does meanwhile. A device that
//! serves `k` at once serves the `k` that have been there longest; the others queue inside it. So
//! each instant belongs, in equal parts, to the first `k` of those under way, by the order in which
//! they went:
//!
//! ```text
//! k = 1   |--A--|--B--|--C--|     one at a time, in order
//! k = 2   |--A--|--C--|           A and B, then C and B, ..
//!         |-----B-----|
//! any k   every request for as long as it was away, divided by how many were away with it
//! ```
//!
//! A disk serves one at a time, but in an order of its own: there the time since the last one came
//! back belongs to the one that comes back now ([`Served::IN_ANY_ORDER`]).
//!
//! A constant delay on the way there or back moves all completions alike, and changes nothing. The
//! parts add up to the time in which anything was under way, whatever `k`: if one request is
//! charged too much, others are charged too little.
//!
//! A device does not say its `k`. Each request is given its time in every way, and
//! [`Parallelism`](super::parallelism) chooses.

/// How many requests a device may serve at once, in the order in which they went.
const AT_ONCE: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, u32::MAX];
/// Ways to divide the time.
pub(super) const WAYS: usize = AT_ONCE.len() + 1;

/// What one request was given, in nanoseconds of the device, by way.
pub(super) type Times = [f64; WAYS];

const NONE: u32 = u32::MAX;

/// What is known of a request that is back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Served {
    /// What it was given.
    pub(super) times: Times,
    /// By way: whether it came back before it was its turn, so that the way cannot be right.
    pub(super) is_early: [bool; WAYS],
}

impl Served {
    /// The way of a device that serves one at a time, in any order.
    pub(super) const IN_ANY_ORDER: usize = AT_ONCE.len();
    /// The way of a device that serves all that it has at once.
    pub(super) const ALL_AT_ONCE: usize = AT_ONCE.len() - 1;

    /// How many are served at once in this way.
    pub(super) fn at_once(way: usize) -> u32 {
        AT_ONCE.get(way).copied().unwrap_or(1)
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    /// By `k`: what the clock showed when it was first served; none while it queues.
    since: [Option<f64>; AT_ONCE.len()],
}

/// The requests under way in the order in which they went, with a clock for each `k`. O(1) for
/// each that goes or comes back; memory for as many as were ever under way.
#[derive(Clone, Debug)]
pub(super) struct Apportioning {
    nodes: Vec<Node>,
    free: Vec<u32>,
    newest: u32,
    under_way: u32,
    /// By `k`: the one served that went last.
    last_served: [u32; AT_ONCE.len()],
    /// By `k`: what one request that is served has been given since the beginning.
    clocks: [f64; AT_ONCE.len()],
    /// Time in which anything was under way, and as of when the last one came back.
    busy_ns: f64,
    busy_at_last_ns: f64,
}

impl Apportioning {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            under_way: 0,
            last_served: [NONE; AT_ONCE.len()],
            clocks: [0.0; AT_ONCE.len()],
            busy_ns: 0.0,
            busy_at_last_ns: 0.0,
        }
    }

    /// Time in which anything was under way.
    pub(super) fn busy_ns(&self) -> f64 {
        self.busy_ns
    }

    /// So much time passed with those that are under way.
    pub(super) fn pass(&mut self, time_ns: f64) {
        if self.under_way == 0 || time_ns <= 0.0 {
            return;
        }
        self.busy_ns += time_ns;
        for (clock, at_once) in self.clocks.iter_mut().zip(AT_ONCE) {
            *clock += time_ns / f64::from(at_once.min(self.under_way));
        }
    }

    /// A request goes to the device. Returns its handle.
    pub(super) fn start(&mut self) -> u32 {
        let before = self.newest;
        let mut node = Node { before, after: NONE, since: [None; AT_ONCE.len()] };
        let handle = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 are under way")
        });
        for (index, at_once) in AT_ONCE.into_iter().enumerate() {
            if self.under_way < at_once {
                node.since[index] = Some(self.clocks[index]);
                self.last_served[index] = handle;
            }
        }
        self.nodes[handle as usize] = node;
        if before != NONE {
            self.nodes[before as usize].after = handle;
        }
        self.newest = handle;
        self.under_way += 1;
        handle
    }

    /// A request is back. Its handle is free.
    pub(super) fn finish(&mut self, handle: u32) -> Served {
        let node = self.nodes[handle as usize];
        let mut served = Served { times: [0.0; WAYS], is_early: [false; WAYS] };
        for (index, since) in node.since.into_iter().enumerate() {
            if let Some(since) = since {
                served.times[index] = self.clocks[index] - since;
                self.serve_next(index, handle, node);
            } else {
                served.is_early[index] = true;
            }
        }
        let last_ns = std::mem::replace(&mut self.busy_at_last_ns, self.busy_ns);
        served.times[Served::IN_ANY_ORDER] = self.busy_ns - last_ns;
        if node.before != NONE {
            self.nodes[node.before as usize].after = node.after;
        }
        if node.after == NONE {
            self.newest = node.before;
        } else {
            self.nodes[node.after as usize].before = node.before;
        }
        self.free.push(handle);
        self.under_way -= 1;
        served
    }

    /// One that queued is served in place of one that is back.
    fn serve_next(&mut self, index: usize, handle: u32, node: Node) {
        let last = self.last_served[index];
        let next = self.nodes[last as usize].after;
        if next != NONE {
            self.nodes[next as usize].since[index] = Some(self.clocks[index]);
            self.last_served[index] = next;
        } else if last == handle {
            self.last_served[index] = node.before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near<const N: usize>(found: [f64; N], wanted: [f64; N]) {
        let is_near = found.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-9);
        assert!(is_near, "{found:?}, not {wanted:?}");
    }

    /// A and B go at once, C after 2 ns; A is back after 4, C after 7, B after 10.
    fn play() -> [Served; 3] {
        let mut all = Apportioning::new();
        let (a, b) = (all.start(), all.start());
        all.pass(2.0);
        let c = all.start();
        all.pass(2.0);
        let a = all.finish(a);
        all.pass(3.0);
        let c = all.finish(c);
        all.pass(3.0);
        [a, all.finish(b), c]
    }

    #[test]
    fn parts_add_up_to_the_whole_in_every_way_that_is_possible() {
        let served = play();
        for way in 0..WAYS {
            let sum: f64 = served.iter().map(|one| one.times[way]).sum();
            let is_possible = served.iter().all(|one| !one.is_early[way]);
            assert!(!is_possible || (sum - 10.0).abs() < 1e-9, "{way}: {sum}");
        }
    }

    #[test]
    fn the_first_k_share_an_instant() {
        let [a, b, c] = play();
        let times = |way: usize| [a, b, c].map(|one| one.times[way]);
        // One at a time: A has 4, then it is B's turn, to the end; C came back before its own.
        assert_near(times(0), [4.0, 6.0, 0.0]);
        assert!(c.is_early[0] && !b.is_early[0]);
        // Two at once: A and B share 4; B and C share 3; B has 3.
        assert_near(times(1), [2.0, 2.0 + 1.5 + 3.0, 1.5]);
        assert!(!c.is_early[1]);
        // In any order: what lies between two completions is the latter's.
        assert_near(times(Served::IN_ANY_ORDER), [4.0, 3.0, 3.0]);
    }

    #[test]
    fn time_without_requests_is_nobodys() {
        let mut all = Apportioning::new();
        all.pass(100.0);
        let one = all.start();
        all.pass(1.0);
        assert_near(all.finish(one).times, [1.0; WAYS]);
        all.pass(100.0);
        let one = all.start();
        all.pass(2.0);
        assert_near(all.finish(one).times, [2.0; WAYS]);
    }

    #[test]
    fn handles_are_used_again() {
        let mut all = Apportioning::new();
        for _ in 0..1000 {
            let handles: Vec<u32> = (0..5).map(|_| all.start()).collect();
            all.pass(5.0);
            for handle in [2, 0, 4, 1, 3].map(|index: usize| handles[index]) {
                let _ = all.finish(handle);
            }
        }
        assert_eq!((all.nodes.len(), all.under_way, all.newest), (5, 0, NONE));
    }
}
