//! A connection to a cluster, and what its monitors and managers are asked.

#![expect(unsafe_code, reason = "calls of librados")]

use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::time::Span;
use rustix::io::Errno;

use super::error::{RadosError, check, check_with};
use super::library::{Library, RawCluster, library};

/// How a cluster is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// Its configuration file, if there is one.
    pub conf: Option<PathBuf>,
    /// Its monitors, as `mon_host` of such a file; they count more than the file.
    pub monitors: Option<String>,
    /// Who we are: the name behind `client.`.
    pub user: String,
    /// The file with the secret of that user.
    pub keyring: Option<PathBuf>,
    /// The secret itself.
    pub key: Option<String>,
    /// How long a request may take before it fails, and connecting as well.
    pub patience: Span,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conf, monitors, user, .. } = self;
        // No secrets in logs.
        write!(f, "Access({conf:?}, {monitors:?}, client.{user})")
    }
}

/// Requests that are not answered for so long, or for half the patience, have the client look
/// whether there is a newer map.
const ASK_FOR_MAP: Duration = Duration::from_secs(2);

impl Access {
    /// What may be the matter if the cluster lets nobody in.
    fn advice(&self, errno: Errno) -> String {
        let user = &self.user;
        match errno {
            Errno::ACCESS | Errno::PERM => format!(
                "it does not let client.{user} in with this key; compare the keyring with `ceph \
                 auth get client.{user}`"
            ),
            Errno::NOENT => format!("there is no key for client.{user}; name its `keyring`"),
            Errno::TIMEDOUT => {
                format!("no monitor answered within {:?}", Duration::from_nanos(self.patience.0))
            }
            _ => String::new(),
        }
    }
}

/// A UUID as text, with the zero behind it.
const IDENTITY_BYTES: usize = 37;

/// Longer than the name of any pool.
const POOL_NAME_BYTES: usize = 1024;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The monitors, who know the maps.
    Monitor,
    /// The manager, who has the figures.
    Manager,
}

/// A connection to a cluster. It ends when the last pool of it is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub(super) library: &'static Library,
    pub(super) raw: RawCluster,
}

// SAFETY: a handle of librados may be used by any thread, and by several at a time; it is ended in
// `drop` alone, when nobody else has it.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

impl Cluster {
    /// Loads the library if need be and connects. Waits for the monitors.
    ///
    /// # Errors
    /// Without the library; if a file cannot be read, the monitors do not answer in time, or do not
    /// know the user.
    pub fn connect(access: &Access) -> Result<Arc<Self>, RadosError> {
        let cluster = Self::create(access)?;
        // SAFETY: the handle is configured and not connected yet.
        let result = unsafe { (cluster.library.rados_connect)(cluster.raw) };
        let what = || match (&access.monitors, &access.conf) {
            (Some(monitors), _) => format!("cannot connect to the cluster at {monitors}"),
            (None, Some(conf)) => format!("cannot connect to the cluster of {}", conf.display()),
            (None, None) => "cannot connect to the cluster".to_owned(),
        };
        check_with(result, what, || access.advice(Errno::from_raw_os_error(-result)))?;
        Ok(Arc::new(cluster))
    }

