//! Futures in virtual time, on one thread, the same way every time.
//!
//! Straight-line async code (the store's) runs here as it does on the machine's runtime, except
//! that time is a number which jumps to the next timer once nobody has anything left to do:
//!
//! ```text
//!   poll whoever is ready, in order or as a seed picks   <---+
//!     nobody left: now = earliest timer, wake its sleepers --+
//!       no timer either: Stopped::Deadlock
//! ```
//!
//! The seed explores interleavings: every order of ready tasks is one that a real runtime may take.
//! [`Clock::halt`] stops the world in the middle, as a power cut does: nothing is polled any more.
//!
//! ```
//! use evenkeel_core::time::{Nanos, Span};
//! use evenkeel_sim::executor::{Executor, Order};
//!
//! let mut executor = Executor::new(Order::Fair);
//! let clock = executor.clock();
//! let woke = executor.block_on(async move {
//!     clock.sleep(Span::from_secs(3600)).await;
//!     clock.now()
//! });
//! assert_eq!(woke, Ok(Nanos(3_600_000_000_000)));
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_store::drive::motor;

/// Polls without time getting on after which [`Executor::block_on`] gives up.
const POLLS_MAX: u64 = 1_000_000;

/// Who is polled next when several are ready.
#[derive(Clone, Debug)]
pub enum Order {
    /// Whoever has been ready longest.
    Fair,
    /// Whomever this generator picks.
    Seeded(Prng),
}

/// Why [`Executor::block_on`] ended without its future being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// [`Clock::halt`] was called.
    #[error("the world was halted")]
    Halted,
    /// Every task waits, and nothing that could wake one is going to happen.
    #[error("every task waits for ever")]
    Deadlock,
    /// Tasks keep each other busy while time stands still.
    #[error("tasks are busy for ever while time stands still")]
    Livelock,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Runs futures. See the [module](self).
pub struct Executor {
    clock: Clock,
    tasks: Vec<Option<(Task, Arc<Flag>)>>,
    queue: Arc<Mutex<VecDeque<usize>>>,
    order: Order,
}

/// What tasks may know and ask of the world that they run in.
#[derive(Clone, Default)]
pub struct Clock {
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    now: Cell<Nanos>,
    is_halted: Cell<bool>,
    timers: RefCell<BTreeMap<(Nanos, u64), Waker>>,
    /// Timers ever set: those of one instant go off in this order.
    timers_set: Cell<u64>,
    spawned: RefCell<Vec<Task>>,
}

impl Clock {
    /// The present instant.
    pub fn now(&self) -> Nanos {
        self.shared.now.get()
    }

    /// Waits for a while.
    pub async fn sleep(&self, span: Span) {
        self.sleep_until(self.now() + span).await;
    }

