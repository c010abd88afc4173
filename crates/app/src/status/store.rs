//! A store in the status document: how full it is, what it costs, and what its cache saves.

use evenkeel_io::gate::{StoreDamage, StoreReport};
use evenkeel_io::store::{Progress, ScrubStatus, SpindleReport};
use evenkeel_store::CacheStatus;
use evenkeel_store::cache::{CacheCounters, Hits as HitCounts};
use evenkeel_store::units::BLOCK_BYTES_U64;
use serde::{Deserialize, Serialize};

/// A store that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// Bytes of clients in it, one copy counted.
    pub live_bytes: u64,
    /// Bytes that will be there when all provisioned volumes are full.
    pub provisioned_bytes: u64,
    /// Bytes that can be written until something has to be cleaned.
    pub until_cleaning_bytes: u64,
    /// Bytes that have to be moved until cleaning rests.
    pub cleaner_debt_bytes: u64,
    /// Segments that lack a copy.
    pub thin_segments: u64,
    /// What was found damaged since it was opened.
    #[serde(default)]
    pub damage: Damage,
    /// Bytes that clients wrote since it was opened.
    pub client_bytes: u64,
    /// Bytes read from all drives since then.
    pub drive_read_bytes: u64,
    /// Bytes written to all drives since then.
    pub drive_written_bytes: u64,
    /// Bytes written to drives for each copy of a byte of clients.
    pub write_amplification: Option<f64>,
    /// Appends among the commands to the tail's drives, 0 to 1.
    pub tail_purity: Option<f64>,
    /// Its cache, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Its last scrub since it was opened, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<Scrub>,
    /// The spindles of its drives, if the policy lets them stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spindles: Vec<Spindle>,
}

/// What of a store was found damaged since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Headers of records that were damaged on all copies, and restored from the next ones.
    pub restored_headers: u64,
    /// Times that a copy of a block was bad or unreadable; another one was read if there is one.
    pub bad_copies: u64,
    /// Reads of clients that failed: of a block, every copy was bad or unreadable.
    pub failed_reads: u64,
}

/// The spindle of a drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spindle {
    /// The path of the drive.
    pub drive: String,
    /// `turning`, `standing`, or `cannot stop`.
    pub state: String,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How often it was stopped since the store was opened.
    pub stops: u64,
    /// How long it has stood still since then.
    pub stood_seconds: f64,
}

/// A scrub of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// `running`, `stopped` before its end, or `complete`.
    pub state: String,
    /// Bytes of copies that are done.
    pub done_bytes: u64,
    /// Bytes of all copies.
    pub total_bytes: u64,
    /// Record headers of which a copy is bad.
    pub bad_headers: u64,
    /// Blocks of which a copy is bad and another one is good.
    pub bad_blocks: u64,
    /// Blocks without any good copy.
    pub lost_blocks: u64,
    /// Bad blocks that were more than could be noted, and stay as they are until another scrub.
    pub unnoted_blocks: u64,
    /// Drives that did not answer, by their numbers in the store.
    pub gone_drives: Vec<u8>,
    /// Lost blocks by name, the first hundred.
    pub lost: Vec<LostBlock>,
}

/// A block that is bad on all copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBlock {
    /// The volume or snapshot.
    pub volume: u32,
    /// Its number there, in blocks of 4 KiB.
    pub block: u64,
}

/// The cache of a store. Counters grow from when it was opened, in blocks of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Bytes of memory that it may take.
    pub memory_bytes: u64,
    /// Bytes of the SSD that it uses; 0 without one.
    pub ssd_bytes: u64,
    /// Reads of blocks that lay on the tail.
    pub tail: Hits,
    /// Reads of all others.
    pub body: Hits,
    /// Blocks taken in when they were written.
    pub written_blocks: u64,
    /// Those that were overwritten in memory, and never wore the SSD.
    pub died_in_memory_blocks: u64,
    /// Blocks on the SSD that were written there once more, since they are used.
    pub kept_blocks: u64,
    /// Blocks that the SSD did not get, since they are used less than what would have to go.
    pub unworthy_blocks: u64,
    /// Blocks that the SSD did not get, to keep within its daily budget.
    pub over_budget_blocks: u64,
    /// Blocks that it did not get since it was busy.
    pub busy_blocks: u64,
    /// Blocks that it could not give back as they were; the drives were read.
    pub failed_blocks: u64,
    /// Bytes written to the SSD.
    pub ssd_written_bytes: u64,
    /// Bytes written to it in its life as a cache.
    pub ssd_written_in_life_bytes: u64,
    /// Bytes that it can take; 0 if the policy does not say.
    pub ssd_endurance_bytes: u64,
    /// Days until these are used up, at the rate since the store was opened.
    pub ssd_lifetime_days: Option<u64>,
}

