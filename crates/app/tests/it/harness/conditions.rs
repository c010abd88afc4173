//! What a live experiment can bear beside it: on a machine with more it cannot judge.

use evenkeel_app::evidence::machine::Bears;

/// Of experiments with a server of a millisecond or more for a request.
pub(crate) const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 0.5, late_p99_ms: 5.0, uses_disks: false };