    /// Waits for an instant; not at all if it has passed.
    pub async fn sleep_until(&self, at: Nanos) {
        let mut is_set = false;
        poll_fn(|context| {
            if self.now() >= at {
                return Poll::Ready(());
            }
            if !is_set {
                self.wake_at(at, context.waker().clone());
                is_set = true;
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes somebody at an instant.
    pub fn wake_at(&self, at: Nanos, waker: Waker) {
        let number = self.shared.timers_set.get();
        self.shared.timers_set.set(number + 1);
        self.shared.timers.borrow_mut().insert((at, number), waker);
    }

    /// Adds a task, which runs beside the others until it is done or the executor is dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.shared.spawned.borrow_mut().push(Box::pin(future));
    }

    /// Stops the world: once the present poll has returned, nothing is polled any more.
    pub fn halt(&self) {
        self.shared.is_halted.set(true);
    }

    /// Whether the world has been stopped.
    pub fn is_halted(&self) -> bool {
        self.shared.is_halted.get()
    }

    /// Goes on to the next instant at which somebody wants to be woken, and wakes all who do.
    fn advance(&self) -> bool {
        let mut timers = self.shared.timers.borrow_mut();
        let Some((&(at, _), _)) = timers.first_key_value() else {
            return false;
        };
        self.shared.now.set(self.now().max(at));
        while let Some(entry) = timers.first_entry()
            && entry.key().0 <= at
        {
            entry.remove().wake();
        }
        true
    }
}

impl motor::Clock for Clock {
    fn now(&self) -> Nanos {
        Self::now(self)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        Self::wake_at(self, at, waker);
    }
}

impl Executor {
    /// An executor at time zero without tasks.
    pub fn new(order: Order) -> Self {
        Self { clock: Clock::default(), tasks: Vec::new(), queue: Arc::default(), order }
    }

    /// The clock of this world.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Runs this future, and beside it whatever was spawned, until it is done. Spawned tasks stay
    /// where they are then, and get on with the next call.
    ///
    /// # Errors
    /// [`Stopped`] if it will never be done.
    pub fn block_on<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, Stopped> {
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        self.clock.spawn(async move {
            let value = future.await;
            *place.borrow_mut() = Some(value);
        });
        let mut polls = 0;
        loop {
            self.adopt();
            if self.clock.is_halted() {
                return Err(Stopped::Halted);
            }
            if let Some(value) = result.borrow_mut().take() {
                return Ok(value);
            }
            if let Some(task) = self.next() {
                polls += 1;
                self.poll(task);
            } else if self.clock.advance() {
                polls = 0;
            } else {
                return Err(Stopped::Deadlock);
            }
            if polls > POLLS_MAX {
                return Err(Stopped::Livelock);
            }
        }
    }

    /// Takes in what was spawned.
    fn adopt(&mut self) {
        let spawned = std::mem::take(&mut *self.clock.shared.spawned.borrow_mut());
        for task in spawned {
            let free = self.tasks.iter().position(Option::is_none);
            let index = free.unwrap_or(self.tasks.len());
            let is_queued = AtomicBool::new(false);
            let flag = Arc::new(Flag { index, is_queued, queue: Arc::clone(&self.queue) });
            flag.wake_by_ref();
            if index == self.tasks.len() {
                self.tasks.push(None);
            }
            self.tasks[index] = Some((task, flag));
        }
    }

    fn next(&mut self) -> Option<usize> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut self.order {
            Order::Seeded(prng) if !queue.is_empty() => {
                let pick = prng.below(queue.len() as u64);
                queue.remove(usize::try_from(pick).expect("below the length of a queue"))
            }
            _ => queue.pop_front(),
        }
    }

    fn poll(&mut self, index: usize) {
        // A task that ended may still be woken by a waker that somebody kept.
        let Some((task, flag)) = &mut self.tasks[index] else {
            return;
        };
        flag.is_queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(flag));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks[index] = None;
        }
    }
}

impl Drop for Executor {
    /// Tasks hold the clock, which may hold tasks and wakers: the ring is broken here.
    fn drop(&mut self) {
        self.tasks.clear();
        drop(self.clock.shared.spawned.take());
        drop(self.clock.shared.timers.take());
    }
}

/// Puts its task into the queue, once.
struct Flag {
    index: usize,
    is_queued: AtomicBool,
    queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tasks that note their turns and yield; the order in which they had them.
    fn turns(order: Order) -> Vec<u8> {
        let mut executor = Executor::new(order);
        let clock = executor.clock();
        let notes = Rc::new(RefCell::new(Vec::new()));
        for name in 0..3 {
            let (notes, clock) = (Rc::clone(&notes), clock.clone());
            executor.clock().spawn(async move {
                for _ in 0..3 {
                    notes.borrow_mut().push(name);
                    clock.sleep(Span(1)).await;
                }
            });
        }
        executor.block_on(async move { clock.sleep(Span(10)).await }).unwrap();
        notes.take()
    }

    #[test]
    fn ready_tasks_take_turns_in_their_order_or_as_the_seed_picks() {
        assert_eq!(turns(Order::Fair), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        let seeded = |seed| turns(Order::Seeded(Prng::new(seed)));
        assert_eq!(seeded(1), seeded(1));
        assert!((2..20).any(|seed| seeded(seed) != seeded(1)));
    }

    #[test]
    fn time_jumps_to_the_next_timer() {
        let mut executor = Executor::new(Order::Fair);
        let clock = executor.clock();
        let seen = executor.block_on(async move {
            clock.sleep(Span::from_secs(1)).await;
            clock.sleep_until(Nanos(5)).await;
            clock.now()
        });
        assert_eq!(seen, Ok(Nanos(1_000_000_000)), "an instant that has passed takes no time");
    }

    #[test]
    fn a_halted_world_polls_nobody() {
        let mut executor = Executor::new(Order::Fair);
        let clock = executor.clock();
        let reached = Rc::new(Cell::new(false));
        let mark = Rc::clone(&reached);
        let end = executor.block_on(async move {
            clock.halt();
            clock.sleep(Span(1)).await;
            mark.set(true);
        });
        assert_eq!((end, reached.get()), (Err(Stopped::Halted), false));
    }

    #[test]
    fn waiting_for_nobody_is_a_deadlock_and_spinning_a_livelock() {
        let mut executor = Executor::new(Order::Fair);
        assert_eq!(executor.block_on(std::future::pending::<()>()), Err(Stopped::Deadlock));
        let spin = poll_fn(|context: &mut Context<'_>| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(Executor::new(Order::Fair).block_on(spin), Err(Stopped::Livelock));
    }
}