/// Reads of blocks by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hits {
    /// In memory.
    pub memory: u64,
    /// On the SSD.
    pub ssd: u64,
    /// On the drives only.
    pub missed: u64,
}

impl Hits {
    /// The part that did not reach the drives, 0 to 1; none of nothing.
    pub fn ratio(self) -> Option<f64> {
        let all = self.memory + self.ssd + self.missed;
        (all > 0).then(|| (self.memory + self.ssd) as f64 / all as f64)
    }
}

impl From<&StoreReport> for Store {
    fn from(report: &StoreReport) -> Self {
        let telemetry = &report.telemetry;
        let ratio = |permille: Option<u64>| permille.map(|permille| permille as f64 / 1000.0);
        Self {
            live_bytes: telemetry.live_bytes,
            provisioned_bytes: telemetry.provisioned_bytes,
            until_cleaning_bytes: telemetry.until_cleaning_bytes,
            cleaner_debt_bytes: telemetry.cleaner_debt_blocks * BLOCK_BYTES_U64,
            thin_segments: report.thin_segments as u64,
            damage: Damage::from(report.damage),
            client_bytes: telemetry.client_bytes,
            drive_read_bytes: telemetry.drive_read_bytes,
            drive_written_bytes: telemetry.drive_written_bytes,
            write_amplification: ratio(telemetry.write_amplification_permille),
            tail_purity: ratio(telemetry.tail_purity_permille),
            cache: report.cache.as_ref().map(Cache::from),
            scrub: report.scrub.as_ref().map(Scrub::from),
            spindles: report.spindles.iter().map(Spindle::from).collect(),
        }
    }
}

impl From<StoreDamage> for Damage {
    fn from(found: StoreDamage) -> Self {
        let StoreDamage { restored_headers, bad_copies, failed_reads } = found;
        Self { restored_headers, bad_copies, failed_reads }
    }
}

impl From<&CacheStatus> for Cache {
    fn from(status: &CacheStatus) -> Self {
        let CacheStatus { counters, wear, .. } = status;
        let CacheCounters { tail, body, .. } = counters;
        Self {
            memory_bytes: status.memory_bytes as u64,
            ssd_bytes: status.flash_bytes,
            tail: Hits::from(tail),
            body: Hits::from(body),
            written_blocks: counters.written,
            died_in_memory_blocks: counters.died_in_memory,
            kept_blocks: counters.flash_kept,
            unworthy_blocks: counters.flash_unworthy,
            over_budget_blocks: counters.flash_over_budget,
            busy_blocks: counters.flash_busy,
            failed_blocks: counters.flash_failed,
            ssd_written_bytes: wear.written_bytes,
            ssd_written_in_life_bytes: wear.written_in_all_bytes,
            ssd_endurance_bytes: wear.endurance_bytes,
            ssd_lifetime_days: wear.lifetime_days,
        }
    }
}

impl From<&ScrubStatus> for Scrub {
    fn from(status: &ScrubStatus) -> Self {
        let report = &status.report;
        let state = match status.progress {
            Progress::Running => "running",
            Progress::Stopped => "stopped",
            Progress::Complete => "complete",
        };
        let lost = status.lost.iter();
        Self {
            state: state.to_owned(),
            done_bytes: report.done_bytes,
            total_bytes: report.total_bytes,
            bad_headers: report.bad_headers,
            bad_blocks: report.bad_blocks,
            lost_blocks: report.lost_blocks,
            unnoted_blocks: report.unnoted_blocks,
            gone_drives: report.gone.iter().map(|drive| drive.0).collect(),
            lost: lost.map(|&(volume, block)| LostBlock { volume: volume.0, block }).collect(),
        }
    }
}

impl From<&SpindleReport> for Spindle {
    fn from(report: &SpindleReport) -> Self {
        let state = match (&report.trouble, report.is_standing) {
            (Some(_), _) => "cannot stop",
            (None, true) => "standing",
            (None, false) => "turning",
        };
        Self {
            drive: report.drive.clone(),
            state: state.to_owned(),
            why: report.trouble.clone(),
            stops: report.stops,
            stood_seconds: report.stood.as_secs_f64(),
        }
    }
}

impl From<&HitCounts> for Hits {
    fn from(counts: &HitCounts) -> Self {
        Self { memory: counts.memory, ssd: counts.flash, missed: counts.misses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_a_part_of_all_reads_and_none_of_nothing() {
        assert_eq!(Hits::default().ratio(), None);
        assert_eq!(Hits { memory: 5, ssd: 1, missed: 2 }.ratio(), Some(0.75));
    }
}
