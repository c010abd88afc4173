//! Nobody writes to a volume without the right to: who may not shut out a predecessor is refused or
//! asks the operator, and what a sleeper had under way never arrives.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{
    CephOptions, FAILED, OBJECT_BYTES, Staged, backend, opened, trouble, trouble_of, write,
};
use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::nbd::{Client, Request, WRITE};
use crate::harness::process::run;
use crate::harness::skip::needs;
use crate::harness::{Scratch, noise, wait_for};

/// Objects that the sleeper writes to, of a MiB each: several times what fits on the way to OSDs.
const OBJECTS: u64 = 36;

/// How often the log says something.
fn count(gate: &Gate, words: &str) -> usize {
    gate.process.log().matches(words).count()
}

/// Connections to Ceph that a gate has: each has one thread of this name.
fn connections(gate: &Gate) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gate.process.id())).expect("it runs");
    let names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.flatten().filter(|name| name.trim() == "msgr-worker-0").count()
}

/// What a gate that may not blocklist does: the volumes `kept`, with the fence left as it is, and
/// `free`, which does without.
fn poor_policy(staged: &Staged) -> String {
    let caps = ["mon", "allow r", "mgr", "allow r", "osd", "profile rbd pool=objects"];
    let keyring = staged.ceph.user("poor", &caps).expect("a user");
    let more = |fence: &str| {
        format!(
            "pool = \"objects\"\nsize = \"16 MiB\"\nuser = \"poor\"\nkeyring = \"{}\"\n{fence}",
            keyring.display()
        )
    };
    let free = staged.volume("free", "free", &more("fence = \"none\"\n"));
    staged.volume("kept", "kept", &more("")) + &free
}

#[test]
fn who_may_not_shut_out_is_refused_by_name_or_takes_over_at_a_word() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool");
    let staged = Staged::with(CephOptions { cephx: true, ..Staged::options(64) }, 1);
    let scratch = Scratch::new();
    let policy = poor_policy(&staged);
    let mut gate = Gate::start(&scratch, &policy);
    wait_for("the refusal, with both remedies", || {
        let said = trouble_of(&gate, "kept");
        let remedies = ["client.poor", "`ceph auth caps client.poor mon", "`fence = \"none\"`"];
        remedies.iter().all(|words| said.contains(words)).then_some(())
    });
    assert!(Client::try_open(&gate.plain("kept")).is_none());
    assert_eq!(write(&mut opened(&gate.plain("free")), 1), Ok(()));
    assert!(run(scratch.path(), EVENKEEL, &["check", "policy.toml"]).contains("`fence` out"));
    gate.kill_and_restart();
    wait_for("the question whether the predecessor is gone", || {
        let said = trouble_of(&gate, "free");
        (said.contains("has not let go") && said.contains("`evenkeel ctl claim free`"))
            .then_some(())
    });
    assert!(gate.reload(&policy).0.success());
    assert!(Client::try_open(&gate.plain("free")).is_none(), "a reload is no word");
    for (volume, said) in [("kept", "does not wait for a word"), ("gone", "there is no volume")] {
        let (status, told) = gate.try_ctl(&["claim", volume]);
        assert!(status.code() == Some(5) && told.contains(said), "{volume}: {status} {told}");
    }
    assert!(gate.ctl(&["claim", "free"]).contains("has not let go"));
    let mut client = opened(&gate.plain("free"));
    assert_eq!(client.read(OBJECT_BYTES, 4096).unwrap(), noise(1, 4096));
    assert_eq!(count(&gate, "taken at the operator's word"), 1);
    assert!(!gate.try_ctl(&["claim", "free"]).0.success(), "the word is used up");
    drop(client);
    assert!(gate.stop().success());
    let gate = Gate::start(&scratch, &policy);
    let mut client = opened(&gate.plain("free"));
    assert_eq!(client.read(OBJECT_BYTES, 4096).unwrap(), noise(1, 4096));
    assert_eq!(count(&gate, "at the operator's word"), 0, "the one before let go");
    wait_for("the refusal of the other volume to be told", || {
        (count(&gate, "client.poor may not shut out") == 1).then_some(())
    });
}

