//! One asynchronous call: what it works on, owned until the library is done with it.

#![expect(unsafe_code, reason = "the library calls back with a pointer of ours")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::error::{RadosError, check};
use super::library::{Completion, Library, RawPool};

/// The calls that the library has and has not ended, so that they can be given up.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    count: u64,
    by_number: BTreeMap<u64, Handle>,
}

/// A completion as the library knows it.
#[derive(Debug)]
struct Handle(Completion);

// SAFETY: completions may be used by any thread; it is used only while it is listed, and taken off
// the list before it is released.
unsafe impl Send for Handle {}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, completion: Completion) -> u64 {
        let mut calls = self.lock();
        calls.count += 1;
        let number = calls.count;
        calls.by_number.insert(number, Handle(completion));
        number
    }

    fn unlist(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().by_number.is_empty()
    }

    /// Has the library end all calls now, without an answer, and send none of them again.
    pub(super) fn cancel_all(&self, library: &'static Library, pool: RawPool) {
        for Handle(completion) in self.lock().by_number.values() {
            // SAFETY: a listed completion is not released, which waits for the list. The library
            // calls back from another thread, later. One that it does not know yet, or any more,
            // it leaves alone.
            unsafe { (library.rados_aio_cancel)(pool, *completion) };
        }
    }
}

/// What waits inside the library for the end of a call.
struct Waiting<S> {
    library: &'static Library,
    under_way: Arc<UnderWay>,
    number: u64,
    /// What the call reads or fills: its address must not change.
    state: S,
    done: oneshot::Sender<(S, c_int)>,
}

/// Makes a call and waits for its end; `start` hands it to the library. What the library points to
/// while it works must be on the heap behind `state`, or in `state` at the address that `start` is
/// given. Returns what the library did, below zero for an error.
///
/// Whoever stops to wait leaves the call to end by itself, with its memory.
///
/// # Errors
/// If the call cannot be made.
pub(super) async fn call<S: Send + 'static>(
    (library, under_way): (&'static Library, &Arc<UnderWay>),
    state: S,
    what: &str,
    start: impl FnOnce(Completion, &mut S) -> c_int,
) -> Result<(S, c_int), RadosError> {
    let (done, end) = oneshot::channel();
    let under_way = Arc::clone(under_way);
    submit(library, Waiting { library, under_way, number: 0, state, done }, what, start)?;
    Ok(end.await.expect("the library calls back once for every call that it has taken"))
}

fn submit<S: Send + 'static>(
    library: &'static Library,
    waiting: Waiting<S>,
    what: &str,
    start: impl FnOnce(Completion, &mut S) -> c_int,
) -> Result<(), RadosError> {
    let waiting = Box::into_raw(Box::new(waiting));
    let mut completion: Completion = ptr::null_mut();
    // SAFETY: the pointer is to be given to `over` once, which takes the box back.
    let made = unsafe {
        (library.rados_aio_create_completion2)(waiting.cast(), over::<S>, &raw mut completion)
    };
    let result = if made < 0 {
        made
    } else {
        // SAFETY: nobody else has the box before the library has the completion.
        unsafe { (*waiting).number = (*waiting).under_way.list(completion) };
        // SAFETY: until the library has the completion, the box is ours alone; afterwards nothing
        // here touches it any more.
        start(completion, unsafe { &mut (*waiting).state })
    };
    if result < 0 {
        if made >= 0 {
            // SAFETY: nobody else has the box.
            unsafe { (*waiting).under_way.unlist((*waiting).number) };
            // SAFETY: a call that was refused never calls back, so that this is the only release.
            unsafe { (library.rados_aio_release)(completion) };
        }
        // SAFETY: for the same reason nobody else has the box.
        drop(unsafe { Box::from_raw(waiting) });
    }
    check(result, || format!("cannot {what}")).map(drop)
}

/// The library is done with a call. This runs on a thread of the library, which must not wait: it
/// hands everything to the task that does.
unsafe extern "C" fn over<S: Send + 'static>(completion: Completion, waiting: *mut c_void) {
    // SAFETY: the pointer is the one that `submit` made of a box of this very type, and the library
    // calls back once.
    let waiting = unsafe { Box::from_raw(waiting.cast::<Waiting<S>>()) };
    let Waiting { library, under_way, number, state, done } = *waiting;
    under_way.unlist(number);
    // SAFETY: the call is over, and this is the only release of the completion.
    let result = unsafe {
        let result = (library.rados_aio_get_return_value)(completion);
        (library.rados_aio_release)(completion);
        result
    };
    if let Err(unwanted) = done.send((state, result)) {
        // Nobody waits any more. With the last call its cluster may end, which waits for this very
        // thread. Should there be no other thread to be had, it goes on without an end.
        let end = std::thread::Builder::new().name("ceph-end".to_owned());
        let unwanted = std::mem::ManuallyDrop::new(unwanted);
        let _ = end.spawn(move || drop(std::mem::ManuallyDrop::into_inner(unwanted)));
    }
}
