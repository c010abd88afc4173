//! The hard disks that a store's drives can be made as slow as, by the simulator's models.

use std::time::Duration;

use evenkeel_core::device::Device;
use evenkeel_io::store::DriveModel;
use evenkeel_sim::device::hdd::{self, Hdd, Parameters};
use evenkeel_sim::device::spindle::{Spindle, SpindleSpec};

/// A disk by its averages behind the deadline queue of a host; of any size.
const OF_2013: &str = "sata-10k-2013";

/// The names of all models.
pub fn names() -> impl Iterator<Item = &'static str> {
    [OF_2013].into_iter().chain(hdd::BUILT_IN)
}

/// All names in one line, for people.
pub fn known() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// The model of this name, for a drive of so many bytes; `seed` is for what it draws.
///
/// # Errors
/// If there is no such model, or the drive is larger than the disk was; with the remedy.
pub fn model(name: &str, size_bytes: u64, seed: u64) -> Result<DriveModel, String> {
    let of_2013 = SpindleSpec::of_2013().of_size(size_bytes);
    // Nobody has told how long the others take to start.
    let spin_up = Duration::from_nanos(of_2013.power.spin_up_ns);
    let device = match name {
        OF_2013 => Box::new(Spindle::new(of_2013, seed)),
        _ => known_disk(name, size_bytes)?,
    };
    Ok(DriveModel { device, spin_up })
}

fn known_disk(name: &str, size_bytes: u64) -> Result<Box<dyn Device>, String> {
    let figures = Parameters::built_in(name).map_err(|error| error.to_string())?;
    let disk = Hdd::new(&figures, hdd::Policy::Sptf);
    let held_bytes = disk.size_bytes();
    if size_bytes > held_bytes {
        return Err(format!(
            "it has {size_bytes} bytes, but a {name} only {held_bytes}; make the store with a \
             smaller `--size`, or emulate {OF_2013}, which has any size"
        ));
    }
    Ok(Box::new(disk))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use evenkeel_core::time::Span;
    use evenkeel_io::store::{FileDrive, OpenDrive, block_on};
    use evenkeel_sim::device::simple::Constant;
    use evenkeel_sim::device::spec::ConstantSpec;
    use evenkeel_store::{Buffer, Drive, Durability};

    use super::*;

    #[test]
    fn a_command_takes_the_models_time_and_brings_the_files_bytes() {
        const COMMAND: Duration = Duration::from_millis(4);
        let folder = tempfile::tempdir().unwrap();
        let how = OpenDrive { create_bytes: Some(1 << 20), ..OpenDrive::default() };
        let fixed = Span::from_millis(4);
        let one_by_one = Constant::new(ConstantSpec { fixed, ..ConstantSpec::default() });
        block_on(async {
            let drive = FileDrive::open(&folder.path().join("a"), &how).await.unwrap();
            let model = DriveModel { device: Box::new(one_by_one), spin_up: Duration::ZERO };
            let drive = drive.emulate(model).unwrap();
            let begin = Instant::now();
            let data = || vec![Buffer::copy_of(&[7; 4096])];
            let writes = tokio::join!(
                drive.write(0, data(), Durability::Volatile),
                drive.write(4096, data(), Durability::Durable),
                drive.write(8192, data(), Durability::Volatile),
            );
            assert_eq!(writes, (Ok(()), Ok(()), Ok(())));
            assert!(begin.elapsed() >= 3 * COMMAND);
            drive.flush().await.unwrap();
            assert!(begin.elapsed() >= 4 * COMMAND);
            assert!(drive.read(0, 12288).await.unwrap().iter().all(|byte| *byte == 7));
            drive.discard(0, 4096).await.unwrap();
            assert!(begin.elapsed() >= 6 * COMMAND);
        })
        .unwrap();
    }

    #[test]
    fn every_model_can_be_had_by_its_name() {
        for name in names() {
            assert!(model(name, 1 << 29, 1).unwrap().device.size_bytes() >= 1 << 29, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_unknown_and_a_drive_that_is_too_large_are_refused_with_the_remedy() {
        let refusal = |name, size_bytes| model(name, size_bytes, 1).err().unwrap();
        assert!(refusal("floppy", 1 << 20).contains("cheetah-9lp"));
        assert!(refusal("cheetah-9lp", 1 << 40).contains("a smaller `--size`"));
    }
}
