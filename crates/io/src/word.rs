//! The operator's word: what a gate may do to one volume only because somebody says so.
//!
//! ```text
//! volume: ask(question) -----> asked -----> `evenkeel ctl claim VOLUME` -----> given
//!              ^                  |                                              |
//!              |                  +-- settle: it is open, or the question is moot
//!              +------ the same question: the volume goes on, and settles the word when it is open
//! ```
//!
//! A word answers one question, such as whether a certain gate is gone. It is worth nothing for
//! another one, lives in memory alone, and comes through the control socket only: neither a policy
//! nor a reload can give it.

use std::cell::RefCell;

use tokio::sync::Notify;

/// Why a word is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// There is no such volume.
    #[error(
        "there is no volume {0:?}; a backend with `ceph`, `choices` or `tiers` is one, and \
         `evenkeel ctl status` names them"
    )]
    UnknownVolume(String),
    /// The volume can do without.
    #[error("volume {0:?} does not wait for a word; `evenkeel ctl status` says how it is")]
    NotAsked(String),
    /// The gate is about to end.
    #[error("the gate is stopping")]
    Stopping,
}

/// The operator's word on one volume.
#[derive(Debug, Default)]
pub(crate) struct Word {
    state: RefCell<State>,
    /// Told when it is given.
    news: Notify,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    NotAsked,
    Asked(String),
    Given(String),
}

impl Word {
    /// Whether the word was given on this question; it is asked for from now on if not. A word on
    /// another question is forgotten.
    pub(crate) fn ask(&self, question: &str) -> bool {
        let mut state = self.state.borrow_mut();
        let is_given = matches!(&*state, State::Given(on) if on == question);
        if !is_given {
            *state = State::Asked(question.to_owned());
        }
        is_given
    }

    /// Asks, waits until the word is given, and uses it up.
    pub(crate) async fn wait_for(&self, question: &str) {
        loop {
            let news = self.news.notified();
            if self.ask(question) {
                return self.settle();
            }
            news.await;
        }
    }

    /// Waits until a word is given.
    pub(crate) async fn given(&self) {
        self.news.notified().await;
    }

    /// Nothing is asked any more, and what was given is used up.
    pub(crate) fn settle(&self) {
        self.state.replace(State::NotAsked);
    }

    /// Gives the word on what is asked; `None` if nothing is. Returns the question.
    pub(crate) fn give(&self) -> Option<String> {
        let mut state = self.state.borrow_mut();
        let question = match &*state {
            State::NotAsked => return None,
            State::Asked(question) | State::Given(question) => question.clone(),
        };
        *state = State::Given(question.clone());
        self.news.notify_waiters();
        Some(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_for_the_question_that_it_was_given_on() {
        let word = Word::default();
        assert_eq!(word.give(), None, "nobody asked");
        assert!(!word.ask("is a gone?"));
        assert_eq!(word.give().as_deref(), Some("is a gone?"));
        assert!(word.ask("is a gone?") && word.ask("is a gone?"), "until the volume is open");
        assert!(!word.ask("is b gone?") && !word.ask("is a gone?"), "it was another question");
        word.give();
        word.settle();
        assert!(word.give().is_none() && !word.ask("is a gone?"), "it was used");
    }
}
