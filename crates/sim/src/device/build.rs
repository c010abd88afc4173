//! From a device's description to its model.

use evenkeel_core::prng::Prng;

use super::Device;
use super::array::Array;
use super::delay::Delay;
use super::hdd::{Hdd, Parameters};
use super::rate::Rate;
use super::simple::Constant;
use super::spec::{ArraySpec, DeviceSpec, DriveSource, HddSpec, SsdDevice};
use super::ssd::catalogue::DRIVES;
use super::ssd::{Ssd, SsdSpec};
use crate::calibrate::Measured;

/// Why a description makes no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The figures of a hard disk, or its name.
    #[error(transparent)]
    Hdd(#[from] super::hdd::ParameterError),
    /// The figures of a flash drive.
    #[error(transparent)]
    Ssd(#[from] super::ssd::SsdSpecError),
    /// Members that make no array.
    #[error(transparent)]
    Array(#[from] super::array::ArrayError),
    /// No flash drive of this name comes with the simulator.
    #[error("no flash drive {0:?} is built in; there are {known}", known = known_flash_drives())]
    UnknownSsd(String),
}

/// The device that a specification describes; `seed` determines what it draws at random.
///
/// # Errors
/// If the description makes no sense; says what is wrong.
pub fn build(spec: &DeviceSpec, seed: u64) -> Result<Box<dyn Device>, DeviceError> {
    Ok(match spec {
        DeviceSpec::Constant(spec) => Box::new(Constant::new(*spec)),
        DeviceSpec::Rate(spec) => Box::new(Rate::from_spec(*spec)),
        DeviceSpec::Delay(spec) => Box::new(Delay::from_spec(*spec)),
        DeviceSpec::Measured(spec) => Box::new(Measured::new(*spec, seed)),
        DeviceSpec::Hdd(spec) => Box::new(hdd(spec)?),
        DeviceSpec::Ssd(spec) => Box::new(ssd(spec, seed)?),
        DeviceSpec::Array(spec) => array(spec, seed)?,
    })
}

/// An array; one of hard disks alone, which is what large arrays are, knows them by their type.
fn array(spec: &ArraySpec, seed: u64) -> Result<Box<dyn Device>, DeviceError> {
    let as_hdd = |member: &DeviceSpec| match member {
        DeviceSpec::Hdd(drive) => Some(hdd(drive)),
        _ => None,
    };
    let disks: Option<Vec<_>> = spec.members.iter().map(as_hdd).collect();
    if let Some(disks) = disks {
        let disks = disks.into_iter().collect::<Result<Vec<Hdd>, _>>()?;
        return Ok(Box::new(Array::new(spec.layout, disks)?));
    }
    let mut seeds = Prng::new(seed);
    let members = spec.members.iter().map(|member| build(member, seeds.next_u64()));
    Ok(Box::new(Array::new(spec.layout, members.collect::<Result<Vec<_>, _>>()?)?))
}

fn hdd(spec: &HddSpec) -> Result<Hdd, DeviceError> {
    Ok(match &spec.drive {
        DriveSource::BuiltIn(name) => Hdd::new(&Parameters::built_in(name)?, spec.order),
        DriveSource::Figures(figures) => Hdd::new(figures, spec.order),
    })
}

fn ssd(spec: &SsdDevice, seed: u64) -> Result<Ssd, DeviceError> {
    let mut figures = match &spec.drive {
        DriveSource::Figures(figures) => SsdSpec::clone(figures),
        DriveSource::BuiltIn(name) => {
            let file = DRIVES.iter().find(|file| file.name == name);
            SsdSpec::parse(file.ok_or_else(|| DeviceError::UnknownSsd(name.clone()))?.text)?
        }
    };
    if let Some(precondition) = spec.precondition {
        figures = figures.preconditioned(precondition);
    }
    figures.seed = seed;
    Ok(Ssd::new(figures)?)
}

fn known_flash_drives() -> String {
    DRIVES.map(|file| file.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::array::Layout;
    use crate::device::hdd::Policy;

    #[test]
    fn every_drive_that_comes_along_can_be_built() {
        for name in crate::device::hdd::BUILT_IN {
            let drive = DriveSource::BuiltIn(name.to_owned());
            let spec = DeviceSpec::Hdd(HddSpec { drive, order: Policy::Sptf });
            assert!(build(&spec, 1).unwrap().size_bytes() > 1 << 29, "{name}");
        }
        for file in DRIVES {
            let drive = DriveSource::BuiltIn(file.name.to_owned());
            let spec = DeviceSpec::Ssd(SsdDevice { drive, precondition: None });
            assert!(build(&spec, 1).unwrap().size_bytes() > 1 << 30, "{}", file.name);
        }
    }

    #[test]
    fn arrays_have_members_of_any_kind_and_each_of_its_own() {
        let disk = DriveSource::BuiltIn("cheetah-9lp".to_owned());
        let disk = DeviceSpec::Hdd(HddSpec { drive: disk, order: Policy::Sptf });
        let constant = DeviceSpec::Constant(crate::device::spec::ConstantSpec::default());
        let one = build(&disk, 1).unwrap().size_bytes();
        for (members, layout, size_bytes) in [
            (vec![disk.clone(), disk.clone()], Layout::Mirrored, one),
            (vec![disk.clone(), constant.clone()], Layout::Linear, one + (64 << 30)),
        ] {
            let spec = DeviceSpec::Array(ArraySpec { layout, members });
            assert_eq!(build(&spec, 1).unwrap().size_bytes(), size_bytes);
        }
        let spec = DeviceSpec::Array(ArraySpec { layout: Layout::Linear, members: Vec::new() });
        assert!(build(&spec, 1).err().unwrap().to_string().contains("needs a member"));
    }

    #[test]
    fn an_unknown_drive_is_refused_with_the_names_that_are_known() {
        let drive = DriveSource::BuiltIn("mystery".to_owned());
        let spec = DeviceSpec::Ssd(SsdDevice { drive, precondition: None });
        let error = build(&spec, 1).err().unwrap().to_string();
        assert!(error.contains("mystery") && error.contains("sata-s3500-240gb"), "{error}");
        let drive = DriveSource::BuiltIn("mystery".to_owned());
        let spec = DeviceSpec::Hdd(HddSpec { drive, order: Policy::Fcfs });
        assert!(build(&spec, 1).err().unwrap().to_string().contains("cheetah-9lp"));
    }
}
