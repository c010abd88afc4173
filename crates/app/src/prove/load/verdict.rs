//! Whether the gate divided as it should while two tenants of `prove` read what they could. Pure.
//!
//! | promise | shows where | is kept if |
//! |---|---|---|
//! | 3 : 1 | both had requests waiting, the second 50 answers | it is within 15 % |
//! | their share at most | others had requests waiting, 3 s | it was, or nobody lacks for it |
//!
//! What the two were answered they count themselves. Where the gate let all of their requests
//! through at once, the backend divides and not the gate: that breaks a promise if they take much
//! longer than a lone one, for then they wait there.

use evenkeel_core::time::Span;

use super::super::judge::{Row, Verdict};
use super::drive::Measured;
use super::target::{NAMES, RATIO, Target};
use crate::human;
use crate::status::{Domain, Status, Tenant};

/// A second counts if requests waited for so great a part of it.
const BACKLOGGED_MIN: f64 = 0.9;

/// So many such seconds show something.
const SECONDS_MIN: usize = 3;

/// So many answers of the second of the two show something: a handful more or less at the begin and
/// at the end then is within what is allowed.
const ANSWERS_MIN: u64 = 50;

/// How far the ratio may be off.
const RATIO_OFF_MAX: f64 = 0.15;

/// Two requests behind each other take twice as long as one.
const SLOWER_MIN: f64 = 2.0;

/// Others have what they are due if they have this part of it.
const DUE_MIN: f64 = 0.95;

/// The two may be beyond what they are due by this part of it.
const BEYOND_MAX: f64 = 1.1;

/// The promises that the two put to the test.
pub(super) fn rows(target: &Target, measured: &Measured, documents: &[Status]) -> Vec<Row> {
    let domains: Vec<&Domain> = documents
        .iter()
        .filter_map(|one| one.domains.iter().find(|domain| domain.name == target.domain))
        .collect();
    let row = |promise: String, (verdict, figure): (Verdict, String)| Row {
        domain: target.domain.clone(),
        tenant: format!("{}, -2", NAMES[0]),
        promise,
        verdict,
        figure,
    };
    let seconds = domains.get(1..).unwrap_or_default();
    vec![
        row(format!("{RATIO} : 1"), ratio(target, measured, seconds)),
        row("their share at most".to_owned(), at_most(seconds)),
    ]
}

fn nothing(why: &str) -> (Verdict, String) {
    (Verdict::NothingToSee, why.to_owned())
}

/// The two in one document: parts of the device that they got and were due together, and how long
/// the one that had requests waiting for less of the second had them.
fn of_the_two(domain: &Domain) -> Option<(f64, f64, f64)> {
    let find = |name: &str| domain.tenants.iter().find(|tenant| tenant.name == name);
    let found: Option<Vec<_>> = NAMES.into_iter().map(find).collect();
    let windows = found?.into_iter().map(|tenant| tenant.window);
    let zero = (0.0, 0.0, f64::INFINITY);
    Some(windows.fold(zero, |(has, due, waited), one| {
        (has + one.delivered, due + one.entitled, f64::min(waited, one.backlogged))
    }))
}

fn ratio(target: &Target, measured: &Measured, seconds: &[&Domain]) -> (Verdict, String) {
    let waited = seconds.iter().filter_map(|domain| of_the_two(domain));
    let count = waited.filter(|(_, _, waited)| *waited >= BACKLOGGED_MIN).count();
    if measured.seconds < SECONDS_MIN as f64 {
        return nothing("it was over too soon");
    }
    if count < SECONDS_MIN {
        return let_through(target, measured);
    }
    let [first, second] = measured.answers;
    if second < ANSWERS_MIN {
        return nothing(&format!(
            "{second} answers of the second say too little: name more with `--load-share`"
        ));
    }
    let found = first as f64 / second as f64;
    let off = (found / f64::from(RATIO) - 1.0).abs();
    let figure = format!(
        "{found:.2} : 1, {first} and {second} answers in {:.0} s with requests waiting",
        measured.seconds
    );
    (if off <= RATIO_OFF_MAX { Verdict::Kept } else { Verdict::NotKept }, figure)
}

/// The gate had hardly any of their requests waiting.
fn let_through(target: &Target, measured: &Measured) -> (Verdict, String) {
    let both = target.outstanding * 2;
    let [alone, loaded] = measured.latency;
    if alone == Span::ZERO {
        return nothing("no lone request was answered");
    }
    if loaded.as_secs_f64() < SLOWER_MIN * alone.as_secs_f64() {
        let backend = &target.backend;
        return nothing(&format!("{backend} takes {both} requests at once as quickly as one"));
    }
    let figure = format!(
        "all {both} requests were let through at once, and take {} instead of {}: they wait in \
         the storage, where nobody has a share; lower `depth` of {}, or leave it out",
        human::duration(loaded),
        human::duration(alone),
        target.backend
    );
    (Verdict::NotKept, figure)
}

