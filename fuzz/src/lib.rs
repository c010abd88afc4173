//! What the fuzz targets share: input that is almost right, since noise alone never gets past a
//! magic number.

use arbitrary::{Arbitrary, Unstructured};
use evenkeel_wire::nbd::proto::ReplyStyle;

/// A string on the wire whose length field mostly tells the truth.
#[derive(Arbitrary, Debug)]
pub struct Text {
    text: Name,
    lie: Option<u32>,
}

#[derive(Arbitrary, Debug)]
enum Name {
    Empty,
    Disk,
    Allocation,
    BaseWildcard,
    Bytes(Vec<u8>),
    Long { byte: u8, length: u16 },
}

impl Text {
    /// The bytes without their length.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.text {
            Name::Empty => Vec::new(),
            Name::Disk => b"disk".to_vec(),
            Name::Allocation => b"base:allocation".to_vec(),
            Name::BaseWildcard => b"base:".to_vec(),
            Name::Bytes(bytes) => bytes.clone(),
            Name::Long { byte, length } => vec![*byte; usize::from(length % 5000)],
        }
    }

    /// Appends length and bytes.
    pub fn push(&self, out: &mut Vec<u8>) {
        let bytes = self.bytes();
        let length = self.lie.unwrap_or(u32::try_from(bytes.len()).expect("short"));
        out.extend(length.to_be_bytes());
        out.extend(bytes);
    }
}

/// Any framing.
pub fn style(u: &mut Unstructured<'_>) -> arbitrary::Result<ReplyStyle> {
    Ok(*u.choose(&[ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended])?)
}
