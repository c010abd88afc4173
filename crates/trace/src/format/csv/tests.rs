//! Tables as they are found: by the decoder, and by the judge before it.

use std::fmt::Write as _;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::*;
use crate::codec::decode_all;
use crate::format::Format;

fn options(columns: &[&str], units: &[&str], assume: Option<Kind>) -> TableOptions {
    let columns = columns.iter().map(|text| text.parse().unwrap()).collect();
    let units = units.iter().map(|text| text.parse().unwrap()).collect();
    TableOptions::new(columns, units, assume).unwrap()
}

fn read_with(text: &str, table: TableOptions) -> (Vec<Record>, Vec<String>) {
    let mut decoder = Format::Csv.decoder(&Options { table, ..Options::default() });
    let (records, defects) = decode_all(&mut *decoder, text.as_bytes());
    (records, defects.into_iter().map(|defect| defect.to_string()).collect())
}

fn read(text: &str) -> (Vec<Record>, Vec<String>) {
    read_with(text, TableOptions::default())
}

fn judged(text: &str, table: &TableOptions) -> Result<String, String> {
    let outcome = understand(text.as_bytes(), true, table);
    outcome.map(|it| it.text).map_err(|unclear| unclear.problems.join("\n"))
}

fn problems(text: &str) -> String {
    judged(text, &TableOptions::default()).unwrap_err()
}

#[test]
fn a_table_of_libcachesim_is_read() {
    let text = "version,time,op,size,lbn\n1,33898,2a,512,42932745\n1,33899,28,4096,8\n";
    let (records, defects) = read(text);
    assert_eq!(defects, [""; 0]);
    assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
    assert_eq!((records[0].offset, records[0].length), (42_932_745 * 512, 512));
    assert_eq!(records[1].at, Nanos(1_000_000_000));
    assert_eq!(
        judged(text, &TableOptions::default()).unwrap(),
        "read as a table: time \"time\" in s by its values; op \"op\" (28 = read, 2a = write); \
         offset \"lbn\" in sectors of 512 bytes; size \"size\" in bytes by its values; passed over\
         : \"version\""
    );
}

#[test]
fn columns_stand_in_any_order_with_their_units() {
    let (records, defects) =
        read("resp_us,size,Offset,ts_us,dev,op\n12.5,4096,0,100.25,3,WRITE\n,0,0,101,4,flush\n");
    assert_eq!(defects, [""; 0]);
    assert_eq!(records[0].response, Some(Span(12_500)));
    assert_eq!((records[1].kind, records[1].at), (Kind::Flush, Nanos(750)));
    assert_ne!(records[0].source, records[1].source);
}

#[test]
fn missing_columns_and_fields_are_named() {
    assert!(read("time,size,op\n1,2,R\n").1[0].contains("offset: no column is known as it"));
    let head = "time,size,offset,op\n";
    for (line, name) in [
        ("", ""),
        ("x,1,1,R", "time"),
        ("1,,1,R", "size"),
        ("1,1,?,R", "offset"),
        ("1,1,1,12", "op"),
        ("1,1,1", "op"),
        ("1,1", "op"),
        ("1,1,1,R,7", "more than 4 fields"),
        ("1,1,1,\"R", "field"),
    ] {
        let (_, defects) = read(&format!("{head}{line}"));
        let named = defects.iter().all(|defect| defect.contains(&format!("2: {name}")));
        assert!(named && defects.len() == usize::from(!line.is_empty()), "{line}: {defects:?}");
    }
}

#[test]
fn a_refused_line_of_titles_is_one_defect_and_no_row_is_read() {
    let (records, defects) = read("time,size,lba\n1,512,1\n2,512,2\n");
    assert_eq!((records.len(), defects.len()), (0, 1), "{defects:?}");
}

#[test]
fn a_kind_that_no_column_tells_is_refused_unless_it_is_assumed() {
    let text = "time,lba,size\n1,8,512\n2,16,512\n";
    assert!(problems(text).contains("--assume read if all requests are reads"));
    let assumed = options(&[], &[], Some(Kind::Write));
    assert!(judged(text, &assumed).unwrap().contains("op assumed to be write"));
    let (records, _) = read_with(text, assumed);
    assert!(records.iter().all(|record| record.kind == Kind::Write) && records.len() == 2);
}

