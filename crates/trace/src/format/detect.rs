//! Which format a file has, told from its first bytes, or else from its name.
//!
//! Columns of numbers fit many traces. A format whose lines have no words is only told where a
//! number could hardly be anything else: Alibaba and Tencent by instants since 1970, Heimdall by
//! bytes that are whole sectors.

use super::{Format, blk, csv, foreign, iolog, native, vscsi};
use crate::text::Cursor;

/// What the first bytes show beats what the name says, but for Heimdall's numbers.
pub(super) fn detect(head: &[u8], file_name: &str) -> Option<Format> {
    if let Some(format) = by_magic(head) {
        return Some(format);
    }
    if foreign::is_certain(head) {
        return None;
    }
    vscsi::version(head)
        .map(|_| Format::Vscsi)
        .or_else(|| by_first_line(head))
        .or_else(|| by_name(file_name))
        .or_else(|| by_numbers(head))
}

/// The format that a name asks for when a trace is written: of several with this ending, the one
/// that holds everything, or else the newest.
pub(super) fn for_writing(file_name: &str) -> Option<Format> {
    match extension(file_name)? {
        "csv" => Some(Format::Csv),
        "iolog" => Some(Format::Iolog3),
        _ => by_name(file_name),
    }
}

fn by_magic(head: &[u8]) -> Option<Format> {
    if head.starts_with(&native::MAGIC) {
        return Some(Format::Native);
    }
    if head.starts_with(&blk::binary::MAGIC) {
        return Some(Format::Blktrace);
    }
    match iolog::version(head)? {
        iolog::Version::Two => Some(Format::Iolog2),
        iolog::Version::Three => Some(Format::Iolog3),
    }
}

/// The titles that some copies of these traces have.
const TITLES: [(Format, &str); 3] = [
    (Format::Msr, "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
    (Format::Alibaba, "device_id,opcode,offset,length,timestamp"),
    (Format::Tencent, "Timestamp,Offset,Size,IOType,VolumeID"),
];

fn by_first_line(head: &[u8]) -> Option<Format> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.clone().find(|line| !line.is_empty())?;
    if blk::text::is_event(first) {
        return Some(Format::Blkparse);
    }
    if lines.any(|line| line.starts_with(b"start ;")) {
        return Some(Format::Blkreplay);
    }
    let titled = TITLES.into_iter().find(|(_, titles)| first == titles.as_bytes());
    if let Some((format, _)) = titled {
        return Some(format);
    }
    let fields: Vec<_> = first.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    match fields[..] {
        [_, _, _, b"Read" | b"Write", _, _, _] => Some(Format::Msr),
        [_, b"R" | b"W", _, _, at] if is_epoch(at, 1_000_000) => Some(Format::Alibaba),
        [_, _, _, b"r" | b"w" | b"R" | b"W", _, ..] => Some(Format::Spc),
        [at, _, _, b"0" | b"1", _] if is_epoch(at, 1) => Some(Format::Tencent),
        _ => {
            let mut said = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
            let top = said.find(|line| !line.is_empty() && line[0] != b'#')?;
            csv::is_head(top).then_some(Format::Csv)
        }
    }
}

/// An instant since 1970, of this century, in a unit of which so many make a second.
fn is_epoch(field: &[u8], per_second: u64) -> bool {
    let mut cursor = Cursor::new(field);
    let value = cursor.unsigned().map(|value| value / per_second);
    let is_number = cursor.is_at_end() || cursor.take(b'.');
    is_number && value.is_some_and(|second| (1_000_000_000..10_000_000_000).contains(&second))
}

/// A name that several formats share tells none of them.
fn by_name(file_name: &str) -> Option<Format> {
    let extension = extension(file_name)?;
    let mut named = Format::ALL.into_iter().filter(|f| f.extensions().contains(&extension));
    named.next().filter(|_| named.next().is_none())
}

fn extension(file_name: &str) -> Option<&str> {
    file_name.rsplit_once('.').map(|(_, extension)| extension)
}

/// Lines of Heimdall that have to fit.
const LINES_MIN: usize = 8;

/// Lines that are looked at.
const LINES_MAX: usize = 1_000;

/// Heimdall's five columns: milliseconds with a fraction, and starts and lengths that are whole
/// sectors when read as bytes. Those of the simulators count sectors, of which seldom all are
/// multiples of 512.
fn by_numbers(head: &[u8]) -> Option<Format> {
    let whole = &head[..head.iter().rposition(|&byte| byte == b'\n')?];
    let lines = whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut count = 0;
    for line in lines.filter(|line| !line.is_empty()).take(LINES_MAX) {
        if !is_heimdall(line) {
            return None;
        }
        count += 1;
    }
    (count >= LINES_MIN).then_some(Format::Heimdall)
}

