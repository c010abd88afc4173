//! What the title of a column says: which field it holds, and what its numbers count.
//!
//! ```text
//! title           words            field      unit
//! ts_us           ts, us           time       microseconds
//! Latency (ms)    latency, ms      response   milliseconds
//! sizeBytes       size, bytes      size       bytes
//! lba             lba              offset     sectors of 512 bytes
//! size            size             size       not told
//! ```
//!
//! Upper and lower case, and whatever stands between words, are the same. A unit is the last word.

use super::rules::{Field, Unit};

/// What a title says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Title {
    /// The field.
    pub(super) field: Field,
    /// What its numbers count; `None` if the title does not tell.
    pub(super) unit: Option<Unit>,
    /// Whether `1` is a write (`is_write`) or a read (`is_read`), where the title says so.
    pub(super) truth: Option<Truth>,
}

/// What `1` and `true` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Read,
    Write,
}

/// What a title says; `None` for one that is not known.
pub(super) fn of(title: &[u8]) -> Option<Title> {
    let words = words(title);
    let whole = words.concat();
    if let Some((field, unit)) = known(&whole) {
        let truth = match whole.as_str() {
            "iswrite" => Some(Truth::Write),
            "isread" => Some(Truth::Read),
            _ => None,
        };
        return Some(Title { field, unit, truth });
    }
    // `KiB` is two words as `sizeBytes` is.
    let unit_words = 1..words.len().min(3);
    unit_words.into_iter().find_map(|count| with_unit(words.split_at(words.len() - count)))
}

fn with_unit((name, unit): (&[String], &[String])) -> Option<Title> {
    let (field, _) = known(&name.concat())?;
    let unit = match field {
        Field::Time | Field::Response => time(&unit.concat())?,
        Field::Offset | Field::Size => space(&unit.concat())?,
        Field::Op | Field::Source => return None,
    };
    Some(Title { field, unit: Some(unit), truth: None })
}

/// The words of a title in lower case.
fn words(title: &[u8]) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for &byte in title {
        let starts_word = byte.is_ascii_uppercase() && was_lower;
        if !byte.is_ascii_alphanumeric() || starts_word {
            words.push(String::new());
        }
        if byte.is_ascii_alphanumeric() {
            let word = words.last_mut().expect("one is there from the start");
            word.push(char::from(byte.to_ascii_lowercase()));
        }
        was_lower = byte.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn known(whole: &str) -> Option<(Field, Option<Unit>)> {
    Some(match whole {
        "time" | "timestamp" | "ts" | "arrival" | "arrivaltime" | "starttime" | "submittime"
        | "issuetime" | "requesttime" => (Field::Time, None),
        "op" | "kind" | "type" | "rw" | "rwflag" | "rwtype" | "rwbs" | "readwrite" | "iotype"
        | "ioop" | "iokind" | "ioflag" | "opcode" | "optype" | "operation" | "operationtype"
        | "command" | "cmd" | "direction" | "dir" | "reqtype" | "requesttype" | "accesstype"
        | "iswrite" | "isread" => (Field::Op, None),
        "offset" | "address" | "addr" | "position" | "diskoffset" | "startoffset" | "block"
        | "blkno" | "blockno" | "blocknumber" | "startblock" => (Field::Offset, None),
        "byteoffset" => (Field::Offset, Some(Unit::BYTE)),
        "lba" | "lbn" | "startlba" | "startinglba" | "sector" | "startsector" | "sectorno"
        | "sectornumber" => (Field::Offset, Some(Unit::SECTORS)),
        "size" | "length" | "len" | "iosize" | "reqsize" | "requestsize" | "iolength"
        | "requestlength" | "transfersize" | "xfersize" | "datalength" | "blocks" | "nblocks"
        | "blockcount" | "numblocks" => (Field::Size, None),
        "bytes" | "nbytes" | "bytecount" | "numbytes" => (Field::Size, Some(Unit::BYTE)),
        "sectors" | "nsectors" | "nsect" | "sectorcount" | "numsectors" => {
            (Field::Size, Some(Unit::SECTORS))
        }
        "source" | "device" | "dev" | "disk" | "volume" | "tenant" | "deviceid" | "devid"
        | "diskid" | "disknumber" | "volumeid" | "volid" | "vmid" | "lun" | "asu" => {
            (Field::Source, None)
        }
        "response" | "resp" | "responsetime" | "resptime" | "latency" | "lat" => {
            (Field::Response, None)
        }
        _ => return None,
    })
}

fn time(word: &str) -> Option<Unit> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::SECONDS,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Unit::MILLISECONDS,
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Unit::MICROSECONDS,
        "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => Unit::NANOSECONDS,
        _ => return None,
    })
}

fn space(word: &str) -> Option<Unit> {
    Some(match word {
        "byte" | "bytes" => Unit::BYTE,
        "sector" | "sectors" | "lba" | "lbas" => Unit::SECTORS,
        // Requests are whole sectors, which thousands of bytes are not.
        "kib" | "kb" => Unit::Bytes(1 << 10),
        "mib" | "mb" => Unit::Bytes(1 << 20),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_spellings_are_one_name() {
        for title in ["rw_flag", "RW Flag", "rwFlag", "rw-flag", "RWFLAG", " rw.flag "] {
            assert_eq!(of(title.as_bytes()).map(|it| it.field), Some(Field::Op), "{title}");
        }
        for title in ["rw", "R/W", "io_type", "IOType", "I/O Type", "opcode", "OpCode", "RWBS"] {
            assert_eq!(of(title.as_bytes()).map(|it| it.field), Some(Field::Op), "{title}");
        }
    }

    #[test]
    fn a_unit_is_the_last_word() {
        for (title, field, unit) in [
            ("ts_us", Field::Time, Some(Unit::MICROSECONDS)),
            ("Time (ms)", Field::Time, Some(Unit::MILLISECONDS)),
            ("timestampNs", Field::Time, Some(Unit::NANOSECONDS)),
            ("Timestamp", Field::Time, None),
            ("size_bytes", Field::Size, Some(Unit::BYTE)),
            ("size[KiB]", Field::Size, Some(Unit::Bytes(1024))),
            ("IO_Size", Field::Size, None),
            ("offset_sectors", Field::Offset, Some(Unit::SECTORS)),
            ("LBA", Field::Offset, Some(Unit::SECTORS)),
            ("block", Field::Offset, None),
            ("ResponseTime", Field::Response, None),
            ("lat_usec", Field::Response, Some(Unit::MICROSECONDS)),
        ] {
            assert_eq!(of(title.as_bytes()), Some(Title { field, unit, truth: None }), "{title}");
        }
    }

    #[test]
    fn titles_that_only_look_alike_are_not_known() {
        for title in ["", "_", "us", "times", "size_ms", "time_bytes", "op_us", "offset_2", "pid"] {
            assert_eq!(of(title.as_bytes()), None, "{title}");
        }
    }
}
