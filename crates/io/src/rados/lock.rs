//! Exclusive locks on objects, kept by the OSDs themselves.
//!
//! A lock is held by one client under a cookie, for a while: unless it is renewed, the OSD forgets
//! it. All calls here wait for the cluster.

#![expect(unsafe_code, reason = "calls of librados")]

use std::ffi::c_char;

use evenkeel_core::time::Span;

use super::cluster::{narrow, text};
use super::error::{RadosError, check};
use super::library::{MAY_RENEW, MUST_RENEW, TimeValue};
use super::pool::Pool;

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

/// The input of the method `assert_locked` of Ceph's class `lock`, version 1: name, kind, cookie
/// and tag, which is empty.
pub(super) fn locked_by(cookie: &str) -> Vec<u8> {
    let text = |text: &str, out: &mut Vec<u8>| {
        let length = u32::try_from(text.len()).expect("names of ours are short");
        out.extend(length.to_le_bytes());
        out.extend(text.as_bytes());
    };
    let mut body = Vec::new();
    text(LOCK, &mut body);
    body.push(EXCLUSIVE);
    text(cookie, &mut body);
    text("", &mut body);
    let length = u32::try_from(body.len()).expect("names of ours are short");
    [&[1, 1][..], &length.to_le_bytes(), &body].concat()
}

impl Pool {
    /// Takes the lock of an object, which is made if it is not there, for a while; or holds on to
    /// it.
    ///
    /// # Errors
    /// If somebody else has it, `term` does not allow what is to be done, or the cluster does not
    /// answer in time.
    pub fn lock(
        &self,
        object: &str,
        cookie: &str,
        told: &str,
        time: Span,
        term: Term,
    ) -> Result<(), RadosError> {
        let (name, lock) = (text(object)?, text(LOCK)?);
        let (cookie, told) = (text(cookie)?, text(told)?);
        let whole = |number: u64| i64::try_from(number).expect("a span has fewer microseconds");
        let mut time = TimeValue {
            seconds: whole(time.0 / 1_000_000_000),
            micros: whole(time.0 / 1000 % 1_000_000),
        };
        // SAFETY: the context is alive, all texts are C strings, and the time is only read.
        let result = unsafe {
            (self.context.cluster.library.rados_lock_exclusive)(
                self.context.raw,
                name.as_ptr(),
                lock.as_ptr(),
                cookie.as_ptr(),
                told.as_ptr(),
                &raw mut time,
                term as u8,
            )
        };
        check(result, || format!("cannot lock object {object:?}")).map(drop)
    }

    /// Lets go of the lock of an object.
    ///
    /// # Errors
    /// If we do not have it, or the cluster does not answer in time.
    pub fn unlock(&self, object: &str, cookie: &str) -> Result<(), RadosError> {
        let (name, lock, cookie) = (text(object)?, text(LOCK)?, text(cookie)?);
        // SAFETY: the context is alive, all texts are C strings.
        let result = unsafe {
            (self.context.cluster.library.rados_unlock)(
                self.context.raw,
                name.as_ptr(),
                lock.as_ptr(),
                cookie.as_ptr(),
            )
        };
        check(result, || format!("cannot unlock object {object:?}")).map(drop)
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
                let first = |told: &[u8]| {
                    let item = told.split(|byte| *byte == 0).next().unwrap_or_default();
                    String::from_utf8_lossy(item).into_owned()
                };
                Ok(Some(Locker {
                    client: first(&told[1]),
                    cookie: first(&told[2]),
                    address: first(&told[3]),
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
}
