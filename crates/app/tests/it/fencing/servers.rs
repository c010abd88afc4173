//! Servers that are not who they were: two exchange their addresses while the gate runs, and one
//! comes back with an older disk. No wrong byte is read or written meanwhile, and once the right
//! disks are there everything goes on without a restart.

use std::time::{Duration, Instant};

use super::stage::{A, Kind, Program, Stage, is_old};
use crate::harness::gate::Gate;
use crate::harness::nbd::Client;
use crate::harness::network::needs_network;
use crate::harness::skip::needs;
use crate::harness::{PATIENCE, noise, wait_for};

const OBJECT_BYTES: u64 = 1 << 20;
const FILE_BYTES: u64 = 64 << 20;
/// Objects that are rewritten, and as many after them that never are.
const OBJECTS: u64 = 40;

fn keys() -> &'static str {
    if is_old() { "" } else { "lease = \"500 ms\"\n" }
}

/// A client that knows what its blocks must hold.
struct Witness<'a> {
    gate: &'a Gate,
    client: Option<Client>,
    /// By object: seeds of what it may hold.
    holds: Vec<Vec<u64>>,
    round: u64,
}

/// How a look at all objects went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    right: u64,
    refused: u64,
    wrong: u64,
}

impl<'a> Witness<'a> {
    /// Writes all objects, and flushes.
    fn new(gate: &'a Gate) -> Self {
        let target = gate.plain("disk");
        let mut client = wait_for("the volume to be open", || Client::try_open(&target));
        for object in 0..2 * OBJECTS {
            assert_eq!(client.write(object * OBJECT_BYTES, &noise(object, 4096)), Ok(()));
        }
        assert_eq!(client.flush(), Ok(()));
        let holds = (0..2 * OBJECTS).map(|object| vec![object]).collect();
        Self { gate, client: Some(client), holds, round: 0 }
    }

    /// Reads every object.
    fn look(&mut self) -> Look {
        let mut look = Look::default();
        for object in 0..2 * OBJECTS {
            let offset = object * OBJECT_BYTES;
            match self.client().map(|client| client.read(offset, 4096)) {
                Some(Ok(found)) => {
                    let index = usize::try_from(object).expect("some dozens");
                    let mut seeds = self.holds[index].iter();
                    let is_right = seeds.any(|seed| found == noise(*seed, 4096));
                    *if is_right { &mut look.right } else { &mut look.wrong } += 1;
                }
                Some(Err(_)) | None => look.refused += 1,
            }
        }
        look
    }

    /// Writes the first half of the objects again; what is refused may be there or not.
    fn write(&mut self) {
        self.round += 1;
        for object in 0..OBJECTS {
            let seed = self.round * 1000 + object;
            let data = noise(seed, 4096);
            let outcome = self.client().map(|client| client.write(object * OBJECT_BYTES, &data));
            let holds = &mut self.holds[usize::try_from(object).expect("some dozens")];
            match outcome {
                Some(Ok(())) => *holds = vec![seed],
                Some(Err(_)) | None => holds.push(seed),
            }
        }
    }

    fn client(&mut self) -> Option<&mut Client> {
        if self.client.is_none() {
            self.client = Client::try_open(&self.gate.plain("disk"));
        }
        self.client.as_mut()
    }

    /// Reads and writes until everything is served again, or `patience` is over; panics if a wrong
    /// byte is read.
    fn works_within(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        loop {
            let look = self.look();
            assert_eq!(look.wrong, 0, "wrong bytes were read: {look:?}");
            if look.refused == 0 {
                return true;
            }
            if start.elapsed() > patience {
                return false;
            }
            self.write();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What the gate said since its log was so long.
fn said_since(gate: &Gate, length: usize) -> String {
    gate.process.log().split_off(length)
}

#[test]
fn servers_that_exchange_their_addresses_are_told_apart() {
    needs!("nbdkit");
    needs_network!();
    let mut stage = Stage::new(Kind::Spread, Program::Nbdkit, FILE_BYTES, OBJECT_BYTES);
    let mut gate = stage.gate(A, keys());
    let mut witness = Witness::new(&gate);
    let silent = gate.process.log().len();
    stage.exchange(1, 2);
    witness.write();
    let goes_on = witness.works_within(Duration::from_secs(4));
    let said = wait_for("the gate to name both", || {
        let said = said_since(&gate, silent);
        let names_both = |line: &str| line.contains("s2") && line.contains("s3");
        (goes_on || said.lines().any(names_both)).then_some(said)
    });
    let number = |name: &str| said.lines().filter(|line| line.contains(name)).count();
    assert!(number("s2") > 0 && number("s3") > 0, "the log names both:\n{said}");
    eprintln!("exchanged: {}", if goes_on { "each is used where it belongs" } else { "refused" });
    stage.exchange(1, 2);
    witness.write();
    assert!(witness.works_within(PATIENCE), "the right servers are back, and nothing goes on");
    // Nothing went to a wrong place either, as a gate sees that knows nothing of all this.
    witness.client = None;
    let Witness { holds, .. } = witness;
    gate.stop();
    drop(gate);
    let gate = stage.gate(A, keys());
    let client = wait_for("the volume to be open", || Client::try_open(&gate.plain("disk")));
    let mut witness = Witness { gate: &gate, client: Some(client), holds, round: 0 };
    assert_eq!(witness.look(), Look { right: 2 * OBJECTS, ..Look::default() });
}

#[test]
fn a_server_refused_as_stale_is_served_again_once_its_right_disk_is_back() {
    needs!("nbdkit");
    needs_network!();
    let mut stage = Stage::new(Kind::Spread, Program::Nbdkit, FILE_BYTES, OBJECT_BYTES);
    let gate = stage.gate(A, keys());
    let mut witness = Witness::new(&gate);
    let old = std::fs::read(stage.file(2)).expect("the server's file");
    witness.write();
    // Beats have made the copy an older one by now.
    std::thread::sleep(Duration::from_secs(if is_old() { 3 } else { 1 }));
    // What was not flushed the server may lose, and its copy would be none the older for it.
    let flushed = witness.client().expect("the volume is served").flush();
    assert_eq!(flushed, Ok(()));
    stage.kill(2);
    let right = std::fs::read(stage.file(2)).expect("the server's file");
    std::fs::write(stage.file(2), &old).expect("an older disk");
    stage.restart(2);
    let is_stale = || {
        let status = gate.status();
        let standing = &status["domains"][0]["spread"]["servers"][2]["standing"];
        (standing == "stale").then_some(())
    };
    wait_for("the gate to notice", is_stale);
    let look = witness.look();
    assert_eq!(look.wrong, 0, "wrong bytes were read: {look:?}");
    assert!(look.refused > 0, "what lies there is refused: {look:?}");
    stage.kill(2);
    std::fs::write(stage.file(2), &right).expect("the right disk");
    stage.restart(2);
    assert!(witness.works_within(PATIENCE), "the right disk is back, and nothing goes on");
}
