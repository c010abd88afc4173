//! Writes a table that this format reads back to the last bit.

use evenkeel_core::time::Span;

use super::OWN_TITLES;
use super::fields::push_quoted;
use crate::codec::Encoder;
use crate::text::push_unsigned;
use crate::{Record, Sources};

/// Everything of a record fits; names must be printable.
#[derive(Default)]
pub(in crate::format) struct CsvEncoder {
    has_head: bool,
}

impl CsvEncoder {
    fn push_head_once(&mut self, out: &mut Vec<u8>) {
        if !self.has_head {
            self.has_head = true;
            out.extend_from_slice(OWN_TITLES.join(",").as_bytes());
            out.push(b'\n');
        }
    }
}

impl Encoder for CsvEncoder {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let name = sources.name(record.source);
        if name.is_empty() || name.contains(char::is_control) {
            return Err(format!(
                "a table cannot hold the source name {name:?}; it is not printable"
            ));
        }
        self.push_head_once(out);
        push_unsigned(out, record.at.0);
        out.push(b',');
        push_quoted(out, name);
        out.push(b',');
        out.extend_from_slice(record.kind.name().as_bytes());
        for value in [record.offset, record.length] {
            out.push(b',');
            push_unsigned(out, value);
        }
        out.push(b',');
        if let Some(Span(response_ns)) = record.response {
            push_unsigned(out, response_ns);
        }
        out.push(b'\n');
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.push_head_once(out);
    }
}
