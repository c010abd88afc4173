//! The storage that explains what was seen, in words.

use evenkeel_core::time::Span;
use evenkeel_sim::calibrate::{Direction, MeasuredSpec};
use evenkeel_sim::device::spec::DeviceSpec;

use crate::human;

/// Sizes that say how a device takes them.
const SIZES: [u64; 2] = [4 << 10, 64 << 10];

/// More at once than this is no bound.
const SERVERS_MAX: u32 = 1024;

/// What passes requests on within less than this keeps nobody waiting.
const GATE_MIN: Span = Span::from_micros(1);

/// Of a device.
pub(crate) fn words(device: &DeviceSpec) -> String {
    match device {
        DeviceSpec::Measured(spec) => measured(spec),
        DeviceSpec::Rate(spec) => {
            format!(
                "a limit of {} in each direction, with {} saved",
                human::byte_rate(spec.rate_bits as f64 / 8.0),
                human::duration(spec.burstiness)
            )
        }
        // The forecast supposes no others.
        other => format!("{other:?}"),
    }
}

fn measured(spec: &MeasuredSpec) -> String {
    let at_once = match spec.servers {
        1 => "one request at a time".to_owned(),
        many if many > SERVERS_MAX => "any number of requests at once".to_owned(),
        many => format!("{many} requests at once"),
    };
    let gate = spec.read.gate.at(0).max(spec.read.gate.at(SIZES[1]));
    let passing = if gate >= GATE_MIN {
        let [small, large] = SIZES.map(|bytes| human::duration(spec.read.gate.at(bytes)));
        format!(", one after {small} (4 KiB) to {large} (64 KiB)")
    } else {
        String::new()
    };
    let (read, write) = (times(spec.read), times(spec.write));
    let directions = if read == write {
        format!("each takes {read}")
    } else {
        format!("a read takes {read}, a write {write}")
    };
    format!("{at_once}{passing}; {directions}")
}

/// What requests take that are alone.
fn times(direction: Direction) -> String {
    let [small, large] = SIZES.map(|bytes| direction.service.at(bytes));
    let [small_words, large_words] = [small, large].map(human::duration);
    if small_words == large_words {
        return small_words;
    }
    format!("{small_words} (4 KiB) to {large_words} (64 KiB)")
}
