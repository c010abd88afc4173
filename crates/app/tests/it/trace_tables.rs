//! Tables (CSV) are read as they were meant, or refused with the option that says what they mean;
//! files that are no traces are named.

use std::fmt::Write as _;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;

fn evenkeel(scratch: &Scratch, arguments: &[&str]) -> Output {
    Command::new(EVENKEEL)
        .args(arguments)
        .current_dir(scratch.path())
        .output()
        .expect("run evenkeel")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it says on stderr; panics unless it ends with this code.
fn ends(scratch: &Scratch, arguments: &[&str], code: i32) -> String {
    let output = evenkeel(scratch, arguments);
    let told = told(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    told
}

fn stat(scratch: &Scratch, file: &str, arguments: &[&str]) -> Value {
    let output = evenkeel(scratch, &[&["trace", "stat", file, "--json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    serde_json::from_slice(&output.stdout).expect("stat prints JSON")
}

fn write(scratch: &Scratch, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(scratch.join(name), text).expect("write to scratch");
}

const REQUESTS: u64 = 91_317;
const WRITES: u64 = 9_620;

/// Sectors of ten requests: 44.8 KiB in the mean, and some of 512 sectors, which could be bytes.
const SECTORS: [u64; 10] = [8, 8, 8, 8, 16, 16, 64, 128, 128, 512];

/// A phone's trace: the kind as a bit, sizes and places in sectors, 4 GB in all.
fn phone(bit_of_write: u64) -> (String, u64) {
    let (mut text, mut sectors) = ("timestamp,rw_flag,lba,size\n".to_owned(), 0);
    for number in 0..REQUESTS {
        let is_write = number * WRITES / REQUESTS != (number + 1) * WRITES / REQUESTS;
        let bit = if is_write { bit_of_write } else { 1 - bit_of_write };
        let size = SECTORS[usize::try_from(number % 10).expect("small")];
        let lba = number * 7919 % 100_000_007;
        sectors += size;
        let (second, fraction) = (number / 40, number % 40 * 25_000);
        writeln!(text, "{second}.{fraction:06},{bit},{lba},{size}").expect("strings take all");
    }
    (text, sectors * 512)
}

#[test]
fn a_phone_trace_with_a_bit_and_sectors_is_refused_until_it_is_said_what_they_mean() {
    let scratch = Scratch::new();
    let (text, bytes) = phone(0);
    assert!((4.0..4.4).contains(&(bytes as f64 / 1e9)), "{bytes} bytes are not 4 GB");
    write(&scratch, "phone.csv", text);
    let told = ends(&scratch, &["trace", "stat", "phone.csv"], 3);
    let kinds = "op=rw_flag:0=write,1=read";
    for flag in [kinds, "op=rw_flag:0=read,1=write", "--unit size=sectors", "--unit size=bytes"] {
        assert!(told.contains(flag), "{flag} is not told: {told}");
    }
    let told = ends(&scratch, &["trace", "stat", "phone.csv", "--skip-bad"], 3);
    assert!(told.contains("op: "), "no entry is bad, the table is: {told}");

    let stated = ["--column", kinds, "--unit", "size=sectors"];
    let found = stat(&scratch, "phone.csv", &stated);
    assert_eq!(found["kinds"]["write"]["requests"], WRITES);
    assert_eq!(found["kinds"]["read"]["requests"], REQUESTS - WRITES);
    let of = |kind: &str| found["kinds"][kind]["bytes"].as_u64().expect("a number");
    assert_eq!(of("read") + of("write"), bytes);
    let other = ["--column", "op=rw_flag:0=read,1=write", "--unit", "size=sectors"];
    assert_eq!(stat(&scratch, "phone.csv", &other)["kinds"]["read"]["requests"], WRITES);
}

#[test]
fn what_was_understood_is_one_line_on_stderr() {
    let scratch = Scratch::new();
    let rows = "ts_us,RW,lba,size_bytes,lat,pid\n0,R,8,4096,9,1\n50,WS,64,512,9,1\n";
    write(&scratch, "web.csv", rows);
    let told = ends(&scratch, &["trace", "stat", "web.csv", "--json"], 0);
    assert_eq!(
        told,
        "web.csv: read as a table: time \"ts_us\" in us; op \"RW\" (R = read, WS = write); \
         offset \"lba\" in sectors of 512 bytes; size \"size_bytes\" in bytes; \"lat\" not read \
         (its unit is not known; --unit response=us); passed over: \"pid\"\n"
    );
    // Commands that read twice say it once.
    let scale = ["trace", "scale", "web.csv", "x.ektrace", "--stretch", "1 MiB"];
    assert_eq!(ends(&scratch, &scale, 0).matches("read as a table").count(), 1);
}

#[test]
fn a_table_that_was_written_reads_back_to_the_last_byte() {
    let scratch = Scratch::new();
    let titles = "time_ns,source,op,offset,size,response_ns";
    let rows = "1500,\"a, \"\"b\"\"\",read,1,3,\n1501,db/main,write_zeroes,7,512,0\n\
                1501,db/main,flush,0,0,99\n9000000001,db/main,trim,512,18446744073709551103,7\n";
    write(&scratch, "a.csv", format!("{titles}\n{rows}"));
    for pair in ["a.csv", "b.ektrace", "c.csv", "d.csv.zst", "e.csv.gz", "f.csv"].windows(2) {
        ends(&scratch, &["trace", "convert", pair[0], pair[1]], 0);
    }
    let read = |name: &str| std::fs::read_to_string(scratch.join(name)).expect("written above");
    assert_eq!(read("c.csv"), read("a.csv"));
    assert_eq!(read("f.csv"), read("a.csv"));
}

#[test]
fn what_is_stated_of_a_table_holds_wherever_a_trace_is_read() {
    let scratch = Scratch::new();
    let mut text = "time,rw,lba,size\n".to_owned();
    for n in 0..200 {
        writeln!(text, "{},{},{},8", n * 10, n % 2, n * 64 % 4096).expect("strings take all");
    }
    write(&scratch, "t.csv", text);
    let stated =
        ["--column", "op=rw:0=write,1=read", "--unit", "size=sectors", "--unit", "time=ms"];
    for command in [
        &["convert", "t.csv", "o.ektrace"][..],
        &["stat", "t.csv"],
        &["cut", "t.csv", "o.ektrace", "--count", "9"],
        &["merge", "t.csv", "--output", "o.ektrace"],
        &["scale", "t.csv", "o.ektrace", "--rate", "2"],
        &["anonymise", "t.csv", "o.ektrace"],
        &["cache", "t.csv", "--policy", "lru"],
        &["sort", "t.csv", "o.ektrace"],
    ] {
        let whole = [&["trace"], command].concat();
        ends(&scratch, &whole, 3);
        ends(&scratch, &[&whole[..], &stated].concat(), 0);
    }
    write(&scratch, "policy.toml", POLICY);
    let plan = ["plan", "policy.toml", "--trace", "t.csv", "--backend", "fixed=1ms"];
    assert!(ends(&scratch, &plan, 3).contains("--column op=rw:0=read,1=write"));
    let told = ends(&scratch, &[&plan[..], &stated].concat(), 0);
    assert_eq!(told.matches("read as a table").count(), 1, "{told}");

    let replay = "[[replay]]\nname = \"r\"\nfile = \"t.csv\"\ntarget = \"db\"\n";
    let with = "column = \"op=rw:0=write,1=read\"\nunit = [\"size=sectors\", \"time=ms\"]\n";
    write(&scratch, "bare.toml", format!("{SCENARIO}{replay}"));
    write(&scratch, "stated.toml", format!("{SCENARIO}{replay}{with}"));
    write(&scratch, "wrong.toml", format!("{SCENARIO}{replay}unit = \"size=inches\"\n"));
    assert!(ends(&scratch, &["simulate", "bare.toml"], 3).contains("op: column \"rw\""));
    ends(&scratch, &["simulate", "stated.toml"], 0);
    assert!(ends(&scratch, &["simulate", "wrong.toml"], 3).contains("wrong.toml:"));
}

const POLICY: &str = "\
mode = \"enforce\"
listen = [\"unix:s\"]
[[backend]]
name = \"disk\"
memory = true
[[export]]
name = \"db\"
size = \"1 GiB\"
[[tenant]]
name = \"db\"
match = { export = \"db\" }
";

const SCENARIO: &str = "\
length = \"3 s\"
policy = \"policy.toml\"
[[device]]
backend = \"disk\"
constant = { size = \"1 GiB\", fixed = \"1 ms\", servers = 4 }
";

#[test]
fn what_is_stated_of_something_else_than_a_table_is_a_mistake() {
    let scratch = Scratch::new();
    write(&scratch, "a.spc", "0,8,512,r,0.5\n0,8,512,r,0.6\n");
    for (arguments, told) in [
        (&["--unit", "size=sectors"][..], "a.spc is spc"),
        (&["--assume", "write"], "a.spc is spc"),
        (&["--unit", "size=inches"], "write bytes, sectors"),
        (&["--column", "op"], "FIELD=TITLE"),
        (&["--unit", "size=1", "--unit", "size=2"], "two units for size"),
        (&["--assume", "flush"], "possible values: read, write"),
    ] {
        let found = ends(&scratch, &[&["trace", "stat", "a.spc"], arguments].concat(), 2);
        assert!(found.contains(told), "{arguments:?}: {found}");
    }
}

#[test]
fn files_that_are_no_traces_are_named_with_what_to_do() {
    let scratch = Scratch::new();
    let oracle: Vec<u8> = (0..9_u8)
        .flat_map(|n| {
            let mut record = vec![7, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0];
            record.extend((-1_i64).to_le_bytes());
            record
        })
        .collect();
    for (name, bytes, told) in [
        (
            "a.csv.bz2",
            &b"BZh91AY&SY....."[..],
            "packed with bzip2; unpack it: bzip2 -dc a.csv.bz2 |",
        ),
        ("b.xz", b"\xfd7zXZ\0....", "packed with xz"),
        ("c.srt", b"$$TR_IOREC-1.7 : x\0\nversion", "HP's SRT"),
        ("d.ds", b"DSv1\x78\x56\x34\x12", "DataSeries"),
        ("e.lis", b"1 1 0 0\n5 1 0 0\n7 2 0 0\n9 1 0 0\n", "without times"),
        ("f.bin", &oracle, "oracleGeneral"),
        ("g.trace", b"0 0 8 16 1\n5 0 8 16 1\n", "--format disksim"),
        ("h.csv", b"1,2,3,4\n", "a table without titles"),
        ("i.csv", b"", "i.csv is empty"),
        ("j.csv", b"alpha,beta,gamma\n1,2,3\n", "--column time=TITLE"),
    ] {
        write(&scratch, name, bytes);
        let found = ends(&scratch, &["trace", "convert", name, "o.ektrace"], 3);
        assert!(found.contains(told), "{name}: {found}");
        assert!(!scratch.join("o.ektrace").exists() && found.lines().count() == 1, "{found}");
    }
}

#[test]
fn titles_of_which_none_is_known_are_mapped() {
    let scratch = Scratch::new();
    write(&scratch, "x.csv", "alpha,beta,gamma,delta\n0,L,8,8\n1000,S,16,8\n");
    let stated: Vec<&str> = "--column time=alpha --column op=beta:L=read,S=write \
        --column offset=gamma --column size=delta --unit time=us --unit offset=sectors \
        --unit size=sectors"
        .split_whitespace()
        .collect();
    let found = stat(&scratch, "x.csv", &stated);
    for kind in ["read", "write"] {
        assert_eq!(found["kinds"][kind]["requests"], 1);
    }
    assert!((found["duration_seconds"].as_f64().expect("a number") - 0.001).abs() < 1e-9);
}

#[test]
fn heimdalls_traces_and_logs_are_told_by_themselves() {
    let scratch = Scratch::new();
    let mut rows = String::new();
    for n in 0..20 {
        writeln!(rows, "{n}.250 0 {} 4096 {}", n * 4096, n % 2).expect("strings take all");
    }
    write(&scratch, "a.trace", rows);
    let told = ends(&scratch, &["trace", "convert", "a.trace", "a.csv"], 0);
    assert!(told.contains("read as heimdall: times in ms"), "{told}");
    write(&scratch, "log.trace", "0.000,153,0,4096,8192,0.010,4096\n");
    let told = ends(&scratch, &["trace", "convert", "log.trace", "log.csv"], 0);
    assert!(told.contains("a log of Heimdall's replayer"), "{told}");
}

#[test]
fn hostile_tables_are_refused_in_no_time() {
    let scratch = Scratch::new();
    write(&scratch, "long.csv", vec![b'a'; 1 << 20]);
    write(&scratch, "wide.csv", format!("time,op,lba,size,{}\n1\n", vec!["x"; 1_900].join(",")));
    write(&scratch, "huge.csv", "time_s,op,lba,size\n1,R,99999999999999999999,512\n");
    write(&scratch, "over.csv", "time_s,op,lba,size\n1,R,36028797018963968,512\n");
    for (name, told) in [
        ("long.csv", "more than 4096 bytes"),
        ("wide.csv", "more than 256 columns"),
        ("huge.csv", "huge.csv:2: offset: expected a number"),
        ("over.csv", "over.csv:2: offset: expected a number below 2^64 bytes"),
    ] {
        let arguments = ["trace", "stat", name, "--format", "csv"];
        let found = ends(&scratch, &arguments, 3);
        assert!(found.contains(told), "{name}: {found}");
    }
}
