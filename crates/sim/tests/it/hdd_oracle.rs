//! Hard disk drives against naive walks, and what must hold whatever is asked of them.

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_sim::device::array::{Array, Layout};
use evenkeel_sim::device::hdd::geometry::{Geometry, Track};
use evenkeel_sim::device::hdd::mechanics::{Mechanics, Purpose};
use evenkeel_sim::device::hdd::parameters::SECTOR_BYTES;
use evenkeel_sim::device::hdd::{BUILT_IN, Hdd, Parameters, Policy};
use evenkeel_sim::device::{Device, Op, Outcome, Step};
use proptest::prelude::*;

const POLICIES: [Policy; 6] = [
    Policy::Fcfs,
    Policy::Elevator,
    Policy::ElevatorUpwards,
    Policy::Sstf,
    Policy::Sptf,
    Policy::SptfLastSector,
];

/// When a first read is done: the head goes to each sector in turn, the bus takes one at a time.
fn walked(parameters: &Parameters, sent: Nanos, first: u64, sectors: u64) -> Nanos {
    let geometry = Geometry::new(&parameters.geometry, parameters.mechanics.revolution_ns);
    let cylinders = parameters.geometry.zones.last().expect("a drive has zones").cylinders[1] + 1;
    let mechanics = Mechanics::new(&parameters.mechanics, cylinders);
    let interface = &parameters.interface;
    let mut track = Track::default();
    let mut head = sent + Span(interface.read_miss_ns.after_read);
    let mut in_buffer = Vec::new();
    for lbn in first..first + sectors {
        let place = geometry.locate(lbn);
        head += mechanics.reposition(track, place.track, Purpose::Read);
        track = place.track;
        head += mechanics.rotation(head, place.angle_ns);
        in_buffer.push(head + mechanics.passing(1, place.sectors_per_track));
        // The head is behind the start of the sector from now on, and before the next.
        head += Span(mechanics.passing(1, place.sectors_per_track).0 - 1);
    }
    let enough = (sectors * u64::from(interface.read_watermark_percent) / 100).max(1);
    let enough = usize::try_from(enough - 1).expect("no more than the sectors");
    let mut bus = in_buffer[enough] + Span(interface.reselect_ns + interface.transfer_setup_ns);
    for ready in in_buffer {
        bus = bus.max(ready) + Span(interface.read_sector_ns);
    }
    bus + Span(interface.read_completion_ns)
}

/// Drives a device until it is done with the one request that it has.
fn finish(device: &mut impl Device, mut now: Nanos) -> Nanos {
    loop {
        match device.poll(now) {
            Step::Done { .. } => return now,
            Step::WaitUntil(next) => now = next,
            Step::Idle => panic!("a request is outstanding"),
        }
    }
}

/// Requests of every kind at random instants; `nosy` polls in between, too.
fn finished(device: &mut impl Device, requests: u32, seed: u64, nosy: bool) -> Vec<(Nanos, u32)> {
    let mut prng = Prng::new(seed);
    let mut done = Vec::new();
    let mut now = Nanos::ZERO;
    for tag in 0..requests {
        let kind = Kind::ALL[usize::try_from(prng.below(6)).expect("below six")];
        let length = if kind == Kind::Flush { 0 } else { 1 + prng.below(200_000) };
        let offset = prng.below(device.size_bytes() - length);
        device.submit(now, Op { tag, kind, offset, length });
        drain(device, &mut now, prng.exponential(Span::from_millis(4)), &mut done, nosy);
    }
    drain(device, &mut now, Span::from_secs(3_600), &mut done, nosy);
    done
}

fn drain(
    device: &mut impl Device,
    now: &mut Nanos,
    time: Span,
    done: &mut Vec<(Nanos, u32)>,
    nosy: bool,
) {
    let end = *now + time;
    loop {
        let next = match device.poll(*now) {
            Step::Done { tag, outcome } => {
                assert_eq!(outcome, Outcome::Good);
                done.push((*now, tag));
                continue;
            }
            Step::WaitUntil(next) => {
                assert!(next > *now, "the next instant lies ahead");
                next
            }
            Step::Idle => end,
        };
        if nosy {
            let middle = Nanos(now.0.midpoint(next.0.min(end.0)));
            assert!(middle == *now || !matches!(device.poll(middle), Step::Done { .. }));
        }
        *now = next.min(end);
        if next >= end {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_read_takes_what_a_walk_from_sector_to_sector_says(
        drive in 0..BUILT_IN.len(),
        sent in 0..100_000_000u64,
        place in 0.0..1.0f64,
        sectors in 1..700u64,
    ) {
        let parameters = Parameters::built_in(BUILT_IN[drive]).unwrap();
        let mut model = Hdd::new(&parameters, Policy::Fcfs);
        let places = model.size_bytes() / SECTOR_BYTES - sectors;
        let first = Prng::new(place.to_bits()).below(places);
        let [offset, length] = [first, sectors].map(|number| number * SECTOR_BYTES);
        model.submit(Nanos(sent), Op { tag: 0, kind: Kind::Read, offset, length });
        let ours = finish(&mut model, Nanos(sent));
        let naive = walked(&parameters, Nanos(sent), first, sectors);
        // Each rounds to whole nanoseconds in its own way.
        prop_assert!(ours.0.abs_diff(naive.0) <= 4, "{ours:?} {naive:?}");
    }

    #[test]
    fn every_request_is_done_once_and_a_nosy_driver_changes_nothing(
        drive in 0..BUILT_IN.len(),
        policy in 0..POLICIES.len(),
        seed in any::<u64>(),
    ) {
        let parameters = Parameters::built_in(BUILT_IN[drive]).unwrap();
        let run = |nosy| finished(&mut Hdd::new(&parameters, POLICIES[policy]), 60, seed, nosy);
        let quiet = run(false);
        prop_assert_eq!(&quiet, &run(true));
        let mut tags: Vec<u32> = quiet.iter().map(|(_, tag)| *tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn an_array_does_every_request_once(layout in 0..4usize, seed in any::<u64>()) {
        let unit_bytes = 4_096 + seed % 100_000;
        let layout = [
            Layout::Linear,
            Layout::Striped { unit_bytes },
            Layout::Mirrored,
            Layout::StripedMirrors { unit_bytes },
        ][layout];
        let parameters = Parameters::built_in("barracuda").unwrap();
        let run = |nosy| {
            let drives = (0..4).map(|_| Hdd::new(&parameters, Policy::Sptf)).collect();
            finished(&mut Array::new(layout, drives).unwrap(), 60, seed, nosy)
        };
        let quiet = run(false);
        prop_assert_eq!(&quiet, &run(true));
        let mut tags: Vec<u32> = quiet.iter().map(|(_, tag)| *tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..60).collect::<Vec<_>>());
    }
}
