//! A volume over several devices, its tiers: what it can do is what all of them can.
//!
//! ```text
//!               smallest request   largest payload   flush   FUA   trim   -> volume
//! slow, file           1                32 MiB        yes    yes    yes      512, 1 MiB,
//! fast, server       512                 1 MiB        yes    no     yes      flush, trim
//! ```
//!
//! Where a byte lies is the engine's knowledge: units come here with their server and an offset on
//! its device.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_core::id::ServerId;
use evenkeel_wire::nbd::proto::{BlockSize, TransmissionFlags};

use super::{Device, Features};

/// The tiers of a volume, with what they can do together.
#[derive(Debug)]
pub(crate) struct TieredDisk {
    tiers: Vec<Rc<Device>>,
    features: Features,
    size_bytes: Cell<u64>,
    /// The one that the volume does without: its troubles are not the volume's.
    left_out: Cell<Option<usize>>,
}

/// What a volume can do only if each of its tiers can.
const OF_ALL: TransmissionFlags = TransmissionFlags(
    TransmissionFlags::SEND_FUA.0
        | TransmissionFlags::SEND_TRIM.0
        | TransmissionFlags::SEND_WRITE_ZEROES.0
        | TransmissionFlags::SEND_FAST_ZERO.0
        | TransmissionFlags::SEND_CACHE.0,
);

/// What a volume does or is if one of its tiers does or is. A flush of the volume is one of every
/// tier that offers it.
const OF_ANY: TransmissionFlags =
    TransmissionFlags(TransmissionFlags::SEND_FLUSH.0 | TransmissionFlags::ROTATIONAL.0);

impl TieredDisk {
    /// A volume, as yet of no size, over devices and what each of them can do, in the order of the
    /// policy; a server that is away has not told. None if there is no size of request that all of
    /// them take.
    pub(crate) fn new(tiers: Vec<(Rc<Device>, Option<&Features>)>) -> Option<Self> {
        let (tiers, features): (Vec<_>, Vec<_>) = tiers.into_iter().unzip();
        let left_out = Cell::new(features.iter().position(Option::is_none));
        let features: Vec<&Features> = features.into_iter().flatten().collect();
        Some(Self { tiers, features: together(&features)?, size_bytes: Cell::new(0), left_out })
    }

    /// Whether one more device can do all that the volume has promised.
    pub(crate) fn takes(&self, device: &Features) -> bool {
        together(&[&self.features, device]).is_some_and(|both| {
            let told = OF_ALL | TransmissionFlags::SEND_FLUSH;
            let sizes = |one: &BlockSize| (one.minimum, one.maximum_payload);
            both.flags & told == self.features.flags & told
                && sizes(&both.block_size) == sizes(&self.features.block_size)
        })
    }

    /// It has this size from now on.
    pub(crate) fn set_size(&self, size_bytes: u64) {
        self.size_bytes.set(size_bytes);
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.get()
    }

    pub(super) fn tiers(&self) -> &[Rc<Device>] {
        &self.tiers
    }

    /// How often acknowledged writes may have been lost so far, by server.
    pub(crate) fn losses(&self) -> Vec<(ServerId, u64)> {
        self.tiers.iter().flat_map(|tier| tier.losses()).collect()
    }

    /// The volume was opened anew, without this one if any.
    pub(crate) fn leave_out(&self, tier: Option<usize>) {
        self.left_out.set(tier);
    }

    pub(super) fn trouble(&self) -> Option<String> {
        let left_out = self.left_out.get();
        let mut needed =
            self.tiers.iter().enumerate().filter(|(index, _)| Some(*index) != left_out);
        needed.find_map(|(_, tier)| tier.trouble())
    }

    pub(super) fn features(&self) -> Features {
        Features { size_bytes: self.size_bytes.get(), ..self.features.clone() }
    }
}

/// What devices can do together.
fn together(tiers: &[&Features]) -> Option<Features> {
    let in_any = tiers.iter().fold(TransmissionFlags::NONE, |flags, tier| flags | tier.flags);
    let in_all = tiers.iter().fold(OF_ALL, |flags, tier| flags & tier.flags);
    let flags = TransmissionFlags::HAS_FLAGS
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::CAN_MULTI_CONN
        | (in_any & OF_ANY)
        | in_all;
    let sizes = |of: fn(&BlockSize) -> u32| tiers.iter().map(move |tier| of(&tier.block_size));
    let maximum_payload = sizes(|size| size.maximum_payload).min()?;
    let preferred = sizes(|size| size.preferred).max()?;
    let block_size = BlockSize {
        minimum: sizes(|size| size.minimum).max()?,
        preferred: preferred.min(1 << maximum_payload.ilog2()),
        maximum_payload,
    };
    let (contexts, description) = (Vec::new(), None);
    let features = Features { size_bytes: 0, flags, block_size, contexts, description };
    block_size.is_valid().then_some(features)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(minimum: u32, preferred: u32, maximum_payload: u32) -> Features {
        let block_size = BlockSize { minimum, preferred, maximum_payload };
        Features { block_size, ..Features::local(1 << 20) }
    }

    #[test]
    fn a_volume_takes_what_every_tier_takes() {
        let sizes = |one: Features, other: Features| Some(together(&[&one, &other])?.block_size);
        let expected = BlockSize { minimum: 512, preferred: 65_536, maximum_payload: 1 << 20 };
        let found = sizes(tier(1, 4096, 32 << 20), tier(512, 65_536, 1 << 20));
        assert_eq!(found, Some(expected));
        let found = sizes(tier(1, 4096, 9000), tier(512, 65_536, 1 << 20));
        assert_eq!(found.map(|size| size.preferred), Some(8192));
        assert_eq!(sizes(tier(1, 4096, 4096), tier(8192, 8192, 1 << 20)), None);
    }

    #[test]
    fn a_volume_can_do_what_every_tier_can_and_flushes_if_one_must() {
        let all = Features::local(1 << 20);
        let less = TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_TRIM;
        let without = Features { flags: all.flags.without(less), ..all.clone() };
        let volume = together(&[&all, &without]).expect("sizes are alike");
        assert!(volume.flags.contains(TransmissionFlags::SEND_FLUSH));
        assert!(volume.flags.contains(TransmissionFlags::SEND_FUA));
        assert!(!volume.flags.contains(TransmissionFlags::SEND_TRIM));
        assert!(!volume.flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD));
        assert!(volume.contexts.is_empty());
    }
}
