//! Holding a volume: an exclusive lock on its head, renewed while it is used.
//!
//! ```text
//! lock ----renew----renew----renew--x                      x killed, or cut off
//!                                   |<- nothing is served ->|
//!                                   |<--- the lock ends ---->| another gate: lock, then the
//!                                   4.5 s                 6 s  predecessor's address shut out
//! ```
//!
//! A lock that ends by itself cannot stop what its holder had already sent. So whoever comes next
//! has the OSDs refuse the predecessor's address first, and only then looks at anything.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::time::Span;
use evenkeel_engine::pooled::{Head, head_name};
use rustix::io::Errno;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::blocking;
use crate::rados::{Pool, RadosError};

/// How long the OSD keeps the lock of one that renews it no more.
const LOCK_TIME: Span = Span::from_secs(6);

/// How long after the begin of a renewal the volume counts as ours: less than the lock, for clocks
/// that run unevenly.
const HOLD: Duration = Duration::from_millis(4500);

/// Between two renewals.
const BEAT: Duration = Duration::from_millis(1500);

/// A predecessor that was killed has lost its lock after so long; one that is alive keeps it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Between two looks whether the predecessor's lock has ended.
const LOOK: Duration = Duration::from_millis(200);

/// A volume that is ours.
#[derive(Debug)]
pub(super) struct Hold {
    pool: Arc<Pool>,
    head: String,
    cookie: String,
    /// What we call ourselves.
    name: String,
    /// The line of the head that says that the volume is ours, once it is known.
    owner: RefCell<Option<String>>,
    until: Cell<Instant>,
    /// Why it is not ours any more.
    lost: RefCell<Option<String>>,
    is_over: Cell<bool>,
    news: Notify,
}