#[test]
fn what_a_gate_that_slept_had_under_way_never_arrives_and_its_clients_are_let_go() {
    needs!("ceph-mon", "ceph-mgr", "ceph-osd");
    let mut staged = Staged::new(128);
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let policy = staged.policy("size = \"36 MiB\"\npatience = \"60 s\"");
    let first = Gate::start(&scratch, &policy);
    let mut old = opened(&first.plain("disk"));
    (0..OBJECTS).for_each(|object| assert_eq!(write(&mut old, object), Ok(())));
    let mut second = Gate::start(&other, &policy);
    wait_for("the second gate to be refused", || {
        trouble(&second).contains("uses the volume; stop that gate first").then_some(())
    });
    fall_asleep_in_writing(&mut staged, &first, &mut old);
    let mut new = opened(&second.plain("disk"));
    assert_eq!(new.read(OBJECT_BYTES, 4096).unwrap(), noise(1, 4096));
    let newer = |object: u64| noise(100 + object, 1 << 20);
    for object in 0..OBJECTS {
        assert_eq!(new.write(object * OBJECT_BYTES, &newer(object)), Ok(()));
    }
    let address = former(&staged);
    assert_eq!(count(&second, "former owners are shut out"), 1, "{}", second.process.log());
    loses_its_entry(&staged, &second, &address);
    // The OSDs of what the owner asks for know of the entry before they answer.
    for object in 0..OBJECTS {
        assert_eq!(new.read(object * OBJECT_BYTES, 512).unwrap(), newer(object)[..512]);
    }
    first.process.signal(Signal::CONT);
    // What reached the OSDs before the other gate came is done, and was overwritten.
    let outcomes: Vec<_> = (0..OBJECTS).map(|_| old.acknowledgement()).collect();
    assert!(outcomes.iter().all(|one| matches!(one, Ok(()) | Err(FAILED))), "{outcomes:?}");
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert!(refused > 10, "{refused} of {OBJECTS} were still under way");
    assert!(old.is_hung_up(), "what it remembers may not be so any more");
    wait_for("the sleeper to say who has the volume", || {
        let said = trouble(&first);
        let who = format!("process {} has it", second.process.id());
        (said.contains(&who) && said.contains("`evenkeel ctl claim db`")).then_some(())
    });
    assert_eq!(count(&first, "not ours any more"), 1, "{}", first.process.log());
    wait_for("its old connection to end", || (connections(&first) == 1).then_some(()));
    for object in 0..OBJECTS {
        let read = new.read(object * OBJECT_BYTES, 1 << 20).expect("it is served");
        assert!(read == newer(object), "object {object}: bytes of the sleeper arrived");
    }
    drop(new);
    assert!(second.stop().success());
    assert!(
        backend(&first, "db")["up"] == false && Client::try_open(&first.plain("disk")).is_none()
    );
    first.ctl(&["claim", "db"]);
    let mut again = opened(&first.plain("disk"));
    assert!(again.read(OBJECT_BYTES, 1 << 20).unwrap() == newer(1));
    assert_eq!(write(&mut again, 1), Ok(()));
    assert_eq!(former(&staged), address, "it is kept out under its old name for good");
}

/// The gate has writes under way, more than fits on the way to the OSDs, when it falls asleep.
fn fall_asleep_in_writing(staged: &mut Staged, gate: &Gate, client: &mut Client) {
    (0..3).for_each(|osd| staged.ceph.signal_osd(osd, Signal::STOP));
    // On a busy machine a process goes on for a moment after it was told to stop.
    std::thread::sleep(Duration::from_millis(500));
    for object in 0..OBJECTS {
        let request = Request {
            command: WRITE,
            offset: object * OBJECT_BYTES,
            length: 1 << 20,
            ..Request::default()
        };
        client.ask(request, &noise(object, 1 << 20));
    }
    wait_for("the gate to have all of it", || {
        let status = gate.status();
        let in_flight = status["domains"][0]["tenants"][0]["in_flight"].as_u64();
        (in_flight == Some(OBJECTS)).then_some(())
    });
    gate.process.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(500));
    (0..3).for_each(|osd| staged.ceph.signal_osd(osd, Signal::CONT));
}

/// The address that the head tells is kept out; there is one.
fn former(staged: &Staged) -> String {
    let head = staged.head();
    let former: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("former ")).collect();
    assert!(former.len() == 1 && head.starts_with("evenkeel volume 3\n"), "{head}");
    former[0].to_owned()
}

/// Whatever becomes of the entry of a former owner, whoever has the volume makes it anew.
fn loses_its_entry(staged: &Staged, owner: &Gate, address: &str) {
    let renewals = || count(owner, "shut out for longer");
    wait_for("the owner to look after the entry", || (renewals() > 0).then_some(()));
    let before = renewals();
    staged.ask(&json!({"prefix": "osd blocklist", "blocklistop": "rm", "addr": address}));
    wait_for("the owner to renew it", || (renewals() > before).then_some(()));
    let status = staged.pool.cluster().pool_status(staged.pool.id()).expect("it is there");
    assert!(status.shut_out.contains_key(address), "{:?}", status.shut_out);
}
