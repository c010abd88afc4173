//! Files that are no trace this project reads, named where their first bytes tell, with what to do.
//!
//! | file | told by |
//! |---|---|
//! | bzip2, xz, lz4, zip, 7-Zip, compress, tar; files packed twice | their magic numbers |
//! | HP's SRT | `$$TR_IOREC` |
//! | `DataSeries` | `DSv1` |
//! | Parquet, `SQLite`, pcap, JSON, HTML, UTF-16, a pointer of Git LFS | their first bytes |
//! | blktrace of a machine of the other byte order | its magic number, turned round |
//! | cache traces without times: oracleGeneral, ARC's `.lis`, object numbers | records that fit |
//! | the five columns of the simulators | five numbers a line |
//! | tables with other separators, or without titles | their first line |

use super::blk;
use super::csv::is_head;

/// Records of a trace without a magic number that have to fit.
const RECORDS_MIN: usize = 4;

/// Lines of a text that are looked at.
const LINES_MAX: usize = 64;

const ORACLE_BYTES: usize = 24;

/// No cache trace has so many requests; eight bytes of text are a larger number.
const REQUESTS_MAX: i64 = 1 << 40;

/// What a file is, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it is.
    pub what: &'static str,
    /// What makes a trace of it.
    pub remedy: &'static str,
}

#[expect(clippy::unnecessary_wraps, reason = "whoever calls it returns an option as well")]
const fn named(what: &'static str, remedy: &'static str) -> Option<Foreign> {
    Some(Foreign { what, remedy })
}

/// The name of what starts so, if it is known and no format of [`Format`](super::Format) that its
/// bytes show.
pub fn foreign(head: &[u8]) -> Option<Foreign> {
    packed(head)
        .or_else(|| other(head))
        .or_else(|| probable(head))
        .or_else(|| cache_trace(head))
        .or_else(|| text(head))
}

/// Whether a file certainly is none of the formats here, whatever its name.
pub(super) fn is_certain(head: &[u8]) -> bool {
    packed(head).is_some() || other(head).is_some() || oracle_general(head)
}

fn packed(head: &[u8]) -> Option<Foreign> {
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => {
            named("packed with bzip2", "unpack it: bzip2 -dc FILE | evenkeel trace .. -")
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            named("packed with xz", "unpack it: xz -dc FILE | evenkeel trace .. -")
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            named("packed with lz4", "unpack it: lz4 -dc FILE | evenkeel trace .. -")
        }
        [b'P', b'K', 3 | 5, 4 | 6, ..] => named(
            "a zip archive",
            "unpack one file of it: unzip -p FILE NAME | evenkeel trace .. -",
        ),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => named(
            "a 7-Zip archive",
            "unpack one file of it: 7z x -so FILE NAME | evenkeel trace .. -",
        ),
        [0x1f, 0x8b, 8, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            named("packed twice", "unpack it once, with gzip -dc or zstd -dc")
        }
        _ if head.get(257..262) == Some(b"ustar") => named(
            "a tar archive",
            "unpack one file of it: tar -xOf FILE NAME | evenkeel trace .. -",
        ),
        _ => None,
    }
}

fn other(head: &[u8]) -> Option<Foreign> {
    if head.starts_with(b"$$TR_IOREC") {
        return named(
            "a trace in HP's SRT format, which is not read here",
            "DataSeries' srt2ds and ds2txt --csv make a table of it; give that titles",
        );
    }
    if head.starts_with(b"DSv1") {
        return named(
            "a DataSeries file, which is not read here",
            "DataSeries' ds2txt --csv makes a table of it; give that titles",
        );
    }
    if head.starts_with(b"PAR1") {
        return named(
            "a Parquet file, which is not read here",
            "write it as CSV, with titles that name the columns",
        );
    }
    if head.starts_with(b"SQLite format 3\0") {
        return named(
            "an SQLite database",
            "write its requests as CSV: sqlite3 -header -csv FILE 'select ..'",
        );
    }
    if head.starts_with(b"version https://git-lfs.github.com/spec/") {
        return named("no trace but a pointer of Git LFS to one", "fetch the trace: git lfs pull");
    }
    if matches!(
        head,
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3, 0xd4, ..] | [0x0a, 0x0d, 0x0d, 0x0a, ..]
    ) {
        return named("a recording of network packets", "traces of block requests are read here");
    }
    let mut turned = blk::binary::MAGIC;
    turned.reverse();
    if head.starts_with(&turned) {
        return named(
            "blktrace's records of a machine of the other byte order",
            "make a text of it where it was recorded: blkparse -i FILE -o FILE.blkparse",
        );
    }
    None
}

