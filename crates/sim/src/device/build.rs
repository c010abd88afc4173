//! From a device's description to its model.

use super::Device;
use super::delay::Delay;
use super::rate::Rate;
use super::simple::Constant;
use super::spec::DeviceSpec;

/// The device that a specification describes; `seed` determines what it draws at random.
///
/// # Errors
/// If the description makes no sense; says what is wrong.
pub fn build(spec: &DeviceSpec, seed: u64) -> Result<Box<dyn Device>, String> {
    let _ = seed;
    Ok(match spec {
        DeviceSpec::Constant(spec) => Box::new(Constant::new(*spec)),
        DeviceSpec::Rate(spec) => Box::new(Rate::from_spec(*spec)),
        DeviceSpec::Delay(spec) => Box::new(Delay::from_spec(*spec)),
    })
}
