//! Exclusive locks on objects, kept by the OSDs themselves.
//!
//! A lock is held by one client under a cookie, for a while: unless it is renewed, the OSD forgets
//! it. The library's own calls for locks wait, without an end, while the pool is full; so locks are
//! taken by the class that the library uses (`lock`), as changes that a full pool carries out. A
//! volume of which nothing can be written any more can then be read, and trimmed, all the same.

#![expect(unsafe_code, reason = "calls of librados")]

use std::ffi::c_char;

use evenkeel_core::time::Span;

use super::cluster::{narrow, text, until_zero};
use super::error::{RadosError, check};
use super::library::{MAY_RENEW, MUST_RENEW};
use super::pool::{Pool, WhenFull};

/// The name of the lock; an object can have several.
const LOCK: &str = "evenkeel";

/// `ClsLockType::EXCLUSIVE`.
const EXCLUSIVE: u8 = 1;

/// Bytes for each thing that is told of whoever holds a lock; there is one at most.
const TOLD_BYTES: usize = 1024;

/// Whether a lock is to be taken, or held on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Term {
    /// It must not be ours yet.
    First = 0,
    /// It may be ours.
    Any = MAY_RENEW,
    /// It must be ours.
    Another = MUST_RENEW,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locker {
    /// Its number as a client, such as `client.4123`.
    pub client: String,
    /// Where it is.
    pub address: String,
    /// By which it has the lock.
    pub cookie: String,
}

/// The input of a method of Ceph's class `lock`, as Ceph encodes structures: version, the oldest
/// version that understands it, the length, and the fields.
struct Encoded(Vec<u8>);

impl Encoded {
    fn lock() -> Self {
        Self(Vec::new()).text(LOCK)
    }

    fn text(mut self, text: &str) -> Self {
        self = self.number(u32::try_from(text.len()).expect("names of ours are short"));
        self.0.extend(text.as_bytes());
        self
    }

    fn number(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("names of ours are short");
        [&[1, 1][..], &length.to_le_bytes(), &self.0].concat()
    }
}

/// The input of `assert_locked`: name, kind, cookie and tag, which is empty.
pub(super) fn locked_by(cookie: &str) -> Vec<u8> {
    Encoded::lock().byte(EXCLUSIVE).text(cookie).text("").bytes()
}

/// The input of `lock`: the same, a description, the duration, and flags.
fn locking(cookie: &str, told: &str, time: Span, term: Term) -> Vec<u8> {
    let seconds = u32::try_from(time.0 / 1_000_000_000).expect("locks end within years");
    let nanos = u32::try_from(time.0 % 1_000_000_000).expect("less than a second");
    let locked = Encoded::lock().byte(EXCLUSIVE).text(cookie).text("").text(told);
    locked.number(seconds).number(nanos).byte(term as u8).bytes()
}

/// The input of `unlock`: name and cookie.
fn unlocking(cookie: &str) -> Vec<u8> {
    Encoded::lock().text(cookie).bytes()
}

impl Pool {
    /// Takes the lock of an object, which is made if it is not there, for a while; or holds on to
    /// it. A full pool does not stand in the way.
    ///
    /// # Errors
    /// If somebody else has it, `term` does not allow what is to be done, or the cluster does not
    /// answer in time.
    pub async fn lock(
        &self,
        object: &str,
        cookie: &str,
        told: &str,
        time: Span,
        term: Term,
    ) -> Result<(), RadosError> {
        let change = self.change();
        change.execute(c"lock", c"lock", &locking(cookie, told, time, term));
        self.carry_out(change, object, "lock", WhenFull::Proceed).await
    }

    /// Lets go of the lock of an object.
    ///
    /// # Errors
    /// If we do not have it, or the cluster does not answer in time.
    pub async fn unlock(&self, object: &str, cookie: &str) -> Result<(), RadosError> {
        let change = self.change();
        change.execute(c"lock", c"unlock", &unlocking(cookie));
        self.carry_out(change, object, "unlock", WhenFull::Proceed).await
    }

    /// Who has the lock of an object, if anybody has.
    ///
    /// # Errors
    /// If the cluster does not answer in time.
    pub fn locker(&self, object: &str) -> Result<Option<Locker>, RadosError> {
        let (name, lock) = (text(object)?, text(LOCK)?);
        let mut told = [[0u8; TOLD_BYTES]; 4];
        let mut lengths = [TOLD_BYTES; 4];
        let mut is_exclusive = 0;
        let [tag, clients, cookies, addresses] = told.each_mut().map(|it| it.as_mut_ptr().cast());
        let [tag_length, clients_length, cookies_length, addresses_length] =
            lengths.each_mut().map(|it| &raw mut *it);
        let (tag, clients): (*mut c_char, *mut c_char) = (tag, clients);
        // SAFETY: the context is alive, both names are C strings, and every buffer comes with its
        // length.
        let result = unsafe {
            (self.context.cluster.library.rados_list_lockers)(
                self.context.raw,
                name.as_ptr(),
                lock.as_ptr(),
                &raw mut is_exclusive,
                tag,
                tag_length,
                clients,
                clients_length,
                cookies,
                cookies_length,
                addresses,
                addresses_length,
            )
        };
        match check(narrow(result), || format!("cannot look at the lock of {object:?}")) {
            Ok(0) => Ok(None),
            Ok(_) => {
                // Each list ends every item with a zero byte.
                Ok(Some(Locker {
                    client: until_zero(&told[1]),
                    cookie: until_zero(&told[2]),
                    address: until_zero(&told[3]),
                }))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asserts_a_lock_is_as_ceph_encodes_it() {
        let expected = b"\x01\x01\x17\0\0\0\x08\0\0\0evenkeel\x01\x02\0\0\0ab\0\0\0\0";
        assert_eq!(locked_by("ab"), expected);
    }

    #[test]
    fn locks_are_taken_and_let_go_as_ceph_encodes_it() {
        let lock = locking("ab", "me", Span::from_millis(6500), Term::Another);
        let expected = b"\x01\x01\x26\0\0\0\x08\0\0\0evenkeel\x01\x02\0\0\0ab\0\0\0\0\x02\0\0\0me\
            \x06\0\0\0\x00\x65\xcd\x1d\x02";
        assert_eq!(lock, expected);
        assert_eq!(unlocking("ab"), b"\x01\x01\x12\0\0\0\x08\0\0\0evenkeel\x02\0\0\0ab");
    }
}