/// What two bytes tell, which a binary trace may start with as well.
fn probable(head: &[u8]) -> Option<Foreign> {
    if head.starts_with(&[0x1f, 0x9d]) {
        return named("packed with compress", "unpack it: gzip -dc FILE | evenkeel trace .. -");
    }
    if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return named("a text in UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8 FILE");
    }
    let start = head.trim_ascii_start();
    if starts_with_any(start, &[b"<!doctype", b"<html", b"<?xml"]) {
        return named("a page of the web or XML, no trace", "was a login page downloaded instead?");
    }
    if matches!(start, [b'{', rest @ ..] if rest.trim_ascii_start().starts_with(b"\""))
        || matches!(start, [b'[', rest @ ..] if rest.trim_ascii_start().starts_with(b"{"))
    {
        return named(
            "JSON, which is not read here",
            "write it as CSV, with titles that name the columns",
        );
    }
    None
}

fn starts_with_any(head: &[u8], starts: &[&[u8]]) -> bool {
    starts
        .iter()
        .any(|start| head.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))
}

const NO_TIMES: &str =
    "caches can be simulated from it elsewhere; here requests need times, kinds and sizes";

fn cache_trace(head: &[u8]) -> Option<Foreign> {
    if oracle_general(head) {
        return named(
            "a cache trace of libCacheSim (oracleGeneral): objects, no offsets or kinds",
            NO_TIMES,
        );
    }
    let rows = numbers(head)?;
    let number = |row: &Vec<u64>| match row[..] {
        [_, 1..=u64::MAX, 0, number] => Some(number),
        _ => None,
    };
    let is_lis = rows.windows(2).all(|pair| {
        number(&pair[0]).zip(number(&pair[1])).is_some_and(|(this, next)| {
            // Copies differ: the last column counts, or is zero throughout.
            next == 0 || this.checked_add(1) == Some(next)
        })
    });
    if rows.len() >= RECORDS_MIN && is_lis {
        return named(
            "a cache trace of the ARC paper (.lis): block numbers without times",
            NO_TIMES,
        );
    }
    if rows.len() >= RECORDS_MIN && rows.iter().all(|row| row.len() == 1) {
        return named("a list of numbers, as a cache trace of objects without times", NO_TIMES);
    }
    None
}

/// libCacheSim's records: seconds, object, bytes, and the place of the object's next request (or
/// none), which lies behind this one.
fn oracle_general(head: &[u8]) -> bool {
    let mut last_s = 0;
    let mut count = 0;
    for (number, record) in (0_i64..).zip(head.chunks_exact(ORACLE_BYTES)) {
        let four = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four"));
        let next = i64::from_le_bytes(record[16..24].try_into().expect("eight"));
        let (time_s, size_bytes) = (four(0), four(12));
        let is_next = next == -1 || (next > number && next < REQUESTS_MAX);
        if time_s < last_s || size_bytes == 0 || !is_next {
            return false;
        }
        last_s = time_s;
        count += 1;
    }
    count >= RECORDS_MIN
}

/// The whole numbers of the first whole lines, parted by blanks; `None` if there is anything else.
fn numbers(head: &[u8]) -> Option<Vec<Vec<u64>>> {
    let whole = &head[..head.iter().rposition(|&byte| byte == b'\n')?];
    let lines = whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let rows = lines.filter(|line| !line.is_empty()).take(LINES_MAX).map(|line| {
        let words = str::from_utf8(line).ok()?.split_ascii_whitespace();
        words.map(|word| word.parse().ok()).collect()
    });
    rows.collect()
}