    fn create(access: &Access) -> Result<Self, RadosError> {
        let library = library()?;
        let user = text(&access.user)?;
        if let Some(keyring) = &access.keyring {
            // The library would only say that it has no key.
            std::fs::File::open(keyring).map_err(|error| RadosError::Failed {
                what: format!("cannot read the keyring {}", keyring.display()),
                errno: error.raw_os_error().unwrap_or_default(),
                said: String::new(),
            })?;
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the result goes to a pointer of ours, the name is a C string.
        let result = unsafe { (library.rados_create)(&raw mut raw, user.as_ptr()) };
        check(result, || "cannot make a handle for a cluster".to_owned())?;
        let cluster = Self { library, raw };
        if let Some(conf) = &access.conf {
            let path = text(&conf.to_string_lossy())?;
            // SAFETY: the handle is ours, the path is a C string.
            let result = unsafe { (library.rados_conf_read_file)(cluster.raw, path.as_ptr()) };
            check(result, || format!("cannot read {}", conf.display()))?;
        }
        let seconds = access.patience.0.div_ceil(1_000_000_000).max(1).to_string();
        let keyring = access.keyring.as_ref().map(|path| path.to_string_lossy().into_owned());
        for (option, value) in [
            ("mon_host", access.monitors.as_deref()),
            ("keyring", keyring.as_deref()),
            ("key", access.key.as_deref()),
            ("client_mount_timeout", Some(&seconds)),
            ("rados_mon_op_timeout", Some(&seconds)),
            ("rados_osd_op_timeout", Some(&seconds)),
        ] {
            if let Some(value) = value {
                cluster.set(option, value)?;
            }
        }
        cluster.ask_for_maps_early(access.patience);
        Ok(cluster)
    }

    /// A client that waits for a silent OSD asks for a newer map after ten seconds. If all its
    /// requests fail before that, it never does, and goes on asking an OSD that was given up.
    fn ask_for_maps_early(&self, patience: Span) {
        let seconds = patience.as_secs_f64();
        let late = (seconds / 2.0).min(ASK_FOR_MAP.as_secs_f64());
        for (option, value) in [("objecter_timeout", late), ("objecter_tick_interval", late / 2.0)]
        {
            // A library that has other means by now does without.
            let _ = self.set(option, &value.to_string());
        }
    }

    fn set(&self, option: &str, value: &str) -> Result<(), RadosError> {
        let (name, value) = (text(option)?, text(value)?);
        // SAFETY: the handle is ours, both texts are C strings.
        let result =
            unsafe { (self.library.rados_conf_set)(self.raw, name.as_ptr(), value.as_ptr()) };
        check(result, || format!("cannot set {option}")).map(drop)
    }

    /// Asks for something, in JSON as the `ceph` command would, and waits for the answer.
    ///
    /// # Errors
    /// If nobody answers in time, or the answer is no; with what was said.
    pub fn command(&self, whom: Whom, command: &str) -> Result<Vec<u8>, RadosError> {
        let words = text(command)?;
        let call = match whom {
            Whom::Monitor => self.library.rados_mon_command,
            Whom::Manager => self.library.rados_mgr_command,
        };
        let (mut out, mut said) = (Answer::of(self.library), Answer::of(self.library));
        let commands = [words.as_ptr()];
        // SAFETY: one command that is a C string, no input, and two answers that the library
        // allocates and `Answer` gives back to it.
        let result = unsafe {
            call(
                self.raw,
                commands.as_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &raw mut out.bytes,
                &raw mut out.length,
                &raw mut said.bytes,
                &raw mut said.length,
            )
        };
        let words = || String::from_utf8_lossy(said.as_slice()).into_owned();
        check_with(result, || format!("command {command}"), words)?;
        Ok(out.as_slice().to_vec())
    }

    /// Waits until this client has the newest map of the OSDs. Requests to OSDs from then on carry
    /// it along: they will not serve a client any more that it shuts out.
    ///
    /// # Errors
    /// If the monitors do not answer.
    pub fn wait_for_latest_map(&self) -> Result<(), RadosError> {
        // SAFETY: a connected handle.
        let result = unsafe { (self.library.rados_wait_for_latest_osdmap)(self.raw) };
        check(result, || "cannot get the newest map".to_owned()).map(drop)
    }

    /// The UUID of the cluster.
    ///
    /// # Errors
    /// If the library does not tell.
    pub fn identity(&self) -> Result<String, RadosError> {
        let mut bytes = [0u8; IDENTITY_BYTES];
        // SAFETY: a connected handle, and a buffer with its length.
        let result = unsafe {
            let library = self.library;
            (library.rados_cluster_fsid)(self.raw, bytes.as_mut_ptr().cast(), bytes.len())
        };
        check(result, || "cannot tell which cluster this is".to_owned())?;
        Ok(until_zero(&bytes))
    }

    /// The name of the pool of this number in the newest map; none if there is no such pool. Waits
    /// for the monitors.
    ///
    /// # Errors
    /// If they do not answer.
    pub fn pool_name(&self, number: i64) -> Result<Option<String>, RadosError> {
        self.wait_for_latest_map()?;
        let mut bytes = [0u8; POOL_NAME_BYTES];
        // SAFETY: a connected handle, and a buffer with its length.
        let result = unsafe {
            let library = self.library;
            (library.rados_pool_reverse_lookup)(
                self.raw,
                number,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
            )
        };
        match check(result, || format!("cannot look for pool number {number}")) {
            Ok(_) => Ok(Some(until_zero(&bytes))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The number of the pool of this name in the newest map; none if there is no such pool. Waits
    /// for the monitors.
    ///
    /// # Errors
    /// If they do not answer.
    pub fn pool_number(&self, name: &str) -> Result<Option<i64>, RadosError> {
        self.wait_for_latest_map()?;
        let words = text(name)?;
        // SAFETY: a connected handle and a C string.
        let number = unsafe { (self.library.rados_pool_lookup)(self.raw, words.as_ptr()) };
        if number >= 0 {
            return Ok(Some(number));
        }
        let errno = c_int::try_from(number).unwrap_or(c_int::MIN + 1);
        match check(errno, || format!("cannot look for pool {name:?}")) {
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(None),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle, and every pool of it is gone: pools hold the cluster.
        unsafe { (self.library.rados_shutdown)(self.raw) };
    }
}

/// What the library allocated for us.
struct Answer {
    library: &'static Library,
    bytes: *mut c_char,
    length: usize,
}

impl Answer {
    fn of(library: &'static Library) -> Self {
        Self { library, bytes: ptr::null_mut(), length: 0 }
    }

    fn as_slice(&self) -> &[u8] {
        if self.bytes.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: the library said that so many bytes are there, and they stay until the drop.
        unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.length) }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.bytes.is_null() {
            // SAFETY: it came from the library, and nobody looks at it any more.
            unsafe { (self.library.rados_buffer_free)(self.bytes) };
        }
    }
}

/// The text before the first zero byte.
pub(super) fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// A text for C.
pub(super) fn text(text: &str) -> Result<CString, RadosError> {
    CString::new(text).map_err(|_| RadosError::Name(text.to_owned()))
}

/// What a function of the library returned that may also be a number of bytes or of items.
pub(super) fn narrow(result: isize) -> c_int {
    c_int::try_from(result).unwrap_or(c_int::MAX)
}
