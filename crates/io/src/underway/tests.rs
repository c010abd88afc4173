//! The file at any instant at which its process may be killed, and files that are not what they
//! should be.

use std::fs;

use super::*;

const LATE: Span = Span::from_secs(30);
const SPANS: (Span, Span) = (Span::from_secs(2), LATE);

fn names() -> Vec<String> {
    ["s1/", "s2/", "s3/"].map(str::to_owned).into()
}

fn open(folder: &Path) -> Rc<Underway> {
    Rc::new(Underway::open(folder, "pool", &names(), Clock::start(), SPANS).unwrap())
}

/// The folder as a process that is killed now leaves it.
fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn left(folder: &Path) -> Vec<ServerRange> {
    open(killed(folder).path()).late().1
}

#[test]
fn what_was_not_answered_is_known_to_the_next_process_and_what_was_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let underway = open(folder.path());
    let first = underway.note(0, &(4096..8192));
    let second = underway.note(2, &(0..512));
    assert_eq!(left(folder.path()), [(0, 4096..8192), (2, 0..512)]);
    first.answered();
    assert_eq!(left(folder.path()), [(2, 0..512)]);
    drop(second);
    assert_eq!(left(folder.path()), [(2, 0..512)], "the server may carry it out for a while");
    let (until, late) = underway.late();
    assert_eq!(late, [(2, 0..512)], "also under this process, should it open the volume again");
    assert!(until > underway.clock.now());
    let reused = underway.note(1, &(7..9));
    assert_eq!(left(folder.path()), [(1, 7..9), (2, 0..512)]);
    reused.answered();
}

#[test]
fn what_is_left_is_kept_for_the_process_after_the_next_one_until_it_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let _noted = open(folder.path()).note(1, &(1..2));
    let next = open(killed(folder.path()).path());
    assert_eq!(next.late().1, [(1, 1..2)]);
    let again = killed(folder.path());
    let again = killed(again.path());
    assert_eq!(left(again.path()), [(1, 1..2)]);
    let clock = Clock::start();
    let spans = (Span::ZERO, Span(1));
    let brief = Underway::open(folder.path(), "pool", &names(), clock, spans).unwrap();
    while clock.now() <= Nanos(1) + brief.late().0.since(Nanos::ZERO) {}
    Rc::new(brief).note(0, &(3..4)).answered();
    assert_eq!(left(folder.path()), [], "it was forgotten when its time had come");
    let none = (Span::from_secs(2), Span::ZERO);
    let _noted = open(folder.path()).note(1, &(1..2));
    let none = Underway::open(folder.path(), "pool", &names(), clock, none).unwrap();
    assert_eq!(none.late().1, [], "the policy does not want it");
}

#[test]
fn a_process_may_be_killed_between_any_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_of(folder.path(), "underway", "pool");
    let underway = open(folder.path());
    let bytes = || fs::read(&path).unwrap();
    let blank = bytes();
    let noted = underway.note(1, &(0x1000..0x3000));
    let whole = bytes();
    let changed: Vec<usize> = (0..blank.len()).filter(|at| blank[*at] != whole[*at]).collect();
    let words: Vec<usize> = changed.iter().map(|at| at / WORD * WORD).collect();
    let tag = SLOTS_WORD * WORD;
    assert_eq!(words, [tag, tag + 8, tag + 16], "a few bytes of three words");
    // Offset and length come before the tag when it is filled, and stay when it is emptied.
    let boot = boot();
    let known = Ok(vec![(hash("s2/"), 0x1000..0x3000)]);
    let mut file = blank.clone();
    for (word, expected) in [(tag + 8, &Ok(vec![])), (tag + 16, &Ok(vec![])), (tag, &known)] {
        file[word..word + 8].copy_from_slice(&whole[word..word + 8]);
        assert_eq!(decode(&file, &boot), *expected);
    }
    noted.answered();
    assert_eq!(decode(&bytes(), &boot), Ok(vec![]));
    assert_eq!(bytes()[tag + 8..tag + 24], whole[tag + 8..tag + 24], "one store");
}

