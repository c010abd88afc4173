//! A value that is given once and waited for by one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Both ends of the value; one clone gives it, the other waits.
#[derive(Debug)]
pub(crate) struct Once<T> {
    state: Rc<RefCell<State<T>>>,
}

#[derive(Debug)]
enum State<T> {
    Empty(Option<Waker>),
    Full(Option<T>),
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self { state: Rc::clone(&self.state) }
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { state: Rc::new(RefCell::new(State::Empty(None))) }
    }
}

impl<T> Once<T> {
    /// Gives the value; nobody may be waiting any more.
    pub(crate) fn set(&self, value: T) {
        let before = self.state.replace(State::Full(Some(value)));
        let State::Empty(waker) = before else { panic!("a value is given once") };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The value, when it is there.
    pub(crate) async fn wait(self) -> T {
        poll_fn(|context| match &mut *self.state.borrow_mut() {
            State::Full(value) => Poll::Ready(value.take().expect("a value is taken once")),
            State::Empty(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
