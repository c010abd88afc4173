//! The one way to the pool of a volume: every call asks first whether the volume is ours.
//!
//! ```text
//! opened, opening --> Guarded --is it ours?--> Pool --> librados --> OSDs
//! hold, fence     --> Connection: the lock, the head as it is, the monitors; no data
//! ```
//!
//! A request has several pieces, and may wait between them for as long as it likes; so it is asked
//! for each, and nothing is waited for between the question and the call. What sleeps behind the
//! question can only be stopped by the OSDs (`fence`).

use std::ops::DerefMut;
use std::sync::Arc;

use evenkeel_core::time::Span;
use evenkeel_engine::policy;
use evenkeel_engine::pooled::HEAD_BYTES_MAX;

use super::lease::Lease;
use super::loss::Loss;
use crate::rados::{Access, Cluster, Locker, Pool, PoolStatus, RadosError, Term, aside};

/// How long the OSD keeps the lock of one that renews it no more.
const LOCK_TIME: Span = Span::from_secs(6);

/// Why a call to the pool was not made, or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuardedError {
    /// The volume is not ours any more.
    #[error("the volume is not ours any more")]
    NotHeld,
    /// The cluster said no.
    #[error(transparent)]
    Cluster(#[from] RadosError),
}

impl GuardedError {
    /// Whether there is no such object.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.is_missing())
    }
}

/// The lock on the head of a volume, as one gate wants it.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    /// The head.
    pub(super) object: String,
    /// A word that nobody else uses, so that the lock is known to be ours.
    pub(super) cookie: String,
    /// What we call ourselves.
    pub(super) told: String,
}

/// Which pool it is, whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolPlace {
    /// The cluster's own name for itself, a UUID.
    pub(super) cluster: String,
    /// The number of the pool there, which no other pool ever has.
    pub(super) number: i64,
}

/// A connection to the pool of a volume. It gives no way to its data.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pool: Arc<Pool>,
}

impl Connection {
    /// Connects; a connection mends itself from then on.
    ///
    /// # Errors
    /// What the cluster or its library said.
    pub(super) async fn open(source: &policy::Ceph) -> Result<Self, RadosError> {
        let access = Access {
            conf: Some(source.conf.clone()),
            monitors: None,
            user: source.user.clone(),
            keyring: source.keyring.clone(),
            key: None,
            patience: source.patience,
        };
        let name = source.pool.clone();
        let opening = aside(move || {
            let cluster = Cluster::connect(&access)?;
            Pool::open(&cluster, &name)
        });
        Ok(Self { pool: Arc::new(opening.await?) })
    }

    /// The pool's data, for as long as the volume is ours.
    pub(super) fn guarded(&self, lease: &Arc<Lease>) -> Guarded {
        Guarded { connection: self.clone(), lease: Arc::clone(lease) }
    }

    /// Ends the connection now, with all that is under way.
    pub(super) fn abandon(self) {
        self.pool.abandon();
    }

    /// The pool's name.
    pub(super) fn pool_name(&self) -> &str {
        self.pool.name()
    }

