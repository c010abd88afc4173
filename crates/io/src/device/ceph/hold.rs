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
//! has the OSDs refuse the predecessor's address first, and only then looks at anything (`fence`).
//!
//! A holder that was asleep for longer than its lock asks for it again, and then reads the head:
//! the volume is still its own if nobody wrote another name there meanwhile.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::pooled::{Head, head_name};
use tokio::time::Instant;

use super::guarded::{Connection, Guarded, GuardedError, Lock};
use super::lease::Lease;
use super::loss::Loss;
use super::opening::NotOpened;
use super::said::Said;
use crate::clock::since_boot;
use crate::rados::RadosError;

/// Between two renewals.
const BEAT: Duration = Duration::from_millis(1500);

/// A predecessor that was killed has lost its lock after so long; one that is alive keeps it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Between two looks whether the predecessor's lock has ended.
const LOOK: Duration = Duration::from_millis(200);

/// A volume that is ours.
#[derive(Debug)]
pub(super) struct Hold {
    guarded: Guarded,
    lease: Arc<Lease>,
    lock: Lock,
    /// The line of the head that says that the volume is ours, once it is known.
    owner: RefCell<Option<String>>,
    said: Said,
}

impl Hold {
    /// Takes the volume, once a predecessor that was killed must have lost it, and renews it from
    /// then on.
    ///
    /// # Errors
    /// Who uses it, or what the cluster said.
    pub(super) async fn take(
        connection: &Connection,
        volume: &str,
        cookie: &str,
    ) -> Result<Rc<Self>, NotOpened> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let lease = Arc::new(Lease::default());
        let hold = Self {
            guarded: connection.guarded(&lease),
            lease,
            lock: Lock {
                object: head_name(volume),
                cookie: cookie.to_owned(),
                told: format!("gate on {host}, process {}", std::process::id()),
            },
            owner: RefCell::new(None),
            said: Said::default(),
        };
        let patience = Instant::now() + PATIENCE;
        loop {
            let begin = since_boot();
            match connection.lock(&hold.lock).await {
                Ok(()) => {
                    hold.lease.held_from(begin);
                    break;
                }
                Err(error) if error.is_busy() && Instant::now() < patience => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) if error.is_busy() => {
                    let who = who_has(connection, volume).await;
                    let who = who.unwrap_or_else(|| "another gate".to_owned());
                    let why = format!("{who} uses the volume; stop that gate first");
                    return Err(NotOpened::InUse(why));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let hold = Rc::new(hold);
        tokio::task::spawn_local(Rc::clone(&hold).renew());
        Ok(hold)
    }

    /// The data of the volume.
    pub(super) fn guarded(&self) -> &Guarded {
        &self.guarded
    }

    /// The head of the volume; none if it is new.
    ///
    /// # Errors
    /// What is wrong with it, or what the cluster said.
    pub(super) async fn head(&self) -> Result<Option<Head>, NotOpened> {
        let bytes = self.guarded.connection().look(&self.lock.object).await?;
        let head = bytes.map(|bytes| Head::parse(&bytes)).transpose();
        head.map_err(|error| NotOpened::Other(error.to_string()))
    }

    /// The line of the head that says that the volume is ours.
    ///
    /// # Errors
    /// What the cluster said.
    pub(super) async fn owner(&self) -> Result<String, NotOpened> {
        let locker = self.guarded.connection().locker(&self.lock).await?;
        let ours = locker.filter(|locker| locker.cookie == self.lock.cookie);
        let ours = ours.ok_or_else(|| NotOpened::Other("the lock ended at once".to_owned()))?;
        let owner = format!("{} {}", ours.address, self.lock.told);
        self.owner.replace(Some(owner.clone()));
        Ok(owner)
    }

    /// Stores the head.
    ///
    /// # Errors
    /// What the cluster said, or that the volume is not ours.
    pub(super) async fn write_head(&self, head: &Head) -> Result<(), GuardedError> {
        self.guarded.write_head(&self.lock, &head.to_text()).await
    }

    /// What to say if it is not known whether the volume is ours.
    pub(super) fn doubt(&self) -> Option<String> {
        self.lease.is_in_doubt().then(|| {
            "the lock of the volume could not be renewed in time: requests wait, and fail in the \
             end"
            .to_owned()
        })
    }

    /// Lets go of the volume: the head says so, so that nobody need shut us out. It does not while
    /// something is under way, since that may still take effect.
    ///
    /// # Errors
    /// What the cluster said; then the lock ends by itself.
    pub(super) async fn let_go(&self, head: &Head) -> Result<(), RadosError> {
        let was_ours = self.lease.lost().is_none();
        // From here on nothing is handed over any more.
        self.lease.lose(Loss::LetGo);
        let connection = self.guarded.connection();
        if was_ours && connection.is_idle() {
            let head = Head { owner: None, ..head.clone() };
            connection.write_head(&self.lock, &head.to_text()).await?;
        }
        connection.unlock(&self.lock).await
    }

    /// Lets go of the lock of a volume that was not opened.
    ///
    /// # Errors
    /// What the cluster said; then the lock ends by itself.
    pub(super) async fn release(&self) -> Result<(), RadosError> {
        self.lease.lose(Loss::LetGo);
        self.guarded.connection().unlock(&self.lock).await
    }

    async fn renew(self: Rc<Self>) {
        loop {
            tokio::select! {
                _ = self.lease.until_lost() => return,
                () = tokio::time::sleep(BEAT) => {}
            }
            let begin = since_boot();
            match self.guarded.renew(&self.lock).await {
                Ok(true) => self.held_from(begin),
                // It may have ended meanwhile, and somebody else have come and gone.
                Ok(false) => self.regain().await,
                Err(error) if error.is_missing() || error.is_busy() => self.regain().await,
                Err(error) if error.is_shut_out() => self.lease.lose(Loss::ShutOut),
                Err(error) => self.say("a lock is not renewed", &error.to_string()),
            }
        }
    }

    /// Whether the volume is still there, in the pool that it was opened in. It is lost if not;
    /// what cannot be asked now is in doubt, and does not count as there.
    pub(super) async fn is_there(&self) -> bool {
        let connection = self.guarded.connection();
        let outcome = match connection.look(&self.lock.object).await {
            Ok(Some(_)) => return true,
            Ok(None) => connection.what_became().await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(what) => {
                let what = what.unwrap_or_else(|| self.head_is_gone());
                self.lease.lose(Loss::Gone(what));
            }
            Err(error) if error.is_shut_out() => self.lease.lose(Loss::ShutOut),
            Err(error) => self.say("the volume may not be there any more", &error.to_string()),
        }
        false
    }

    fn head_is_gone(&self) -> String {
        let pool = self.guarded.connection().pool_name();
        format!(
            "object {:?} is gone from pool {pool:?}: without it nobody knows who has the volume",
            self.lock.object
        )
    }

    /// Nobody knows who had the lock meanwhile. The volume is ours again if nobody took it.
    async fn regain(&self) {
        // To take a lock makes its object, and that must not stand for a head that is lost.
        if !self.is_there().await {
            return;
        }
        let begin = since_boot();
        match self.guarded.connection().lock_again(&self.lock).await {
            Ok(()) => match self.head().await {
                Ok(Some(head)) if head.owner.is_some() && head.owner == *self.owner.borrow() => {
                    tracing::info!(head = self.lock.object, "a lock is regained: nobody had it");
                    self.held_from(begin);
                }
                Ok(_) => {
                    self.lease.lose(Loss::Used);
                    // Whoever wants the volume need not wait for a lock that is good for nothing.
                    let _ = self.guarded.connection().unlock(&self.lock).await;
                }
                Err(NotOpened::ShutOut) => self.lease.lose(Loss::ShutOut),
                Err(why) => self.say("a lock is in doubt", &why.to_string()),
            },
            Err(error) if error.is_shut_out() => self.lease.lose(Loss::ShutOut),
            Err(error) if error.is_busy() => self.lease.lose(Loss::Taken),
            Err(error) => self.say("a lock is not regained", &error.to_string()),
        }
    }

    fn held_from(&self, begin: evenkeel_core::time::Nanos) {
        self.lease.held_from(begin);
        if self.said.is_over() {
            tracing::info!(head = self.lock.object, "a lock is renewed again");
        }
    }

    fn say(&self, what: &str, why: &str) {
        if self.said.is_news(why) {
            tracing::warn!(head = self.lock.object, why, "{what}");
        }
    }
}

/// Who has a volume, as its head says; none if nobody has, or nobody can tell.
pub(super) async fn who_has(connection: &Connection, volume: &str) -> Option<String> {
    let bytes = connection.look(&head_name(volume)).await.ok()??;
    Head::parse(&bytes).ok()?.owner
}
