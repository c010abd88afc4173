//! The tiered volume of a domain: whether it is open, and if not, why.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use crate::device::Device;

/// The volume of a domain whose servers are its tiers.
#[derive(Debug)]
pub(crate) struct Volume {
    standing: RefCell<Standing>,
    /// How much of what an opening has to read was read, and how much there is.
    progress: Cell<Option<(u64, u64)>>,
    /// Told whenever `standing` changes.
    news: Notify,
    is_resizing: Cell<bool>,
}

/// The volume is being resized; by one at a time.
pub(crate) struct Resizing<'a>(&'a Cell<bool>);

impl Drop for Resizing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[derive(Debug)]
enum Standing {
    /// It is being opened; with what stands in the way, if that is known.
    Opening(Option<String>),
    Open(Rc<Device>),
}

impl Volume {
    /// A volume that nobody has opened yet.
    pub(crate) fn new() -> Self {
        Self {
            standing: RefCell::new(Standing::Opening(None)),
            progress: Cell::new(None),
            news: Notify::new(),
            is_resizing: Cell::new(false),
        }
    }

    /// The volume as a device, once it is open.
    pub(crate) fn device(&self) -> Option<Rc<Device>> {
        match &*self.standing.borrow() {
            Standing::Open(device) => Some(Rc::clone(device)),
            Standing::Opening(_) => None,
        }
    }

    /// Waits until the volume is open or something is known to stand in the way.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) async fn opened(&self) -> Result<Rc<Device>, String> {
        loop {
            let news = self.news.notified();
            match &*self.standing.borrow() {
                Standing::Open(device) => return Ok(Rc::clone(device)),
                Standing::Opening(Some(trouble)) => return Err(trouble.clone()),
                Standing::Opening(None) => {}
            }
            news.await;
        }
    }

    /// Why it cannot be used now, if it cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Open(device) => device.trouble(),
            Standing::Opening(Some(trouble)) => Some(trouble.clone()),
            Standing::Opening(None) => Some(match self.progress.get() {
                Some((read, all)) => format!("it is being opened, {} %", 100 * read / all.max(1)),
                None => "it is being opened".to_owned(),
            }),
        }
    }

    /// Begins to resize it, unless somebody does.
    pub(crate) fn begin_resize(&self) -> Option<Resizing<'_>> {
        (!self.is_resizing.replace(true)).then(|| Resizing(&self.is_resizing))
    }

    /// Notes how far an opening is.
    pub(crate) fn note_progress(&self, progress: Option<(u64, u64)>) {
        self.progress.set(progress);
    }

    /// Notes what stands in the way of opening; true if that is news.
    pub(crate) fn note_trouble(&self, trouble: &str) -> bool {
        let mut standing = self.standing.borrow_mut();
        let is_news = !matches!(&*standing, Standing::Opening(Some(known)) if known == trouble);
        *standing = Standing::Opening(Some(trouble.to_owned()));
        self.news.notify_waiters();
        is_news
    }

    /// It is another gate's from now on.
    pub(crate) fn lose(&self, by: &str) {
        let why = format!("{by} has claimed the volume, and it was let go of here");
        self.standing.replace(Standing::Opening(Some(why)));
        self.news.notify_waiters();
    }

    /// It is open from now on, until another gate has it.
    pub(crate) fn open(&self, device: Rc<Device>) {
        self.standing.replace(Standing::Open(device));
        self.news.notify_waiters();
    }
}