#[test]
fn zero_and_one_are_refused_with_both_meanings_under_every_usual_title() {
    for title in ["rw", "rw_flag", "RW_Flag", "io_type", "IOType", "opcode", "op", "Type", "cmd"] {
        let text = format!("time,{title},lba,size\n1,0,8,512\n2,1,16,512\n");
        let told = problems(&text);
        let flags = [
            format!("--column op={title}:0=read,1=write"),
            format!("--column op={title}:0=write,1=read"),
        ];
        assert!(flags.iter().all(|flag| told.contains(flag.as_str())), "{title}: {told}");
        assert!(read(&text).0.is_empty(), "{title} is guessed");
        for (values, kinds) in [
            ("0=read,1=write", [Kind::Read, Kind::Write]),
            ("0=write,1=read", [Kind::Write, Kind::Read]),
        ] {
            let stated = options(&[&format!("op={title}:{values}")], &[], None);
            judged(&text, &stated).unwrap();
            let (records, defects) = read_with(&text, stated);
            assert_eq!(defects, [""; 0]);
            assert_eq!([records[0].kind, records[1].kind], kinds);
        }
    }
}

#[test]
fn a_title_that_says_which_is_which_needs_no_mapping() {
    let kinds = |title: &str| {
        let text = format!("time,{title},lba,size\n1,0,8,512\n2,1,16,512\n");
        judged(&text, &TableOptions::default()).unwrap();
        read(&text).0.iter().map(|record| record.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("is_write"), [Kind::Read, Kind::Write]);
    assert_eq!(kinds("IsRead"), [Kind::Write, Kind::Read]);
}

#[test]
fn values_that_are_no_kinds_are_shown_with_an_option_that_takes_them() {
    let told = problems("time,type,lba,size\n1,Q,8,512\n2,2,16,512\n");
    assert!(told.contains("has \"2\", \"Q\""), "{told}");
    assert!(told.contains("--column op=type:2=write,Q=write"), "{told}");
    let mut text = "time,type,lba,size\n".to_owned();
    for number in 0..60 {
        writeln!(text, "{number},{number}x,8,512").unwrap();
    }
    assert!(problems(&text).contains("more than 32 different values"));
}

#[test]
fn a_code_that_decimal_reads_otherwise_is_refused_unless_another_shows_the_base() {
    let told = problems("time,op,lba,size\n1,42,8,512\n2,42,16,512\n");
    assert!(told.contains("--column op=op:42=write"), "{told}");
    let (records, _) = read("time,op,lba,size\n1,42,8,512\n2,2a,16,512\n");
    assert_eq!((records[0].kind, records[1].kind), (Kind::Trim, Kind::Write));
    judged("time,op,lba,size\n1,42,8,512\n2,2a,16,512\n", &TableOptions::default()).unwrap();
}

#[test]
fn sizes_and_offsets_that_are_no_sectors_are_hardly_bytes() {
    let text = "ts_us,rw,offset,size\n1,R,8,8\n2,W,16,1024\n3,R,24,16\n";
    let told = problems(text);
    assert!(told.contains("size: column \"size\", read as bytes, has 2 of 3 values"), "{told}");
    assert!(told.contains("--unit size=sectors") && told.contains("--unit offset=sectors"));
    let stated = options(&[], &["size=sectors", "offset=4KiB"], None);
    judged(text, &stated).unwrap();
    let (records, _) = read_with(text, stated);
    assert_eq!((records[1].offset, records[1].length), (65_536, 524_288));
    let as_bytes = options(&[], &["size=bytes", "offset=bytes"], None);
    judged(text, &as_bytes).unwrap();
    assert_eq!(read_with(text, as_bytes).0[0].length, 8);
    // One odd size in many is an odd size.
    let mut text = "ts_us,rw,offset,size\n".to_owned();
    for number in 0..40 {
        writeln!(text, "{number},R,{},4096", number * 512).unwrap();
    }
    text += "41,R,0,100\n";
    judged(&text, &TableOptions::default()).unwrap();
}

#[test]
fn a_time_that_can_hardly_be_seconds_is_refused_with_the_units_that_it_may_have() {
    let rows = |instants: &[&str]| {
        let mut text = "time,rw,lba,size\n".to_owned();
        for at in instants {
            writeln!(text, "{at},R,8,512").unwrap();
        }
        text
    };
    for (instants, told) in [
        (&["0", "1000", "1500", "2900"][..], "one request in 967 s; add --unit time=ms"),
        (&["0.000", "223.412", "223.434"], "one request in 112 s"),
        (&["0", "1", "100000000", "100000001"], "a gap of 3 years"),
        (&["1577808144360767"], "add --unit time=us (it would end in 2019)"),
        (&["1577808144360"], "add --unit time=ms"),
        (&["1577808144360767000"], "add --unit time=ns"),
        (&["128166372003061629"], "add --unit time=100ns (it would end in 2007)"),
        (&["99999999999999999999"], "add --unit time=ms, --unit time=us"),
    ] {
        let problem = problems(&rows(instants));
        assert!(problem.contains(told), "{instants:?}: {problem}");
    }
    for instants in
        [&["0.1", "0.2", "0.7"][..], &["1538323200", "1538323200", "1538323201"], &["5"]]
    {
        judged(&rows(instants), &TableOptions::default()).unwrap();
    }
    let stated = options(&[], &["time=100ns"], None);
    let text = rows(&["128166372003061629", "128166372003061639"]);
    assert_eq!(read_with(&text, stated).0[1].at, Nanos(1_000));
}

#[test]
fn a_gap_of_years_behind_the_first_rows_is_a_defect() {
    let text = "time,rw,lba,size\n1,R,8,512\n2,R,8,512\n200000000,R,8,512\n200000001,R,8,512\n";
    let (records, defects) = read(text);
    assert_eq!((records.len(), defects.len()), (2, 2));
    assert!(
        defects[0].starts_with("4: time: column \"time\", read as seconds, has a gap of years")
    );
    let stated = options(&[], &["time=s"], None);
    assert_eq!(read_with(text, stated).0.len(), 4);
}

#[test]
fn everything_that_is_not_clear_is_told_at_once() {
    let text = "timestamp,rw_flag,lba,size\n1000,0,8,8\n2000,1,16,16\n";
    let told = problems(text);
    let starts: Vec<&str> = told.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(starts, ["time", "op", "size"], "{told}");
}

#[test]
fn heimdalls_log_is_known_with_titles_and_without() {
    let rows = "0.000,153,0,4096,8192,0.010,4096\n223.412,99,1,512,0,223.470,512\n";
    let titles = "ts_record,latency,io_type,size,offset,ts_submit,size_after_replay\n";
    for text in [rows.to_owned(), format!("{titles}{rows}")] {
        let told = judged(&text, &TableOptions::default()).unwrap();
        assert!(told.starts_with("read as a log of Heimdall's replayer"), "{told}");
        let (records, defects) = read(&text);
        assert_eq!(defects, [""; 0]);
        assert_eq!((records[0].kind, records[1].kind), (Kind::Write, Kind::Read));
        assert_eq!((records[1].at, records[1].response), (Nanos(223_412_000), Some(Span(99_000))));
        assert_eq!((records[0].offset, records[0].length), (8_192, 4_096));
    }
}

#[test]
fn what_spreadsheets_write_is_read() {
    let text = "\u{feff}\"Time (s)\",\"Op\",\"Offset\",\"Size\",\"Device\"\r\n\
                \"0.5\",\"Read\",\"0\",\"512\",\"a, \"\"b\"\"\"\r\n";
    judged(text, &TableOptions::default()).unwrap();
    let mut decoder = Format::Csv.decoder(&Options::default());
    let (records, defects) = decode_all(&mut *decoder, text.as_bytes());
    assert_eq!((records.len(), defects), (1, vec![]));
    assert_eq!(decoder.sources().names(), ["a, \"b\""]);
}

#[test]
fn hostile_heads_are_refused_with_a_reason() {
    let long = vec![b'a'; 1 << 20];
    for is_all in [false, true] {
        let unclear = understand(&long, is_all, &TableOptions::default()).unwrap_err();
        assert!(unclear.problems[0].contains("more than 4096 bytes"), "{unclear:?}");
    }
    let wide = format!("{}\n1\n", vec!["a"; 2_000].join(","));
    assert!(problems(&wide).contains("more than 256 columns"));
    assert_eq!(problems(""), "there is no line of titles");
    assert_eq!(problems("\n# nothing\n"), "there is no line of titles");
}

#[test]
fn values_beyond_64_bits_in_their_unit_are_defects() {
    for (units, row) in [
        ("size=sectors", "1,R,0,36028797018963968"),
        ("offset=MiB", "1,R,17592186044416,512"),
        ("time=s", "18446744074,R,0,512"),
        ("size=MiB", "1,R,18446744073709551615,1"),
    ] {
        let stated = options(&[], &[units], None);
        let (records, defects) = read_with(&format!("time,rw,offset,size\n{row}\n"), stated);
        assert_eq!((records.len(), defects.len()), (0, 1), "{units}: {defects:?}");
    }
}