    /// Asks monitors or the manager, on a thread that may wait.
    ///
    /// # Errors
    /// What they said.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cluster) -> Result<T, RadosError> + Send + 'static,
    ) -> Result<T, RadosError> {
        self.blocking(move |pool| work(pool.cluster())).await
    }

    /// The pool, with where its placement groups are and whom the OSDs refuse.
    ///
    /// # Errors
    /// If nobody answers in time.
    pub(super) async fn status(&self) -> Result<PoolStatus, RadosError> {
        self.blocking(|pool| pool.cluster().pool_status(pool.id())).await
    }

    /// What a head says, whoever has the volume; none if there is none, or nothing in it yet.
    ///
    /// # Errors
    /// What the cluster said.
    pub(super) async fn look(&self, head: &str) -> Result<Option<Vec<u8>>, RadosError> {
        match self.pool.read(head, 0, vec![0; HEAD_BYTES_MAX]).await {
            Ok((mut bytes, count)) => {
                bytes.truncate(count);
                Ok((count > 0).then_some(bytes))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores a head if the lock on it is ours when its OSD carries that out: a head that comes
    /// late would name an owner that nobody shuts out any more.
    ///
    /// # Errors
    /// If the lock is not ours, or what the cluster said.
    pub(super) async fn write_head(&self, lock: &Lock, text: &str) -> Result<(), RadosError> {
        self.pool.write_full_locked(&lock.object, text.as_bytes(), &lock.cookie).await
    }

    /// Removes an object.
    ///
    /// # Errors
    /// If there is none, or what the cluster said.
    pub(super) async fn remove(&self, object: &str) -> Result<(), RadosError> {
        self.pool.remove(object).await
    }

    /// Which pool it is.
    ///
    /// # Errors
    /// What the library said.
    pub(super) async fn place(&self) -> Result<PoolPlace, RadosError> {
        let work =
            |pool: &Pool| Ok(PoolPlace { cluster: pool.cluster().identity()?, number: pool.id() });
        self.blocking(work).await
    }

    /// What has become of the pool, if it is not there any more.
    ///
    /// # Errors
    /// If the monitors do not answer.
    pub(super) async fn what_became(&self) -> Result<Option<String>, RadosError> {
        let work = |pool: &Pool| {
            let (name, number) = (pool.name(), pool.id());
            let cluster = pool.cluster();
            if cluster.pool_name(number)?.is_some() {
                return Ok(None);
            }
            let deleted = format!("pool {name:?} (number {number}) was deleted");
            Ok(Some(match cluster.pool_number(name)? {
                None => deleted,
                Some(anew) => {
                    format!("{deleted}, and one of that name was made anew (number {anew})")
                }
            }))
        };
        self.blocking(work).await
    }

    /// Whether nothing is under way in the pool.
    pub(super) fn is_idle(&self) -> bool {
        self.pool.is_idle()
    }

    /// Takes a lock that nobody has.
    ///
    /// # Errors
    /// If somebody has it, or the cluster does not answer in time.
    pub(super) async fn lock(&self, lock: &Lock) -> Result<(), RadosError> {
        self.pool.lock(&lock.object, &lock.cookie, &lock.told, LOCK_TIME, Term::First).await
    }

    /// Takes a lock that is ours or nobody's. That says nothing of who had it meanwhile.
    ///
    /// # Errors
    /// If somebody else has it, or the cluster does not answer in time.
    pub(super) async fn lock_again(&self, lock: &Lock) -> Result<(), RadosError> {
        self.pool.lock(&lock.object, &lock.cookie, &lock.told, LOCK_TIME, Term::Any).await
    }

    /// Lets go of a lock.
    ///
    /// # Errors
    /// If it is not ours, or the cluster does not answer in time.
    pub(super) async fn unlock(&self, lock: &Lock) -> Result<(), RadosError> {
        self.pool.unlock(&lock.object, &lock.cookie).await
    }

    /// Who has a lock.
    ///
    /// # Errors
    /// If the cluster does not answer in time.
    pub(super) async fn locker(&self, lock: &Lock) -> Result<Option<Locker>, RadosError> {
        let object = lock.object.clone();
        self.blocking(move |pool| pool.locker(&object)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Pool) -> Result<T, RadosError> + Send + 'static,
    ) -> Result<T, RadosError> {
        let pool = Arc::clone(&self.pool);
        aside(move || work(&pool)).await
    }
}

/// The data of a pool, for as long as the volume is ours.
#[derive(Clone, Debug)]
pub(super) struct Guarded {
    connection: Connection,
    lease: Arc<Lease>,
}

impl Guarded {
    /// What it goes through.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What is asked.
    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Reads a part of an object; beyond what it returns nothing was ever written.
    ///
    /// # Errors
    /// If the volume is not ours, there is no such object, or the cluster says no.
    pub(super) async fn read<B>(
        &self,
        object: &str,
        offset: u64,
        buffer: B,
    ) -> Result<(B, usize), GuardedError>
    where
        B: DerefMut<Target = [u8]> + Send + 'static,
    {
        self.granted().await?;
        self.heed(self.pool().read(object, offset, buffer).await)
    }

    /// Bytes of an object.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) async fn size_of(&self, object: &str) -> Result<u64, GuardedError> {
        self.granted().await?;
        self.heed(self.pool().size_of(object).await)
    }

    /// Writes a part of an object, which is made if it is not there.
    ///
    /// # Errors
    /// If the volume is not ours, or the cluster says no.
    pub(super) async fn write(
        &self,
        object: &str,
        offset: u64,
        data: &[u8],
    ) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.pool().write(object, offset, data).await)
    }

    /// Makes a part of an object read as zeroes.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) async fn zero(
        &self,
        object: &str,
        offset: u64,
        length: u64,
    ) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.pool().zero(object, offset, length).await)
    }

    /// Removes an object.
    ///
    /// # Errors
    /// If the volume is not ours, there is no such object, or the cluster says no.
    pub(super) async fn remove(&self, object: &str) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.pool().remove(object).await)
    }

    /// Makes an object of these bytes, in place of what it was.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(super) async fn write_full(&self, object: &str, data: &[u8]) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.pool().write_full(object, data).await)
    }

    /// Stores a head, see [`Connection::write_head`].
    ///
    /// # Errors
    /// As [`Self::write`], and if the lock is not ours.
    pub(super) async fn write_head(&self, lock: &Lock, text: &str) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.connection.write_head(lock, text).await)
    }

    /// Makes an object of these bytes, if there is none yet.
    ///
    /// # Errors
    /// As [`Self::write`], and if there is one.
    pub(super) async fn create(&self, object: &str, data: &[u8]) -> Result<(), GuardedError> {
        self.granted().await?;
        self.heed(self.pool().create(object, data).await)
    }

    /// Holds on to the lock for another while. `false` if it was not asked for, since it is not
    /// known any more whether the volume is ours: somebody else may have had it meanwhile.
    ///
    /// # Errors
    /// If the lock is not ours any more, or the cluster does not answer in time.
    pub(super) async fn renew(&self, lock: &Lock) -> Result<bool, RadosError> {
        if !self.lease.is_held() {
            return Ok(false);
        }
        let Lock { object, cookie, told } = lock;
        let renewing = self.pool().lock(object, cookie, told, LOCK_TIME, Term::Another);
        renewing.await.map(|()| true)
    }

    /// Asks the monitors for something that only the owner of the volume may want.
    ///
    /// # Errors
    /// If the volume is not ours, or what they said.
    pub(super) async fn order(
        &self,
        work: impl FnOnce(&Cluster) -> Result<(), RadosError> + Send + 'static,
    ) -> Result<(), GuardedError> {
        let lease = Arc::clone(&self.lease);
        let ordering = self.connection.blocking(move |pool| {
            if !lease.is_held() {
                return Ok(false);
            }
            work(pool.cluster()).map(|()| true)
        });
        if ordering.await? { Ok(()) } else { Err(GuardedError::NotHeld) }
    }

    /// The pool; whoever calls this has asked, and waits for nothing before the call.
    fn pool(&self) -> &Pool {
        &self.connection.pool
    }

    async fn granted(&self) -> Result<(), GuardedError> {
        if self.lease.granted().await { Ok(()) } else { Err(GuardedError::NotHeld) }
    }

    /// An OSD that refuses us says that the volume is not ours, sooner than the lock does.
    fn heed<T>(&self, result: Result<T, RadosError>) -> Result<T, GuardedError> {
        if let Err(error) = &result
            && error.is_shut_out()
        {
            self.lease.lose(Loss::ShutOut);
            return Err(GuardedError::NotHeld);
        }
        Ok(result?)
    }
}