fn is_heimdall(line: &[u8]) -> bool {
    let words: Vec<&[u8]> =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let [time, device, start, length, b"0" | b"1"] = words[..] else { return false };
    let whole = |word: &[u8]| {
        let mut cursor = Cursor::new(word);
        cursor.unsigned().filter(|_| cursor.is_at_end())
    };
    let mut cursor = Cursor::new(time);
    let is_ms = time.contains(&b'.') && cursor.scaled(6).is_some() && cursor.is_at_end();
    let is_sectors = |value: Option<u64>| value.is_some_and(|value| value.is_multiple_of(512));
    is_ms
        && whole(device).is_some()
        && is_sectors(whole(start))
        && is_sectors(whole(length).filter(|&length| length > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        for (text, format) in [
            ("128166372003061629,hm,1,Read,383496192,32768,413\n", Format::Msr),
            ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Format::Msr),
            ("0,303567,3584,w,0.026214\n", Format::Spc),
            ("419,W,8792731648,16384,1577808144360767", Format::Alibaba),
            ("device_id,opcode,offset,length,timestamp\n", Format::Alibaba),
            ("1538323200,12910952,128,0,1063", Format::Tencent),
            ("version,time,op,size,lbn\n1,2,3,4,5", Format::Csv),
            ("\u{feff}time,op,size,lbn\n1,2,3,4", Format::Csv),
            ("# a remark\ntime,op,size,lbn\n1,2,3,4", Format::Csv),
            ("0.000,153,0,4096,0,0.010,4096\n", Format::Csv),
            ("\n  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [x]", Format::Blkparse),
            ("fio version 2 iolog\n", Format::Iolog2),
            ("fio version 3 iolog\n", Format::Iolog3),
            ("prose\n\nstart ; sector; length ; op ;\n", Format::Blkreplay),
        ] {
            assert_eq!(Format::detect(text.as_bytes(), "some.txt"), Some(format), "{text}");
        }
    }

    #[test]
    fn a_table_whose_titles_resemble_a_cloud_trace_is_read_by_its_titles() {
        for titles in [
            "time,opcode,offset,length,latency",
            "time,offset,size,IOType,disk",
            "Timestamp,Process,Disk,Type,Offset,Size,Latency",
        ] {
            assert_eq!(Format::detect(titles.as_bytes(), "x.csv"), Some(Format::Csv), "{titles}");
        }
        assert_eq!(Format::detect(b"12,4096,8192,1,3\n", "x.csv"), None, "1 is no kind by itself");
        assert_eq!(Format::detect(b"12.5,R,4096,8192,3\n", "x.csv"), None, "12.5 is no volume");
    }

    #[test]
    fn bytes_that_are_whole_sectors_tell_heimdall() {
        let line = |number: u64, unit: u64| {
            format!("{number}.250 0 {} {} {}\n", number * 7 * unit, 8 * unit, number % 2)
        };
        let text =
            |lines: u64, unit| (0..lines).map(|number| line(number, unit)).collect::<String>();
        assert_eq!(Format::detect(text(8, 512).as_bytes(), "x.trace"), Some(Format::Heimdall));
        assert_eq!(Format::detect(text(7, 512).as_bytes(), "x.trace"), None, "too few to tell");
        assert_eq!(Format::detect(text(99, 1).as_bytes(), "x.trace"), None, "sectors");
        assert_eq!(Format::detect(text(99, 512).as_bytes(), "x.disksim"), Some(Format::DiskSim));
    }

    #[test]
    fn a_name_tells_where_the_bytes_do_not() {
        assert_eq!(Format::detect(b"0 0 8 16 1\n", "web.mqsim"), Some(Format::SsdSim));
        assert_eq!(Format::detect(b"0 0 8 16 1\n", "web.trace"), None);
        assert_eq!(Format::detect(b"a,b\n", "web.csv"), None);
        assert_eq!(Format::detect(b"", "web"), None);
    }

    #[test]
    fn a_name_tells_what_is_written() {
        for (name, format) in
            [("x.csv", Format::Csv), ("x.iolog", Format::Iolog3), ("x.ektrace", Format::Native)]
        {
            assert_eq!(Format::for_writing(name), Some(format));
        }
        assert_eq!(Format::for_writing("x"), None);
    }

    #[test]
    fn names_return() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
    }
}
