//! A pool: objects by name, read and written without blocking.

#![expect(unsafe_code, reason = "calls of librados")]

use std::ffi::{CStr, CString};
use std::ops::DerefMut;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::call::{UnderWay, call};
use super::cluster::{Cluster, text};
use super::error::{RadosError, check};
use super::library::{CREATE_EXCLUSIVE, FULL_FORCE, FULL_TRY, RawPool, RawWrite};
use super::lock::locked_by;

/// Between two looks whether a pool that was abandoned still has users.
const END_LOOK: Duration = Duration::from_millis(10);

/// A pool of a cluster, in its default namespace.
#[derive(Debug)]
pub struct Pool {
    /// After the context: the cluster must outlive it.
    pub(super) context: Arc<Context>,
    name: String,
}

/// A context of the library; calls under way hold it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) cluster: Arc<Cluster>,
    pub(super) raw: RawPool,
    under_way: Arc<UnderWay>,
    /// Locks and heads under way: nothing of them takes effect once the lock is let go of.
    keeping: Arc<UnderWay>,
}

// SAFETY: calls on a context may come from any thread, and from several at a time; what must not
// change meanwhile (key, namespace, snapshot) is never set.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody else has it; calls under way hold it in their state.
        unsafe { (self.cluster.library.rados_ioctx_destroy)(self.raw) };
    }
}

/// What becomes of a change that takes room while the pool is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum WhenFull {
    /// It fails; what takes no more room than before is carried out.
    Fail = FULL_TRY,
    /// It is carried out: locks and heads, a few bytes without which the volume could not even be
    /// read.
    Proceed = FULL_FORCE,
}

/// Changes of one object that take effect together, in the making.
pub(super) struct Change {
    context: Arc<Context>,
    raw: RawWrite,
}

impl Change {
    /// Has a method of a class run by the OSD. If that fails nothing of the change takes effect.
    pub(super) fn execute(&self, class: &CStr, method: &CStr, input: &[u8]) {
        // SAFETY: the change is ours; the names are C strings; the library copies the input; nobody
        // asks for the result of this step alone.
        unsafe {
            (self.context.cluster.library.rados_write_op_exec)(
                self.raw,
                class.as_ptr(),
                method.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                ptr::null_mut(),
            );
        }
    }
}

// SAFETY: a change is built by one thread and then only read by the library.
unsafe impl Send for Change {}

impl Drop for Change {
    fn drop(&mut self) {
        // SAFETY: the library is done with it: it is dropped before or after its call.
        unsafe { (self.context.cluster.library.rados_release_write_op)(self.raw) };
    }
}

/// What a call that reads works on: its memory, and the context that it goes through.
struct Reading<B> {
    buffer: B,
    _context: Arc<Context>,
}

impl Pool {
    /// The pool of this name.
    ///
    /// # Errors
    /// If there is none, or the user may not use it.
    pub fn open(cluster: &Arc<Cluster>, name: &str) -> Result<Self, RadosError> {
        let words = text(name)?;
        let mut raw = ptr::null_mut();
        // SAFETY: a connected handle, a C string, and a pointer of ours for the result.
        let result = unsafe {
            (cluster.library.rados_ioctx_create)(cluster.raw, words.as_ptr(), &raw mut raw)
        };
        check(result, || format!("pool {name:?}")).map_err(|error| {
            if error.is_missing() { RadosError::NoPool(name.to_owned()) } else { error }
        })?;
        let (under_way, keeping) = (Arc::default(), Arc::default());
        let context = Context { cluster: Arc::clone(cluster), raw, under_way, keeping };
        let context = Arc::new(context);
        Ok(Self { context, name: name.to_owned() })
    }

