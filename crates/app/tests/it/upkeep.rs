//! What a store does for itself is scheduled and booked like a tenant's requests.

use serde_json::Value;

use crate::faults::reconnect;
use crate::harness::gate::{Gate, store_policy};
use crate::harness::nbd::Client;
use crate::harness::{Scratch, noise, wait_for};

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 72 * MIB;
const VOLUME_BYTES: u64 = 64 * MIB;

fn open(gate: &Gate) -> Client {
    wait_for("the store", || reconnect(&gate.plain("disk")))
}

/// The account on which the store is looked after.
fn upkeep(gate: &Gate) -> Value {
    let status = gate.status();
    let tenants = status["domains"][0]["tenants"].as_array().expect("a list").clone();
    let upkeep = tenants.into_iter().find(|tenant| tenant["name"] == "upkeep");
    upkeep.expect("every policy with a store has it")
}

/// Writes the volume full, and then all over again in small pieces.
fn overwrite(client: &mut Client, times: u64) {
    let data = noise(7, 1 << 20);
    for at in 0..VOLUME_BYTES / MIB {
        assert_eq!(client.write(at * MIB, &data), Ok(()));
    }
    let pieces = VOLUME_BYTES >> 14;
    for index in 0..times * pieces {
        // Odd, so that every piece has its turn, far from the one before.
        let piece = index * 1_237 % pieces;
        assert_eq!(client.write(piece << 14, &data[..1 << 14]), Ok(()));
    }
}

/// With one place at the device a write that waits for room holds the only one, and the cleaner
/// that makes the room cannot wait behind it.
#[test]
fn cleaning_is_booked_on_its_account_and_never_waits_for_those_who_wait_for_it() {
    let scratch = Scratch::new();
    let policy = store_policy(&scratch, FILE_BYTES, VOLUME_BYTES);
    let policy = policy.replace("store =", "depth = 1\nunit = \"64 KiB\"\nstore =");
    let policy = format!("mode = \"enforce\"\n{policy}[[tenant]]\nname = \"upkeep\"\nshare = 2\n");
    let mut gate = Gate::start(&scratch, &policy);
    let mut client = open(&gate);
    overwrite(&mut client, 2);
    let store = gate.status()["backends"][0]["store"].clone();
    let amplification = store["write_amplification"].as_f64().expect("a number");
    assert!(amplification > 1.05, "nothing was cleaned: {store}");
    let account = upkeep(&gate);
    assert_eq!(account["share"], 2.0, "{account}");
    for op in ["read", "write"] {
        assert!(account["by_op"][op]["delivered"]["bytes"].as_u64() > Some(MIB), "{account}");
    }
    assert_eq!(account["failed_requests"], 0, "{account}");
    assert!(gate.stop().success());
}
