//! What every encoder refuses, whatever its format: time that steps back, and a range that ends
//! beyond 64 bits. No decoder would give them back.

use evenkeel_core::time::Nanos;

use crate::codec::Encoder;
use crate::{Record, Sources};

/// An encoder that is only given records that a trace can have.
pub(super) struct Checked<E> {
    encoder: E,
    last: Nanos,
}

impl<E> Checked<E> {
    pub(super) fn new(encoder: E) -> Self {
        Self { encoder, last: Nanos::ZERO }
    }
}

impl<E: Encoder> Encoder for Checked<E> {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        check(record, self.last)?;
        self.encoder.encode(sources, record, out)?;
        self.last = record.at;
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        self.encoder.flush(out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.encoder.finish(out);
    }
}

/// What is wrong with a record that follows one at `last`.
pub(super) fn check(record: &Record, last: Nanos) -> Result<(), String> {
    if record.at < last {
        let late = last.since(record.at);
        return Err(format!(
            "the request arrived {late} before the last; sort first, by `evenkeel trace sort IN \
             OUT`"
        ));
    }
    if record.offset.checked_add(record.length).is_none() {
        let (offset, length) = (record.offset, record.length);
        return Err(format!("{length} bytes from byte {offset} end beyond 64 bits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;

    use super::*;
    use crate::SourceId;

    #[test]
    fn time_runs_forward_and_ranges_end() {
        let (source, kind) = (SourceId(0), Kind::Read);
        let record = Record { at: Nanos(7), source, kind, offset: 8, length: 9, response: None };
        assert_eq!(check(&record, Nanos(7)), Ok(()));
        assert!(check(&record, Nanos(8)).unwrap_err().starts_with("the request arrived 1 ns"));
        let record = Record { offset: u64::MAX, ..record };
        assert!(check(&record, Nanos(0)).unwrap_err().ends_with("beyond 64 bits"));
    }
}
