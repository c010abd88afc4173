//! Volumes in pools of Ceph.

use evenkeel_core::bytes::Bytes;
use evenkeel_core::place::CANDIDATES_MAX;
use evenkeel_core::time::Span;

use super::{Findings, Place};
use crate::policy::{Ceph, Fence};
use crate::pooled::{NAME_BYTES_MAX, OBJECT_BYTES, OBJECTS_MAX, Shape, is_name};

pub(super) fn check(index: usize, volume: &Ceph, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let Ceph { pool, volume: name, shape, ceiling_milli, patience, fence, .. } = volume;
    if pool.is_empty() {
        found.error(place("source.pool"), "a pool without a name", "name the pool");
    }
    if !is_name(name) {
        found.error(
            place("source.volume"),
            format!("{name:?} is no name of a volume"),
            format!("use 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"),
        );
    }
    check_shape(*shape, index, found);
    if !(1..=950).contains(ceiling_milli) {
        found.error(
            place("source.ceiling"),
            "a ceiling at which Ceph itself may already have stopped the pool",
            "use 0.001 to 0.95; Ceph stops a pool when one of its OSDs is 95 % full",
        );
    }
    if *patience < Span::from_secs(1) {
        found.error(
            place("source.patience"),
            "less patience than Ceph can count",
            "use a second or more",
        );
    }
    if *fence == Fence::None {
        found.warning(
            place("source.fence"),
            "nothing keeps a gate that loses this volume from writing to it late, and no gate \
             takes it over by itself",
            "give the user the right to blocklist (`mon 'profile rbd'`) and leave `fence` out; or \
             make sure that the other gate is gone before every `evenkeel ctl claim`",
        );
    }
}

fn check_shape(shape: Shape, index: usize, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let Shape { object_bytes, size_bytes, candidates } = shape;
    if !object_bytes.is_power_of_two() || !OBJECT_BYTES.contains(&object_bytes) {
        found.error(
            place("source.object_bytes"),
            format!("objects of {}", Bytes(object_bytes)),
            "use a power of two from 64 KiB to 64 MiB",
        );
    } else if size_bytes == 0 || shape.objects() > OBJECTS_MAX {
        found.error(
            place("source.size_bytes"),
            format!("a volume of {} objects", shape.objects()),
            format!("use 1 to {OBJECTS_MAX}; larger objects are fewer"),
        );
    }
    if !(2..=CANDIDATES_MAX).contains(&candidates) {
        found.error(
            place("source.candidates"),
            format!("{candidates} candidates for each object"),
            "use 2, or 3",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check::Severity;

    const SOUND: Shape = Shape { object_bytes: 4 << 20, size_bytes: 1 << 40, candidates: 2 };

    fn volume(shape: Shape) -> Ceph {
        Ceph {
            conf: "/etc/ceph/ceph.conf".into(),
            user: "evenkeel".to_owned(),
            keyring: None,
            pool: "objects".to_owned(),
            volume: "db".to_owned(),
            shape,
            ceiling_milli: 930,
            patience: Span::from_secs(30),
            fence: Fence::Blocklist,
        }
    }

    #[test]
    fn a_volume_without_a_fence_is_warned_of() {
        let mut found = Findings::default();
        check(0, &Ceph { fence: Fence::None, ..volume(SOUND) }, &mut found);
        let [problem] = &found.problems[..] else { panic!("{:?}", found.problems) };
        assert_eq!(problem.severity, Severity::Warning);
        assert!(problem.remedy.contains("evenkeel ctl claim"), "{}", problem.remedy);
    }

    #[test]
    fn what_no_volume_can_be_is_refused() {
        let problems = |volume: &Ceph| {
            let mut found = Findings::default();
            check(0, volume, &mut found);
            found.problems.len()
        };
        let sound = volume(SOUND);
        assert_eq!(problems(&sound), 0);
        for shape in [
            Shape { object_bytes: 3 << 20, ..SOUND },
            Shape { size_bytes: 0, ..SOUND },
            Shape { size_bytes: u64::MAX, ..SOUND },
            Shape { candidates: 4, ..SOUND },
        ] {
            assert_eq!(problems(&volume(shape)), 1, "{shape:?}");
        }
        assert_eq!(problems(&Ceph { volume: "a/b".to_owned(), ..sound.clone() }), 1);
        assert_eq!(problems(&Ceph { pool: String::new(), ..sound.clone() }), 1);
        assert_eq!(problems(&Ceph { ceiling_milli: 960, ..sound.clone() }), 1);
        assert_eq!(problems(&Ceph { patience: Span::from_millis(20), ..sound }), 1);
    }
}
