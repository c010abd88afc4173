//! What a live experiment can bear beside it: on a machine with more it cannot judge.

use std::time::Duration;

use evenkeel_app::evidence::machine::{Bears, Conditions};

use super::skip::tell;

/// Of experiments with a server of a millisecond or more for a request.
pub(crate) const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: false };

/// Demands that what an experiment says took no longer than this, if the machine could judge that.
#[track_caller]
pub(crate) fn assert_within<T>(most: Duration, experiment: impl FnOnce() -> (T, Duration)) -> T {
    let ((outcome, took), conditions) =
        Conditions::during(BEARS, experiment).expect("a thread to watch with");
    if took >= most && conditions.is_disturbed() {
        tell(&format!("it took {took:?}: {}", conditions.why()));
    } else {
        assert!(took < most, "after {took:?}");
    }
    outcome
}
