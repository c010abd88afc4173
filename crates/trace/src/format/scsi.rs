//! SCSI operation codes of block devices (SBC-3, annex on operation codes): what a request does.

use evenkeel_core::ticket::Kind;

/// The kind of a command that reaches the medium; `None` for all others.
pub(super) fn kind(operation: u16) -> Option<Kind> {
    match operation {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Kind::Read),
        // The last three verify what they wrote.
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(Kind::Write),
        0x35 | 0x91 => Some(Kind::Flush),
        0x42 => Some(Kind::Trim),
        0x34 | 0x90 => Some(Kind::Cache),
        0x41 | 0x93 => Some(Kind::WriteZeroes),
        _ => None,
    }
}

/// The code of a command of this kind.
pub(super) fn operation(kind: Kind) -> u16 {
    match kind {
        Kind::Read => 0x28,
        Kind::Write => 0x2a,
        Kind::Flush => 0x35,
        Kind::Trim => 0x42,
        Kind::Cache => 0x34,
        Kind::WriteZeroes => 0x41,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_code() {
        for kind_wanted in Kind::ALL {
            assert_eq!(kind(operation(kind_wanted)), Some(kind_wanted));
        }
        assert_eq!(kind(0x12), None);
    }
}
