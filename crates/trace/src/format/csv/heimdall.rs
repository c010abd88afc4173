//! What Heimdall's replayer logs of a trace (`EuroSys` 2025; `io_replayer.c` of its artifact):
//! seven columns, which its data sets give titles and the log itself does not.
//!
//! ```text
//! ts_record,latency,io_type,size,offset,ts_submit,size_after_replay
//! 223.412,153,1,36864,3159347200,223.470,36864
//!  |       |  |   |       |         |      +- bytes that were read or written
//!  |       |  |   |       |         +-------- ms: when it was sent
//!  |       |  |   +-------+------------------ bytes
//!  |       |  +------------------------------ 1 read, 0 write
//!  |       +--------------------------------- us
//!  +----------------------------------------- ms: when it arrived in the trace
//! ```
//!
//! The order is that of the answers. What a data set adds behind is passed over.

use super::rules::{Field, Unit};
use super::titles::{Title, Truth};
use crate::text::Cursor;

/// The titles of the columns.
pub(super) const TITLES: [&str; 7] =
    ["ts_record", "latency", "io_type", "size", "offset", "ts_submit", "size_after_replay"];

/// Whether these are the titles of such a table.
pub(super) fn has_titles(titles: &[String]) -> bool {
    TITLES[..6].iter().all(|title| titles.iter().any(|it| it == title))
}

/// What a title means in such a table.
pub(super) fn title(title: &str) -> Option<Title> {
    let (field, unit) = match title {
        "ts_record" => (Field::Time, Some(Unit::MILLISECONDS)),
        "latency" => (Field::Response, Some(Unit::MICROSECONDS)),
        "io_type" => (Field::Op, None),
        "size" => (Field::Size, Some(Unit::BYTE)),
        "offset" => (Field::Offset, Some(Unit::BYTE)),
        _ => return None,
    };
    let truth = (field == Field::Op).then_some(Truth::Read);
    Some(Title { field, unit, truth })
}

/// Whether a line is one of the log: two times with three decimals each, a bit between, and as many
/// bytes done as asked for (or -1 where that failed).
pub(super) fn is_log_line(line: &[u8]) -> bool {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
    let [recorded, latency, bit, size, offset, submitted, done] = fields[..] else { return false };
    let is_whole = |field: &[u8]| {
        let mut cursor = Cursor::new(field);
        cursor.unsigned().is_some() && cursor.is_at_end()
    };
    let is_ms = |field: &[u8]| match field.len().checked_sub(4) {
        Some(point) => {
            is_whole(&field[..point]) && field[point] == b'.' && is_whole(&field[point + 1..])
        }
        None => false,
    };
    is_ms(recorded)
        && is_ms(submitted)
        && matches!(bit, b"0" | b"1")
        && [latency, size, offset].into_iter().all(is_whole)
        && (done == size || done == b"-1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_by_its_shape() {
        assert!(is_log_line(b"223.412,153,1,36864,3159347200,223.470,36864"));
        assert!(is_log_line(b"0.000,153,0,4096,0,0.010,-1"));
        for line in [
            "223.412,153,2,36864,3159347200,223.470,36864",
            "223.412,153,1,36864,3159347200,223.470,4096",
            "223,153,1,36864,3159347200,223.470,36864",
            "1,hm,1,Read,383496192,32768,413",
            "",
        ] {
            assert!(!is_log_line(line.as_bytes()), "{line}");
        }
    }
}
