//! Drives whose figures come with the simulator. Each file in `drives/` states its source.

/// A drive file by the name that people use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveFile {
    /// Such as `nvme-p3700-400gb`.
    pub name: &'static str,
    /// TOML for [`super::SsdSpec::parse`].
    pub text: &'static str,
}

/// All of them.
pub const DRIVES: [DriveFile; 3] = [
    DriveFile {
        name: "nvme-p3700-400gb",
        text: include_str!("../../../drives/ssd-nvme-p3700-400gb.toml"),
    },
    DriveFile {
        name: "nvme-tlc-256gib",
        text: include_str!("../../../drives/ssd-nvme-tlc-256gib.toml"),
    },
    DriveFile {
        name: "sata-s3500-240gb",
        text: include_str!("../../../drives/ssd-sata-s3500-240gb.toml"),
    },
];

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;

    use super::super::tests::{Bench, assert_near, random, sequential};
    use super::super::{Precondition, SsdSpec};
    use super::*;

    fn drive(name: &str, state: Precondition) -> Bench {
        let file = DRIVES.iter().find(|file| file.name == name).unwrap();
        Bench::new(SsdSpec::parse(file.text).unwrap().preconditioned(state))
    }

    /// What a data sheet says, and what the model does.
    struct Sheet {
        name: &'static str,
        capacity_units: u64,
        /// Requests under way in random measurements.
        depth: u32,
        sequential_read: f64,
        sequential_write: f64,
        random_read: f64,
        random_write: f64,
        write_latency_ns: f64,
    }

    fn hold_against(sheet: &Sheet) {
        let large = 131_072;
        let bytes = |count: u64| (count * large) as f64;
        let mut filled = drive(sheet.name, Precondition::Sequential);
        let span = filled.run(32, sequential(Kind::Read, large, 8_000));
        assert_near(bytes(8_000) / span.as_secs_f64(), sheet.sequential_read, 5.0);
        let span = filled.run(sheet.depth, random(Kind::Read, 1, sheet.capacity_units, 100_000));
        assert_near(100_000.0 / span.as_secs_f64(), sheet.random_read, 5.0);

        let mut fresh = drive(sheet.name, Precondition::Fresh);
        let span = fresh.run(1, sequential(Kind::Write, 4096, 100));
        assert_near(span.0 as f64 / 100.0, sheet.write_latency_ns, 20.0);
        fresh.run(32, sequential(Kind::Write, large, 8_000));
        let span = fresh.run(32, sequential(Kind::Write, large, 8_000));
        assert_near(bytes(8_000) / span.as_secs_f64(), sheet.sequential_write, 5.0);

        let mut old = drive(sheet.name, Precondition::Random);
        old.run(sheet.depth, random(Kind::Write, 2, sheet.capacity_units, 200_000));
        let span = old.run(sheet.depth, random(Kind::Write, 3, sheet.capacity_units, 200_000));
        assert_near(200_000.0 / span.as_secs_f64(), sheet.random_write, 10.0);
    }

    #[test]
    fn the_p3700_does_what_its_data_sheet_says() {
        hold_against(&Sheet {
            name: "nvme-p3700-400gb",
            capacity_units: 97_677_846,
            depth: 128,
            sequential_read: 2700e6,
            sequential_write: 1080e6,
            random_read: 450e3,
            random_write: 75e3,
            write_latency_ns: 20e3,
        });
    }

    #[test]
    fn the_s3500_does_what_its_data_sheet_says() {
        hold_against(&Sheet {
            name: "sata-s3500-240gb",
            capacity_units: 58_607_766,
            depth: 32,
            sequential_read: 500e6,
            sequential_write: 260e6,
            random_read: 75e3,
            random_write: 7.5e3,
            write_latency_ns: 65e3,
        });
    }

    #[test]
    fn every_file_is_a_drive() {
        for file in DRIVES {
            let spec = SsdSpec::parse(file.text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!spec.source.is_empty() && !spec.name.is_empty(), "{}", file.name);
        }
    }
}
