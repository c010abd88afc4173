//! Clusters that let in whom they know (`cephx`): the user that the documents name has all that a
//! gate needs, and whoever is refused gets the reason.

use super::{CephOptions, Staged, opened, trouble_of, write};
use crate::harness::gate::Gate;
use crate::harness::skip::needs;
use crate::harness::{Scratch, wait_for};

#[test]
fn a_gate_proves_who_it_is_and_is_told_what_it_may_not() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool");
    let staged = Staged::with(CephOptions { cephx: true, ..Staged::options(64) }, 1);
    let scratch = Scratch::new();
    // The user of docs/ceph.md.
    let caps = ["mon", "profile rbd", "mgr", "allow r", "osd", "profile rbd pool=objects"];
    let right = staged.ceph.user("evenkeel", &caps).expect("a user");
    let poor = staged.ceph.user("poor", &["mon", "allow r"]).expect("a user");
    let wrong = scratch.join("wrong.keyring");
    let known = std::fs::read_to_string(&poor).expect("a keyring");
    std::fs::write(&wrong, known.replace("client.poor", "client.evenkeel")).expect("write");
    let volume = |name: &str, user: &str, keyring: &std::path::Path| {
        let more = format!(
            "pool = \"objects\"\nsize = \"16 MiB\"\nuser = \"{user}\"\nkeyring = \"{}\"",
            keyring.display()
        );
        staged.volume(name, name, &more)
    };
    let policy = [
        volume("right", "evenkeel", &right),
        volume("wrong", "evenkeel", &wrong),
        volume("absent", "evenkeel", &scratch.join("absent.keyring")),
        volume("poor", "poor", &poor),
    ];
    let mut gate = Gate::start(&scratch, &policy.concat());
    let mut client = opened(&gate.plain("right"));
    assert_eq!(write(&mut client, 1), Ok(()));
    for (name, said) in [
        ("wrong", "does not let client.evenkeel in with this key"),
        ("absent", "absent.keyring: No such file"),
        ("poor", "client.poor may not shut out a gate that had the volume before"),
    ] {
        let what = format!("{name} to say: {said}");
        wait_for(&what, || trouble_of(&gate, name).contains(said).then_some(()));
    }
    std::fs::copy(&right, &wrong).expect("mend the keyring");
    let mut mended = opened(&gate.plain("wrong"));
    assert_eq!(write(&mut mended, 2), Ok(()));
    // Whoever takes over shuts out the one before, which takes more than reading and writing.
    gate.kill_and_restart();
    let mut client = opened(&gate.plain("right"));
    assert_eq!(write(&mut client, 3), Ok(()));
    assert_eq!(trouble_of(&gate, "right"), "");
}

#[test]
fn a_right_that_the_user_lacks_is_named() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool");
    let staged = Staged::with(CephOptions { cephx: true, ..Staged::options(64) }, 1);
    let scratch = Scratch::new();
    let (mon, mgr) = ("profile rbd", "allow r");
    let cases = [
        (
            "reads",
            [mon, mgr, "allow r pool=objects"],
            "`osd` `w`, `osd` `class-read`, `osd` `class-write`",
        ),
        (
            "classless",
            [mon, mgr, "allow rw pool=objects"],
            "`osd` `class-read`, `osd` `class-write`",
        ),
        ("half", [mon, mgr, "allow rw class-write pool=objects"], "`osd` `class-read`"),
        ("elsewhere", [mon, mgr, "allow rwx pool=other"], "`osd` `r`, `osd` `w`"),
        ("nomgr", [mon, "", "profile rbd pool=objects"], "`mgr` `r`"),
    ];
    let policy: String = cases
        .iter()
        .map(|(name, [mon, mgr, osd], _)| {
            let kinds = [("mon", mon), ("mgr", mgr), ("osd", osd)];
            let caps = kinds.iter().filter(|(_, cap)| !cap.is_empty());
            let caps: Vec<&str> = caps.flat_map(|(kind, cap)| [*kind, **cap]).collect();
            let keyring = staged.ceph.user(name, &caps).expect("a user");
            let more = format!(
                "pool = \"objects\"\nsize = \"16 MiB\"\nuser = \"{name}\"\nkeyring = \"{}\"",
                keyring.display()
            );
            staged.volume(name, name, &more)
        })
        .collect();
    let gate = Gate::start(&scratch, &policy);
    for (name, _, lacking) in cases {
        let said = format!("client.{name} lacks {lacking}");
        wait_for(&said, || trouble_of(&gate, name).contains(&said).then_some(()));
        assert!(trouble_of(&gate, name).contains("ceph auth caps"), "{name}");
    }
}
