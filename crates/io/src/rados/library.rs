//! The functions of librados that are used, found by name when the library is loaded.
//!
//! Signatures are those of `librados.h`, stable since version 15 (2020).

#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use super::error::RadosError;

/// What is loaded; the number is that of the library's binary interface.
const FILE: &str = "librados.so.2";

/// Under way with a call: `rados_completion_t`.
pub(super) type Completion = *mut c_void;
/// `rados_t`.
pub(super) type RawCluster = *mut c_void;
/// `rados_ioctx_t`.
pub(super) type RawPool = *mut c_void;
/// `rados_write_op_t`.
pub(super) type RawWrite = *mut c_void;
/// What the library calls when a call is over.
pub(super) type Callback = unsafe extern "C" fn(Completion, *mut c_void);

/// `LIBRADOS_LOCK_FLAG_MAY_RENEW`.
pub(super) const MAY_RENEW: u8 = 1;
/// `LIBRADOS_LOCK_FLAG_MUST_RENEW`.
pub(super) const MUST_RENEW: u8 = 2;
/// `LIBRADOS_CREATE_EXCLUSIVE`.
pub(super) const CREATE_EXCLUSIVE: c_int = 1;
/// `LIBRADOS_OPERATION_FULL_TRY`: with a full pool a call ends with ENOSPC, where it would
/// otherwise wait for room without end.
pub(super) const FULL_TRY: c_int = 64;
/// `LIBRADOS_OPERATION_FULL_FORCE`: a call is carried out with a full pool as with any other.
pub(super) const FULL_FORCE: c_int = 128;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The loaded library.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn bind(library: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of the library's header, which its version
                    // number promises to keep.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0"))? },)*
                })
            }
        }
    };
}

functions! {
    rados_create(*mut RawCluster, *const c_char) -> c_int;
    rados_conf_read_file(RawCluster, *const c_char) -> c_int;
    rados_conf_set(RawCluster, *const c_char, *const c_char) -> c_int;
    rados_connect(RawCluster) -> c_int;
    rados_shutdown(RawCluster);
    rados_wait_for_latest_osdmap(RawCluster) -> c_int;
    rados_cluster_fsid(RawCluster, *mut c_char, usize) -> c_int;
    rados_pool_lookup(RawCluster, *const c_char) -> i64;
    rados_pool_reverse_lookup(RawCluster, i64, *mut c_char, usize) -> c_int;
    rados_mon_command(
        RawCluster, *const *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_mgr_command(
        RawCluster, *const *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_ioctx_create(RawCluster, *const c_char, *mut RawPool) -> c_int;
    rados_ioctx_destroy(RawPool);
    rados_ioctx_get_id(RawPool) -> i64;
    rados_aio_create_completion2(*mut c_void, Callback, *mut Completion) -> c_int;
    rados_aio_get_return_value(Completion) -> c_int;
    rados_aio_release(Completion);
    rados_aio_cancel(RawPool, Completion) -> c_int;
    rados_aio_read(RawPool, *const c_char, Completion, *mut c_char, usize, u64) -> c_int;
    rados_aio_stat(RawPool, *const c_char, Completion, *mut u64, *mut i64) -> c_int;
    rados_create_write_op() -> RawWrite;
    rados_release_write_op(RawWrite);
    rados_write_op_create(RawWrite, c_int, *const c_char);
    rados_write_op_write(RawWrite, *const c_char, usize, u64);
    rados_write_op_write_full(RawWrite, *const c_char, usize);
    rados_write_op_zero(RawWrite, u64, u64);
    rados_write_op_remove(RawWrite);
    rados_write_op_exec(
        RawWrite, *const c_char, *const c_char, *const c_char, usize, *mut c_int
    );
    rados_aio_write_op_operate(
        RawWrite, RawPool, Completion, *const c_char, *mut i64, c_int
    ) -> c_int;
    rados_list_lockers(
        RawPool, *const c_char, *const c_char, *mut c_int, *mut c_char, *mut usize,
        *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize
    ) -> isize;
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FILE)
    }
}

/// The library, loaded at the first call and for as long as the process lives.
pub(super) fn library() -> Result<&'static Library, RadosError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| load(FILE));
    loaded.as_ref().map_err(|why| RadosError::Library(why.clone()))
}

fn load(file: &str) -> Result<Library, String> {
    // SAFETY: the initialisers of this library set up its own memory and nothing else.
    let library = unsafe { libloading::Library::new(file) }.map_err(|error| told(&error))?;
    let bound = Library::bind(&library).map_err(|error| told(&error))?;
    // Its threads outlive every handle: it must never be unloaded.
    std::mem::forget(library);
    Ok(bound)
}

/// What the system said, which the error itself only refers to.
fn told(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_the_package() {
        let why = load("libnobody-has-this.so.2").expect_err("there is none");
        let text = RadosError::Library(why).to_string();
        assert!(text.contains("libnobody-has-this") && text.contains("librados2"), "{text}");
    }

    #[test]
    fn another_library_is_refused_with_the_function_that_it_lacks() {
        let why = load("libc.so.6").expect_err("it is not Ceph's");
        assert!(why.contains("rados_"), "{why}");
    }
}