fn at_most(seconds: &[&Domain]) -> (Verdict, String) {
    let beside: Vec<_> = seconds
        .iter()
        .filter(|domain| !others(domain).is_empty())
        .filter_map(|domain| Some((*domain, of_the_two(domain)?)))
        .collect();
    if beside.len() < SECONDS_MIN {
        return nothing("nobody else had requests waiting");
    }
    let count = beside.len() as f64;
    let has = beside.iter().map(|(_, (has, _, _))| has).sum::<f64>() / count;
    let due = beside.iter().map(|(_, (_, due, _))| due).sum::<f64>() / count;
    let figure = format!(
        "{:.1}% of {:.1}% due, in {} s in which others had requests waiting",
        has * 100.0,
        due * 100.0,
        beside.len()
    );
    // What others leave over because of a limit of their own is anybody's.
    let lacks = beside
        .iter()
        .flat_map(|(domain, _)| others(domain))
        .any(|one| one.finding.is_below() && one.window.delivered < DUE_MIN * one.window.entitled);
    let is_kept = has <= due * BEYOND_MAX || !lacks;
    (if is_kept { Verdict::Kept } else { Verdict::NotKept }, figure)
}

/// Who else had requests waiting.
fn others(domain: &Domain) -> Vec<&Tenant> {
    let others = domain.tenants.iter().filter(|one| !NAMES.contains(&one.name.as_str()));
    others.filter(|one| one.window.backlogged >= BACKLOGGED_MIN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Finding, Window};

    fn target() -> Target {
        Target {
            backend: "array".to_owned(),
            domain: "array".to_owned(),
            source: None,
            outstanding: 64,
            weights_milli: [39, 13],
            beside: vec!["db".to_owned()],
        }
    }

    /// Eight seconds in which `db` gets `has` of the device, and the two what they get.
    fn documents(two: [Window; 2], db: Window) -> Vec<Status> {
        let tenant =
            |name: &str, window| Tenant { name: name.to_owned(), window, ..Tenant::default() };
        let is_below = db.delivered < db.entitled;
        let standing = if is_below { "below_its_due" } else { "has_its_due" }.to_owned();
        let finding = Finding { standing, ..Finding::default() };
        let db = Tenant { finding, ..tenant("db", db) };
        let tenants = vec![db, tenant(NAMES[0], two[0]), tenant(NAMES[1], two[1])];
        let domain = Domain { name: "array".to_owned(), tenants, ..Domain::default() };
        vec![Status { domains: vec![domain], ..Status::default() }; 9]
    }

    fn window(delivered: f64, entitled: f64, backlogged: f64) -> Window {
        Window { delivered, entitled, attainable: entitled, backlogged }
    }

    const TWO: [Window; 2] = [
        Window { delivered: 0.0375, entitled: 0.0375, attainable: 0.0375, backlogged: 1.0 },
        Window { delivered: 0.0125, entitled: 0.0125, attainable: 0.0125, backlogged: 1.0 },
    ];

    fn measured(answers: [u64; 2]) -> Measured {
        let latency = [Span::from_millis(1), Span::from_millis(64)];
        Measured { answers, seconds: 8.5, latency }
    }

    fn verdicts(measured: &Measured, documents: &[Status]) -> [(Verdict, String); 2] {
        let rows = rows(&target(), measured, documents);
        let mut judged = rows.into_iter().map(|row| (row.verdict, row.figure));
        std::array::from_fn(|_| judged.next().expect("two rows"))
    }

    #[test]
    fn what_is_divided_as_promised_is_kept() {
        let db = window(0.95, 0.95, 1.0);
        let [ratio, most] = verdicts(&measured([300, 100]), &documents(TWO, db));
        assert_eq!(ratio.0, Verdict::Kept, "{}", ratio.1);
        assert_eq!(most.0, Verdict::Kept, "{}", most.1);
        assert!(most.1.starts_with("5.0% of 5.0% due"), "{}", most.1);
    }

    #[test]
    fn equal_parts_are_no_three_to_one() {
        let db = window(0.95, 0.95, 1.0);
        let [ratio, _] = verdicts(&measured([200, 200]), &documents(TWO, db));
        assert_eq!(ratio.0, Verdict::NotKept, "{}", ratio.1);
        let [ratio, _] = verdicts(&measured([60, 20]), &documents(TWO, db));
        assert_eq!(ratio.0, Verdict::NothingToSee, "{}", ratio.1);
    }

    #[test]
    fn to_get_more_than_the_share_is_wrong_only_if_somebody_lacks_it() {
        let more = TWO.map(|one| Window { delivered: one.delivered * 4.0, ..one });
        let [_, most] = verdicts(&measured([300, 100]), &documents(more, window(0.8, 0.95, 1.0)));
        assert_eq!(most.0, Verdict::NotKept, "{}", most.1);
        let [_, most] = verdicts(&measured([300, 100]), &documents(more, window(0.2, 0.2, 1.0)));
        assert_eq!(most.0, Verdict::Kept, "a limit of its own holds it: {}", most.1);
        let [_, most] = verdicts(&measured([300, 100]), &documents(more, window(0.2, 0.2, 0.1)));
        assert_eq!(most.0, Verdict::NothingToSee, "{}", most.1);
    }

    #[test]
    fn a_gate_that_holds_nothing_back_is_found_where_requests_wait_behind_it() {
        let two = TWO.map(|one| Window { backlogged: 0.0, ..one });
        let documents = documents(two, window(0.0, 0.0, 0.0));
        let [ratio, _] = verdicts(&measured([300, 300]), &documents);
        assert_eq!(ratio.0, Verdict::NotKept, "{}", ratio.1);
        assert!(ratio.1.contains("lower `depth` of array"), "{}", ratio.1);
        let quick = Measured { latency: [Span::from_millis(1); 2], ..measured([300, 300]) };
        let [ratio, _] = verdicts(&quick, &documents);
        assert_eq!(ratio.0, Verdict::NothingToSee, "{}", ratio.1);
    }
}
