//! What a scrub could not put right, in words: on drives without a gate, and in a gate.

use std::fmt::Write;

/// What is left as it is.
pub(crate) struct Findings<'a> {
    /// Volume and block of what is lost; perhaps not all.
    pub(crate) lost: &'a [(u32, u64)],
    /// All that is lost, in blocks.
    pub(crate) lost_blocks: u64,
    /// Bad blocks that were more than can be noted.
    pub(crate) unnoted_blocks: u64,
    /// Drives that did not answer.
    pub(crate) gone_drives: &'a [u8],
}

impl Findings<'_> {
    /// Whether there is none.
    pub(crate) fn are_none(&self) -> bool {
        self.lost_blocks == 0 && self.unnoted_blocks == 0 && self.gone_drives.is_empty()
    }

    /// A line for each, with what to do about it.
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        for (volume, block) in self.lost {
            let _ = writeln!(
                text,
                "lost: block {block} of volume {volume} (bytes from {} on); write it anew, or \
                 restore it from a backup",
                u128::from(*block) * 4096
            );
        }
        let unnamed_blocks = self.lost_blocks.saturating_sub(self.lost.len() as u64);
        if unnamed_blocks > 0 {
            let _ = writeln!(text, "and {unnamed_blocks} more");
        }
        if self.unnoted_blocks > 0 {
            let _ = writeln!(
                text,
                "{} bad blocks were more than can be noted at a time and are as bad as before: \
                 scrub again",
                self.unnoted_blocks
            );
        }
        for drive in self.gone_drives {
            let _ = writeln!(text, "drive {drive} stopped answering; its copies were not read");
        }
        text
    }
}