    /// Ends the connection, whoever still has the pool, and without waiting for what is under way:
    /// that ends now, without an answer, and is not sent again. Calls that wait for the cluster on
    /// threads of their own end as late as the cluster lets them; the connection goes after them.
    pub fn abandon(self: Arc<Self>) {
        self.cancel_all();
        let thread = std::thread::Builder::new().name("ceph-end".to_owned());
        let mut pool = self;
        // Without a thread the connection ends with its last user, wherever that is.
        let _ = thread.spawn(move || {
            loop {
                // Something may have been handed over while the first were cancelled.
                pool.cancel_all();
                match Arc::try_unwrap(pool) {
                    // Nobody can hand over anything any more; calls that were cancelled go with
                    // their callbacks.
                    Ok(last) if Arc::strong_count(&last.context) == 1 => return drop(last),
                    Ok(last) => pool = Arc::new(last),
                    Err(shared) => pool = shared,
                }
                std::thread::sleep(END_LOOK);
            }
        });
    }

    /// Whether no asynchronous call is under way that may still take effect once the lock is let go
    /// of.
    pub fn is_idle(&self) -> bool {
        self.context.under_way.is_empty()
    }

    fn cancel_all(&self) {
        let Context { cluster, raw, under_way, keeping } = &*self.context;
        under_way.cancel_all(cluster.library, *raw);
        keeping.cancel_all(cluster.library, *raw);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.context.cluster
    }

    /// Its number, in which placement groups are named.
    pub fn id(&self) -> i64 {
        // SAFETY: the context is alive.
        unsafe { (self.context.cluster.library.rados_ioctx_get_id)(self.context.raw) }
    }

    /// Reads as many bytes as the buffer has, from an offset on. Returns the buffer, and how many
    /// bytes there were; beyond them nothing was ever written.
    ///
    /// # Errors
    /// If there is no such object, or the cluster does not answer in time.
    pub async fn read<B>(
        &self,
        object: &str,
        offset: u64,
        buffer: B,
    ) -> Result<(B, usize), RadosError>
    where
        B: DerefMut<Target = [u8]> + Send + 'static,
    {
        let library = self.context.cluster.library;
        let name = text(object)?;
        let raw = self.context.raw;
        let reading = Reading { buffer, _context: Arc::clone(&self.context) };
        let (reading, result) =
            call((library, &self.context.under_way), reading, "read", |completion, reading| {
                let (bytes, length) = (reading.buffer.as_mut_ptr(), reading.buffer.len());
                // SAFETY: the library copies the name; the buffer stays where it is until the call
                // is over, since `call` owns it.
                unsafe {
                    (library.rados_aio_read)(
                        raw,
                        name.as_ptr(),
                        completion,
                        bytes.cast(),
                        length,
                        offset,
                    )
                }
            })
            .await?;
        let count = check(result, || format!("cannot read object {object:?}"))?;
        let count = usize::try_from(count).expect("not below zero");
        Ok((reading.buffer, count))
    }

    /// Bytes of an object.
    ///
    /// # Errors
    /// If there is no such object, or the cluster does not answer in time.
    pub async fn size_of(&self, object: &str) -> Result<u64, RadosError> {
        let library = self.context.cluster.library;
        let (name, raw) = (text(object)?, self.context.raw);
        let state = (0, Arc::clone(&self.context));
        let ((size_bytes, _), result) = call(
            (library, &self.context.under_way),
            state,
            "look at an object",
            |completion, state| {
                let size_bytes = &raw mut state.0;
                // SAFETY: the library copies the name; the size lies where `call` keeps it until
                // the call is over; the time of the last change is not asked for.
                unsafe {
                    (library.rados_aio_stat)(
                        raw,
                        name.as_ptr(),
                        completion,
                        size_bytes,
                        ptr::null_mut(),
                    )
                }
            },
        )
        .await?;
        check(result, || format!("cannot look at object {object:?}"))?;
        Ok(size_bytes)
    }

    /// Writes a part of an object, which is made if it is not there. Durable on all OSDs of the
    /// object when it returns, like every change.
    ///
    /// # Errors
    /// If the pool is full, or the cluster does not answer in time.
    pub async fn write(&self, object: &str, offset: u64, data: &[u8]) -> Result<(), RadosError> {
        let change = self.change();
        // SAFETY: the change is ours; the library copies the data.
        unsafe {
            (self.context.cluster.library.rados_write_op_write)(
                change.raw,
                data.as_ptr().cast(),
                data.len(),
                offset,
            );
        }
        self.carry_out(change, object, "write", WhenFull::Fail).await
    }

