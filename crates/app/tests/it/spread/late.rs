//! A gate that is killed under writes and started again at once, over servers that carry out what
//! they had read of it seconds later, though its connection is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{NAMES, OBJECT_BYTES, opened};
use crate::harness::gate::Gate;
use crate::harness::late_server::LateServer;
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::{Scratch, noise, wait_for};

const SIZE_BYTES: u64 = 8 << 20;
/// So long a server holds a write while it is told to.
const HELD: Duration = Duration::from_secs(3);
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 16;

fn policy(servers: &[LateServer], late: &str) -> String {
    let backend = |(server, name): (&LateServer, &str)| {
        let path = server.path.display();
        format!(
            "[[backend]]\nname = \"{name}\"\nupstream = \"nbd+unix:///?socket={path}\"\n\
             connections = 1\ndepth = 32\nwrites_survive_restart = true\n"
        )
    };
    let backends: Vec<_> = servers.iter().zip(NAMES).map(backend).collect();
    format!(
        "mode = \"enforce\"\n{}[[backend]]\nname = \"pool\"\nchoices = [\"{}\"]\n\
         object = \"64 KiB\"\nlease = \"500 ms\"\nlate = \"{late}\"\n\
         [[export]]\nname = \"disk\"\nbackend = \"pool\"\n",
        backends.concat(),
        NAMES.join("\", \"")
    )
}

/// The first block of an object, of one of several fillings.
fn block(object: u64, filling: u64) -> Vec<u8> {
    noise(1 + object * 10 + filling, usize::try_from(BLOCK).expect("it is small"))
}

fn sum(servers: &[LateServer], count: impl Fn(&LateServer) -> &AtomicU32) -> u64 {
    servers.iter().map(|server| u64::from(count(server).load(Ordering::SeqCst))).sum()
}

/// Writes blocks, has them written again and held by their servers, kills the gate and starts it
/// again; writes them once more, and returns how many are not what was written last, how long the
/// write waited, and how long that of a block beside them.
fn kill_under_writes(late: &str) -> (u64, Duration, Duration) {
    let scratch = Scratch::new();
    let servers =
        NAMES.map(|name| LateServer::start(&scratch, name, SIZE_BYTES, HELD..=HELD, false));
    let mut gate = Gate::start(&scratch, &policy(&servers, late));
    let target = gate.plain("disk");
    let mut client = opened(&target);
    for object in 0..BLOCKS {
        assert_eq!(client.write(object * OBJECT_BYTES, &block(object, 0)), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
    LateServer::hold(&servers, true);
    let write = |client: &mut Client, object: u64, filling: u64| {
        let length = u32::try_from(BLOCK).expect("it is small");
        let offset = object * OBJECT_BYTES;
        let request = Request { command: WRITE, offset, length, ..Request::default() };
        client.ask(request, &block(object, filling));
    };
    (0..BLOCKS).for_each(|object| write(&mut client, object, 1));
    wait_for("all writes to be read", || {
        (sum(&servers, |server| &server.held) == BLOCKS).then_some(())
    });
    LateServer::hold(&servers, false);
    gate.kill_and_restart();
    let (mut client, mut other) = (opened(&target), opened(&target));
    let began = Instant::now();
    (0..BLOCKS).for_each(|object| write(&mut client, object, 2));
    assert_eq!(other.write(BLOCK, &block(0, 3)), Ok(()), "beside what is late");
    assert_eq!(other.write(100 * OBJECT_BYTES, &block(0, 3)), Ok(()), "a new object");
    assert_eq!(other.read(0, 8).map(|bytes| bytes.len()), Ok(8), "reads go on");
    let beside = began.elapsed();
    (0..BLOCKS).for_each(|_| assert_eq!(client.simple_reply().0, 0));
    let waited = began.elapsed();
    assert_eq!(client.flush(), Ok(()));
    wait_for("late writes to be carried out", || {
        (sum(&servers, |server| &server.late) == BLOCKS).then_some(())
    });
    let length = u32::try_from(BLOCK).expect("it is small");
    let is_lost =
        |object: &u64| client.read(object * OBJECT_BYTES, length) != Ok(block(*object, 2));
    ((0..BLOCKS).filter(is_lost).count() as u64, waited, beside)
}

#[test]
fn what_is_written_after_a_crash_stays_though_servers_carry_out_older_writes_later() {
    let (lost, waited, beside) = kill_under_writes("4 s");
    println!("waited {waited:?}, beside it {beside:?}");
    assert_eq!(lost, 0, "of {BLOCKS} blocks");
    assert!(waited < Duration::from_secs(8), "{waited:?}");
    assert!(beside < waited / 2, "{beside:?} of {waited:?}");
}

#[test]
fn a_policy_that_waits_for_nothing_loses_what_was_written_after_a_crash() {
    let (lost, waited, _) = kill_under_writes("0 s");
    println!("waited {waited:?}");
    assert_eq!(lost, BLOCKS, "each block is what was written before the crash");
}