#[test]
fn beyond_its_slots_it_is_known_which_server_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let underway = open(folder.path());
    let mut noted: Vec<_> = (0..SLOTS).map(|_| underway.note(0, &(0..1))).collect();
    let beyond = [underway.note(2, &(0..1)), underway.note(2, &(5..6))];
    let found = left(folder.path());
    assert_eq!((found.len(), found[0].clone()), (SLOTS + 1, (2, 0..u64::MAX)));
    let [one, other] = beyond;
    one.answered();
    assert_eq!(left(folder.path())[0], (2, 0..u64::MAX), "another one is under way");
    other.answered();
    noted.pop().unwrap().answered();
    assert_eq!(left(folder.path()).len(), SLOTS - 1);
}

#[test]
fn a_file_that_says_nothing_stands_for_everything_on_all_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_of(folder.path(), "underway", "pool");
    let everything = [0, 1, 2].map(|server| (server, 0..u64::MAX));
    drop(open(folder.path()));
    let whole = fs::read(&path).unwrap();
    let mut damaged = Vec::new();
    damaged.extend([0, 19, 25].map(|at| (at, 7)));
    damaged.push((SLOTS_WORD * WORD, 65));
    damaged.push((SLOTS_WORD * WORD, 9));
    for (at, byte) in damaged {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        assert_eq!(decode(&bytes, &boot()), Err(Unknown::Damaged), "{at}");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(left(folder.path()), everything);
    }
    for bytes in [&whole[..0], &whole[..4096], &[&whole[..], &[0]].concat()] {
        assert_eq!(decode(bytes, &boot()), Err(Unknown::Damaged), "{}", bytes.len());
    }
    fs::write(&path, [&whole[..BOOT.start], &[b'x'; 48], &whole[BOOT.end..]].concat()).unwrap();
    let clock = Clock::start();
    let since_boot = Span(since_boot().0);
    let long = (Span::ZERO, since_boot + Span::from_secs(60));
    let copy = killed(folder.path());
    let other = Underway::open(copy.path(), "pool", &names(), clock, long).unwrap();
    assert_eq!(other.late().1, everything, "the host was started since");
    assert!(other.late().0.since(clock.now()) <= Span::from_secs(60), "reckoned from its start");
    let short = (Span::ZERO, Span(1));
    let other = Underway::open(folder.path(), "pool", &names(), clock, short).unwrap();
    assert_eq!(other.late().1, [], "that is long ago");
}

#[test]
fn servers_are_known_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let _noted = open(folder.path()).note(1, &(1..2));
    let by = |names: &[&str]| {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let copy = killed(folder.path());
        let opened = Underway::open(copy.path(), "pool", &names, Clock::start(), SPANS).unwrap();
        opened.late().1
    };
    assert_eq!(by(&["s2/", "s3/", "s1/"]), [(0, 1..2)], "in another order");
    let everything = [(0, 0..u64::MAX), (1, 0..u64::MAX)];
    assert_eq!(by(&["s1/", "new/"]), everything, "it may be the one that is new");
}

#[test]
fn files_of_volumes_have_names_of_their_own() {
    let name = |volume: &str| file_of(Path::new("/data"), "underway", volume).display().to_string();
    assert_eq!(name("pool"), format!("/data/underway-pool-{:016x}", hash("pool")));
    assert_ne!(name("../a b"), name("..ab"));
    assert!(name("../a b").starts_with("/data/underway-ab-"));
}

#[test]
fn the_format_stays() {
    let boot = [&b"01234567-89ab-cdef-0123-456789abcdef"[..], &[0; 12]].concat();
    let hashes = [hash("s1/"), hash("s2/")];
    let left = [(1, 0x1000..0x3000), (0, 0..u64::MAX)];
    let bytes = encode(&boot, &hashes, &left);
    let mut golden = vec![0; 4096 + 4096 * 32];
    golden[..20].copy_from_slice(b"evenkeel underway 1\n");
    golden[32..80].copy_from_slice(&boot);
    golden[128..136].copy_from_slice(&0x818a_c019_5c4b_d052_u64.to_le_bytes());
    golden[136..144].copy_from_slice(&0x8180_6019_5c42_d8ad_u64.to_le_bytes());
    golden[640] = 1;
    golden[4096] = 2;
    golden[4105] = 0x10;
    golden[4113] = 0x20;
    for (at, (found, wanted)) in bytes.chunks(8).zip(golden.chunks(8)).enumerate() {
        assert_eq!(found, wanted, "at {}", at * 8);
    }
    let told = vec![(hashes[0], 0..u64::MAX), (hashes[1], 0x1000..0x3000)];
    assert_eq!(decode(&golden, &boot), Ok(told));
}