    /// Makes an object of these bytes, in place of what it was.
    ///
    /// # Errors
    /// If the pool is full, or the cluster does not answer in time.
    pub async fn write_full(&self, object: &str, data: &[u8]) -> Result<(), RadosError> {
        let change = self.change();
        // SAFETY: the change is ours; the library copies the data.
        unsafe {
            (self.context.cluster.library.rados_write_op_write_full)(
                change.raw,
                data.as_ptr().cast(),
                data.len(),
            );
        }
        self.carry_out(change, object, "write", WhenFull::Fail).await
    }

    /// The same, if the lock of the object is ours under this cookie when the OSD carries it out,
    /// however late that is. A full pool does not stand in the way.
    ///
    /// # Errors
    /// If the lock is not ours, or the cluster does not answer in time.
    pub async fn write_full_locked(
        &self,
        object: &str,
        data: &[u8],
        cookie: &str,
    ) -> Result<(), RadosError> {
        let change = self.change();
        change.execute(c"lock", c"assert_locked", &locked_by(cookie));
        // SAFETY: the change is ours; the library copies the data.
        unsafe {
            (self.context.cluster.library.rados_write_op_write_full)(
                change.raw,
                data.as_ptr().cast(),
                data.len(),
            );
        }
        self.carry_out(change, object, "write", WhenFull::Proceed).await
    }

    /// Makes an object of these bytes, if there is none yet.
    ///
    /// # Errors
    /// If there is one, the pool is full, or the cluster does not answer in time.
    pub async fn create(&self, object: &str, data: &[u8]) -> Result<(), RadosError> {
        let change = self.change();
        let library = self.context.cluster.library;
        // SAFETY: the change is ours; the library copies the data; no category is a null pointer.
        unsafe {
            (library.rados_write_op_create)(change.raw, CREATE_EXCLUSIVE, ptr::null());
            (library.rados_write_op_write_full)(change.raw, data.as_ptr().cast(), data.len());
        }
        self.carry_out(change, object, "create", WhenFull::Fail).await
    }

    /// Makes a part of an object read as zeroes; what is there of it takes no room any more.
    ///
    /// # Errors
    /// If the cluster does not answer in time.
    pub async fn zero(&self, object: &str, offset: u64, length: u64) -> Result<(), RadosError> {
        let change = self.change();
        // SAFETY: the change is ours.
        unsafe {
            (self.context.cluster.library.rados_write_op_zero)(change.raw, offset, length);
        }
        self.carry_out(change, object, "clear a part of", WhenFull::Fail).await
    }

    /// Removes an object.
    ///
    /// # Errors
    /// If there is none, or the cluster does not answer in time.
    pub async fn remove(&self, object: &str) -> Result<(), RadosError> {
        let change = self.change();
        // SAFETY: the change is ours.
        unsafe { (self.context.cluster.library.rados_write_op_remove)(change.raw) };
        self.carry_out(change, object, "remove", WhenFull::Fail).await
    }

    pub(super) fn change(&self) -> Change {
        // SAFETY: it has no condition.
        let raw = unsafe { (self.context.cluster.library.rados_create_write_op)() };
        Change { context: Arc::clone(&self.context), raw }
    }

    pub(super) async fn carry_out(
        &self,
        change: Change,
        object: &str,
        what: &'static str,
        when_full: WhenFull,
    ) -> Result<(), RadosError> {
        let library = self.context.cluster.library;
        let name: CString = text(object)?;
        let under_way = match when_full {
            WhenFull::Fail => Arc::clone(&self.context.under_way),
            WhenFull::Proceed => Arc::clone(&self.context.keeping),
        };
        let (_change, result) = call((library, &under_way), change, what, |completion, change| {
            let (raw, pool) = (change.raw, change.context.raw);
            // SAFETY: the change stays until the call is over, since `call` owns it; the library
            // copies the name; no time of change is a null pointer.
            unsafe {
                (library.rados_aio_write_op_operate)(
                    raw,
                    pool,
                    completion,
                    name.as_ptr(),
                    ptr::null_mut(),
                    when_full as i32,
                )
            }
        })
        .await?;
        check(result, || format!("cannot {what} object {object:?}")).map(drop)
    }
}
