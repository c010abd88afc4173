//! What an open store needs every half second: the time of day, a mark behind its log once nobody
//! writes, and somebody who remembers how far it is.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;

use super::FileStore;
use crate::clock::unix_time_s;
use crate::store::PositionFile;

const TICK: Duration = Duration::from_millis(500);

/// How far a store is, as its gate remembers it; nothing where there is no folder for that.
#[derive(Debug, Default)]
pub(super) struct Memory(RefCell<Option<PositionFile>>);

impl Memory {
    /// Remembers a store that was just opened.
    pub(super) fn begin(name: &str, store: &FileStore, folder: Option<&Path>) -> Rc<Self> {
        let file = folder.map(|folder| PositionFile::create(folder, store.position()));
        let told = "it is not remembered how far the store is: it cannot be told from an older \
                    image";
        let file = file.and_then(|file| {
            file.inspect_err(|error| tracing::warn!(store = name, %error, "{told}")).ok()
        });
        Rc::new(Self(RefCell::new(file)))
    }

    /// The store is as far as it is now.
    pub(super) fn note(&self, store: &FileStore) {
        let mut file = self.0.borrow_mut();
        let noted = file.as_mut().map(|file| file.note(store.position()));
        if let Some(Err(error)) = noted {
            tracing::warn!(%error, "how far a store is cannot be remembered any more");
            *file = None;
        }
    }
}

/// Looks after a store that is open, for as long as there is one.
pub(super) fn look_after(store: &Rc<FileStore>, memory: Rc<Memory>) {
    let store = Rc::downgrade(store);
    spawn_local(async move {
        let mut ticks = tokio::time::interval(TICK);
        let mut before = None;
        loop {
            ticks.tick().await;
            let Some(store) = store.upgrade() else { return };
            store.set_unix_time(unix_time_s());
            let position = store.position();
            if before == Some(position) {
                // Nobody wrote for a while. If the store stops meanwhile, others say so.
                let _ = store.mark_tail().await;
            }
            before = Some(position);
            memory.note(&store);
        }
    });
}
