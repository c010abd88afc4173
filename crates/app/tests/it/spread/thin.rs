//! A server that is thin itself, and has no room left although its slots say otherwise.

use super::{NO_SPACE, OBJECT_BYTES, opened, policy_over, trouble, volume};
use crate::full_disk::{Small, is_possible};
use crate::harness::gate::Gate;
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::{Scratch, noise, wait_for};

#[test]
fn a_thin_server_that_is_full_is_passed_over_and_named_once() {
    needs!("nbdkit", "losetup", "mkfs.ext4");
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new();
    let small = Small::new(&scratch);
    let thin = small.path("thin.raw");
    std::fs::File::create(&thin).and_then(|file| file.set_len(32 << 20)).expect("sparse");
    let memory = |name| Server::nbdkit_named(&scratch, name, &["memory", "32M"]);
    let mut servers: Vec<_> = ["s1", "s2", "s3"].map(memory).into();
    servers.push(Server::nbdkit_named(&scratch, "s4", &["file", &thin]));
    let gate = Gate::start(&scratch, &policy_over(&servers, "prefer = [\"space\"]\n"));
    let mut client = opened(&gate.plain("disk"));
    small.fill_but(1 << 20);
    let data = |object: u64| noise(object, 64 << 10);
    let outcomes: Vec<_> =
        (0..160).map(|object| client.write(object * OBJECT_BYTES, &data(object))).collect();
    let failed = outcomes.iter().filter(|outcome| **outcome == Err(NO_SPACE)).count();
    // One object in sixteen has no candidate on another server; a quarter would fail if it went on.
    assert!((1..=20).contains(&failed), "{failed}: {outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 160 - failed);
    for (object, _) in (0..).zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()) {
        assert_eq!(client.read(object * OBJECT_BYTES, 512), Ok(data(object)[..512].to_vec()));
    }
    wait_for("the status to name it", || {
        (volume(&gate)["servers"][3]["standing"] == "full").then_some(())
    });
    let warnings = volume(&gate)["warnings"].to_string();
    assert!(warnings.contains("s4 has no room, although"), "{warnings} {}", trouble(&gate));
    let log = gate.process.log();
    let said = "a server of the volume has no room";
    assert!(log.matches(said).count() == 1 && log.contains("s4"), "{log}");
}
