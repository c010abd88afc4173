//! What a process uses, from `/proc`.

/// Ticks per second in `/proc/self/stat`; the kernel's user interface fixes it at 100 on every
/// architecture that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time and resident memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time since start.
    pub cpu_seconds: f64,
    /// Bytes resident.
    pub resident_bytes: u64,
}

impl Usage {
    /// Reads it; nothing where there is no `/proc`.
    pub fn now() -> Option<Self> {
        Self::read("self")
    }

    /// Reads that of another process; nothing if there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&pid.to_string())
    }

    fn read(process: &str) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some(Self { cpu_seconds: cpu_seconds(&stat)?, resident_bytes: resident_bytes(&status)? })
    }
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the command in parentheses and may hold spaces; what follows is plain.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_shifts_no_field() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 0 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
    }
}
