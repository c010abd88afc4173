//! A small executor on one thread: tasks run in the order in which they were woken.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[derive(Default)]
struct Woken(Mutex<VecDeque<u64>>);

struct TaskWaker {
    woken: Arc<Woken>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = self.woken.0.lock().unwrap();
        if !woken.contains(&self.task) {
            woken.push_back(self.task);
        }
    }
}

/// Where tasks are added.
#[derive(Clone, Default)]
pub(crate) struct Spawner<'a> {
    added: Rc<RefCell<Vec<Task<'a>>>>,
}

impl<'a> Spawner<'a> {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'a) {
        self.added.borrow_mut().push(Box::pin(task));
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The main task ended.
    Done,
    /// `is_cut` said so.
    Cut,
}

/// Runs `main` and what it spawns until it ends, or until `is_cut`. Panics if everybody waits.
pub(crate) fn run<'a>(
    spawner: &Spawner<'a>,
    main: impl Future<Output = ()> + 'a,
    is_cut: impl Fn() -> bool,
) -> End {
    let woken = Arc::new(Woken::default());
    let mut tasks: BTreeMap<u64, Task<'a>> = BTreeMap::from([(0, Box::pin(main) as Task<'a>)]);
    let mut next = 1;
    woken.0.lock().unwrap().push_back(0);
    loop {
        for task in spawner.added.take() {
            tasks.insert(next, task);
            woken.0.lock().unwrap().push_back(next);
            next += 1;
        }
        let popped = woken.0.lock().unwrap().pop_front();
        let id = popped.unwrap_or_else(|| panic!("everybody waits for somebody else"));
        let Some(task) = tasks.get_mut(&id) else { continue };
        let waker = Waker::from(Arc::new(TaskWaker { woken: Arc::clone(&woken), task: id }));
        if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            tasks.remove(&id);
            if id == 0 {
                return End::Done;
            }
        }
        if is_cut() {
            return End::Cut;
        }
    }
}

/// The outcome of a future; panics if it waits for something that nobody does.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let outcome = RefCell::new(None);
    let end =
        run(&Spawner::default(), async { *outcome.borrow_mut() = Some(future.await) }, || false);
    assert_eq!(end, End::Done);
    outcome.into_inner().unwrap()
}