fn text(head: &[u8]) -> Option<Foreign> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && line[0] != b'#')?;
    for separator in *b"\t;|" {
        let with_commas: Vec<u8> =
            first.iter().map(|&byte| if byte == separator { b',' } else { byte }).collect();
        if first.contains(&separator) && is_head(&with_commas) {
            return match separator {
                b'\t' => {
                    named("a table with tabs", "put commas: tr '\\t' , <FILE | evenkeel trace .. -")
                }
                b';' => named(
                    "a table with semicolons",
                    "put commas: tr ';' , <FILE | evenkeel trace .. -",
                ),
                _ => named("a table with bars", "put commas: tr '|' , <FILE | evenkeel trace .. -"),
            };
        }
    }
    let words: Vec<&[u8]> =
        first.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty()).collect();
    let is_number =
        |word: &&[u8]| str::from_utf8(word).is_ok_and(|word| word.parse::<f64>().is_ok());
    if words.len() == 5 && words.iter().all(is_number) {
        return named(
            "a table of five numbers a line, as the simulators have, which does not tell its units",
            "say which: --format disksim (ms, sectors), --format ssdsim (MQSim's too: ns, sectors) \
             or --format heimdall (ms, bytes)",
        );
    }
    let fields: Vec<&[u8]> = first.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    if fields.len() >= 3 && fields.iter().filter(|field| is_number(field)).count() >= 2 {
        return named(
            "a table without titles",
            "put a line of them in front, as in (echo time_us,op,offset,size; cat FILE) | evenkeel \
             trace .. -, or say which it is by --format: msr, spc, alibaba or tencent",
        );
    }
    let is_title = |field: &&[u8]| field.iter().any(u8::is_ascii_alphabetic) && !is_number(field);
    if fields.len() >= 3 && fields.iter().all(is_title) {
        return named(
            "a table with titles of which none is known",
            "say which column is what: --column time=TITLE --column op=TITLE --column offset=TITLE \
             --column size=TITLE",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    fn what(head: &[u8]) -> &'static str {
        assert_eq!(Format::detect(head, "x.dat"), None);
        foreign(head).map_or("unknown", |foreign| foreign.what)
    }

    fn oracle(next: i64) -> Vec<u8> {
        let mut file = Vec::new();
        for number in 0..8_i64 {
            file.extend(3_u32.to_le_bytes());
            file.extend((number % 3).to_le_bytes());
            file.extend(4096_u32.to_le_bytes());
            file.extend((if number < 5 { number + next } else { -1 }).to_le_bytes());
        }
        file
    }

    #[test]
    fn files_that_are_no_traces_are_named() {
        for (head, told) in [
            (&b"BZh91AY&SY.."[..], "bzip2"),
            (b"\xfd7zXZ\0..", "xz"),
            (b"\x04\x22\x4d\x18..", "lz4"),
            (b"PK\x03\x04..", "zip"),
            (b"\x1f\x8b\x08..", "packed twice"),
            (b"$$TR_IOREC-1.7 : derived from MI trace data\0\n", "SRT"),
            (b"DSv1\x78\x56\x34\x12", "DataSeries"),
            (b"PAR1\x15\x04", "Parquet"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS"),
            (b"\x65\x61\x74\x07....", "other byte order"),
            (b"\xff\xfet\0i\0m\0e\0", "UTF-16"),
            (b"<!DOCTYPE html><html>", "page of the web"),
            (b"{\"time\": 1}\n", "JSON"),
            (b"1 1 0 0\n2 1 0 1\n3 4 0 2\n9 1 0 3\n", "ARC"),
            (b"17\n18\n19\n17\n", "list of numbers"),
            (b"0.5 0 8 16 1\n", "five numbers"),
            (b"time;op;offset;size\n", "semicolons"),
            (b"time\top\toffset\tsize\n", "tabs"),
            (b"12.5,0,4096,8,x\n", "without titles"),
            (b"alpha,beta,gamma\n", "titles of which none is known"),
            (b"what is this\n", "unknown"),
            (b"", "unknown"),
        ] {
            assert!(what(head).contains(told), "{}: {}", head.escape_ascii(), what(head));
        }
        let mut tar = vec![b'x'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(what(&tar).contains("tar"));
    }

    #[test]
    fn a_cache_trace_without_a_magic_number_is_told_by_all_its_records() {
        assert!(what(&oracle(3)).contains("oracleGeneral"));
        assert!(!oracle_general(&oracle(-1)), "the next request lies behind this one");
        assert!(!oracle_general(&oracle(3)[..3 * ORACLE_BYTES]), "too few to tell");
        assert!(!oracle_general(&[b'a'; 2_400]), "text");
    }

    #[test]
    fn a_name_makes_no_trace_of_what_is_none() {
        assert_eq!(Format::detect(b"BZh91AY&SY..", "day.vscsi"), None);
        assert_eq!(Format::detect(&oracle(3), "day.vscsi"), None);
    }
}
