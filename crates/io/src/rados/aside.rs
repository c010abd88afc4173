//! Work that waits for a cluster, on a thread of its own.
//!
//! A cluster that does not answer keeps such a thread for as long as the policy is patient. The
//! runtime's own threads for such work are few, and others need them: locks of other volumes would
//! not be renewed in time.

use tokio::sync::oneshot;

use super::error::RadosError;

/// Does what waits for a cluster, and waits for its end. Whoever stops to wait leaves the work to
/// end by itself.
///
/// # Errors
/// Those of the work; and if the system gives no thread.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RadosError> + Send + 'static,
) -> Result<T, RadosError> {
    let (done, end) = oneshot::channel();
    let thread = std::thread::Builder::new().name("ceph-wait".to_owned());
    let started = thread.spawn(move || {
        // Nobody may be waiting any more.
        let _ = done.send(work());
    });
    started.map_err(|error| RadosError::Thread(error.to_string()))?;
    end.await.expect("the work does not panic")
}
