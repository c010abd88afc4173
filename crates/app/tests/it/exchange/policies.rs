//! Gates whose policies do not say the same: what differs is named with both values, until it is
//! mended.

use super::*;

/// What another gate says otherwise of the first shared device, or of the first group.
fn disagreements(gate: &Gate, of: &str) -> Vec<String> {
    let status = gate.status();
    let lines = status["exchange"][of][0]["disagreements"].as_array().cloned();
    let texts = lines.unwrap_or_default().into_iter();
    texts.map(|line| line.as_str().expect("a text").to_owned()).collect()
}

fn wait_for_disagreements(gate: &Gate, of: &str, count: usize) -> Vec<String> {
    wait_for(&format!("{count} disagreements"), || {
        Some(disagreements(gate, of)).filter(|lines| lines.len() == count)
    })
}

/// Whether `check --live` finds nothing wrong, and what it prints.
fn checked(scratch: &Scratch) -> (bool, String) {
    let line = ["check", "policy.toml", "--live", "--data", "."];
    let (status, output) =
        process::finish(scratch.path(), EVENKEEL, &line, Duration::from_secs(20));
    (status.success(), output)
}

#[test]
fn what_policies_say_otherwise_is_named_with_both_values_until_it_is_mended() {
    needs!("nbdkit");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_server, uri) = pipe(&scratch);
    let all = [free_address(), free_address()];
    let policy = |scratch, own: &str| {
        let meeting = format!("listen = \"{own}\"\npeers = {all:?}\n");
        policy_by_share(scratch, &uri, &meeting, "array = \"vault\"\n")
    };
    let agreed = policy(&other, &all[1]);
    let otherwise = agreed
        .replace("share = 3", "share = 4\nlatency = \"20 ms\"\nlimit = \"500 iops\"")
        .replace("[[tenant]]\nname = \"narrow\"", "[[tenant]]\nname = \"Narrow\"");
    let one = Gate::start(&scratch, &policy(&scratch, &all[0]));
    let two = Gate::start(&other, &otherwise);
    let lines = wait_for_disagreements(&one, "devices", 4).join("\n");
    let name = &all[1];
    for said in [
        format!("{name} gives wide a share of 4, this gate 3: use one `share`"),
        format!("{name} gives wide a latency goal of 20 ms, this gate none: use one `latency`"),
        format!("{name} gives wide a limit of 500 requests/s, this gate none: use one `limit`"),
        format!("{name} calls a tenant \"Narrow\" that this gate calls \"narrow\": use one name"),
    ] {
        assert!(lines.contains(&said), "{said}: {lines}");
        assert!(one.ctl(&["status"]).contains(&said));
        assert_eq!(one.process.log().matches(&said).count(), 1, "{said}");
    }
    let back = wait_for_disagreements(&two, "devices", 4).join("\n");
    assert!(back.contains("gives wide no latency goal, this gate 20 ms"), "{back}");
    let (is_good, output) = checked(&scratch);
    assert!(!is_good && output.contains("gives wide a share of 4, this gate 3"), "{output}");

    let (status, output) = two.reload(&agreed);
    assert!(status.success(), "{output}");
    wait_for_disagreements(&one, "devices", 0);
    wait_for_disagreements(&two, "devices", 0);
    let (_, output) = checked(&scratch);
    assert!(!output.contains("use one"), "{output}");
}

#[test]
fn gates_of_one_group_hear_of_other_shares_too() {
    needs!("nbdkit");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let ((_one, near), (_two, far)) = (pipe(&scratch), pipe(&other));
    let all = [free_address(), free_address()];
    let gate = Gate::start(&scratch, &policy_in_all(&scratch, &near, &all[0], &all));
    let otherwise = policy_in_all(&other, &far, &all[1], &all)
        .replace("match = { export = \"wide\" }", "match = { export = \"wide\" }\nshare = 2");
    let _other = Gate::start(&other, &otherwise);
    let said = format!("{} gives wide a share of 2, this gate 1: use one `share`", all[1]);
    assert_eq!(wait_for_disagreements(&gate, "groups", 1), std::slice::from_ref(&said));
    assert!(gate.ctl(&["status"]).contains(&said));
}