impl Hold {
    /// Takes the volume, once a predecessor that was killed must have lost it, and renews it from
    /// then on.
    ///
    /// # Errors
    /// Who uses it, or what the cluster said.
    pub(super) async fn take(
        pool: &Arc<Pool>,
        volume: &str,
        cookie: &str,
    ) -> Result<Rc<Self>, String> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let hold = Self {
            pool: Arc::clone(pool),
            head: head_name(volume),
            cookie: cookie.to_owned(),
            name: format!("gate on {host}, process {}", std::process::id()),
            owner: RefCell::new(None),
            until: Cell::new(Instant::now()),
            lost: RefCell::new(None),
            is_over: Cell::new(false),
            news: Notify::new(),
        };
        let patience = Instant::now() + PATIENCE;
        loop {
            let begin = Instant::now();
            match hold.lock().await {
                Ok(()) => {
                    hold.until.set(begin + HOLD);
                    break;
                }
                Err(error) if error.is_busy() && Instant::now() < patience => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) if error.is_busy() => return Err(hold.who_else().await),
                Err(error) => return Err(error.to_string()),
            }
        }
        let hold = Rc::new(hold);
        tokio::task::spawn_local(Rc::clone(&hold).renew());
        Ok(hold)
    }

    async fn lock(&self) -> Result<(), RadosError> {
        let (head, cookie, name) = (self.head.clone(), self.cookie.clone(), self.name.clone());
        blocking(&self.pool, move |pool| pool.lock(&head, &cookie, &name, LOCK_TIME)).await
    }

    async fn who_else(&self) -> String {
        let head = self.head().await.ok().flatten().and_then(|head| head.owner);
        let who = head.unwrap_or_else(|| "another gate".to_owned());
        format!("{who} uses the volume; stop that gate first")
    }

    /// The head of the volume; none if it is new.
    ///
    /// # Errors
    /// What is wrong with it, or what the cluster said.
    pub(super) async fn head(&self) -> Result<Option<Head>, String> {
        let told = |error: RadosError| error.to_string();
        let (bytes, count) = self.pool.read(&self.head, 0, vec![0; 4096]).await.map_err(told)?;
        if count == 0 {
            return Ok(None);
        }
        Head::parse(&bytes[..count]).map(Some).map_err(|error| error.to_string())
    }

    /// The line of the head that says that the volume is ours.
    ///
    /// # Errors
    /// What the cluster said.
    pub(super) async fn owner(&self) -> Result<String, String> {
        let head = self.head.clone();
        let locker = blocking(&self.pool, move |pool| pool.locker(&head)).await;
        let locker = locker.map_err(|error| error.to_string())?;
        let locker = locker.ok_or("the lock ended at once")?;
        let owner = format!("{} {}", locker.address, self.name);
        self.owner.replace(Some(owner.clone()));
        Ok(owner)
    }

    /// Stores the head.
    ///
    /// # Errors
    /// What the cluster said.
    pub(super) async fn write_head(&self, head: &Head) -> Result<(), RadosError> {
        self.pool.write_full(&self.head, head.to_text().as_bytes()).await
    }

    /// Waits until it is known whether the volume is ours.
    pub(super) async fn is_held(&self) -> bool {
        loop {
            let news = self.news.notified();
            if Instant::now() < self.until.get() {
                return true;
            }
            if self.lost.borrow().is_some() {
                return false;
            }
            news.await;
        }
    }

    /// What to say if it is not known whether the volume is ours.
    pub(super) fn doubt(&self) -> Option<String> {
        let is_known = Instant::now() < self.until.get() || self.lost.borrow().is_some();
        (!is_known).then(|| {
            "the lock of the volume could not be renewed in time: requests wait, and fail in the \
             end"
            .to_owned()
        })
    }

    /// Why it is not ours any more, if it is not.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Waits until it is not ours any more. Returns why.
    pub(super) async fn until_lost(&self) -> String {
        loop {
            let news = self.news.notified();
            if let Some(why) = self.lost() {
                return why;
            }
            news.await;
        }
    }

    /// Lets go of the lock.
    ///
    /// # Errors
    /// What the cluster said; then the lock ends by itself.
    pub(super) async fn release(&self) -> Result<(), RadosError> {
        self.lose("let go of".to_owned());
        let (head, cookie) = (self.head.clone(), self.cookie.clone());
        blocking(&self.pool, move |pool| pool.unlock(&head, &cookie)).await
    }

    async fn renew(self: Rc<Self>) {
        while !self.is_over.get() {
            tokio::time::sleep(BEAT).await;
            if self.is_over.get() {
                return;
            }
            let begin = Instant::now();
            let (head, cookie, name) = (self.head.clone(), self.cookie.clone(), self.name.clone());
            let renewed =
                blocking(&self.pool, move |pool| pool.renew(&head, &cookie, &name, LOCK_TIME))
                    .await;
            match renewed {
                Ok(()) => self.held_from(begin),
                Err(error) if error.is_missing() || error.is_busy() => self.regain().await,
                Err(error) if is_shut_out(&error) => {
                    self.lose("another gate has taken the volume".to_owned());
                }
                Err(error) => tracing::warn!(head = self.head, %error, "a lock is not renewed"),
            }
        }
    }

    /// The lock had ended. It is ours again if nobody took the volume meanwhile.
    async fn regain(&self) {
        let begin = Instant::now();
        match self.lock().await {
            Ok(()) => match self.head().await {
                Ok(Some(head)) if head.owner.is_some() && head.owner == *self.owner.borrow() => {
                    self.held_from(begin);
                }
                Ok(_) => self.lose("another gate has used the volume meanwhile".to_owned()),
                Err(why) => tracing::warn!(head = self.head, why, "a lock is in doubt"),
            },
            Err(error) if error.is_busy() || is_shut_out(&error) => {
                self.lose("another gate has taken the volume".to_owned());
            }
            Err(error) => tracing::warn!(head = self.head, %error, "a lock is not regained"),
        }
    }

    fn held_from(&self, begin: Instant) {
        self.until.set(begin + HOLD);
        self.news.notify_waiters();
    }

    fn lose(&self, why: String) {
        self.is_over.set(true);
        self.until.set(Instant::now());
        self.lost.borrow_mut().get_or_insert(why);
        self.news.notify_waiters();
    }
}

/// Whether the OSDs refuse us: they say so with `EBLOCKLISTED`, which has this number.
fn is_shut_out(error: &RadosError) -> bool {
    error.errno() == Some(Errno::SHUTDOWN.raw_os_error())
}
