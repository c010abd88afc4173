//! The datagrams of what gates have served: as other gates know them, read back as they were
//! written, and refused if a single byte is not as it should be.

use evenkeel_core::control::name::{DeviceId, TenantName};
use evenkeel_core::control::promise::{Promise, Told};
use evenkeel_core::control::service::{Service, TENANTS_MAX};
use evenkeel_core::control::summary::HostId;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Cost;
use evenkeel_wire::exchange::proof::push;
use evenkeel_wire::exchange::service::{ServiceDatagram, encode};
use evenkeel_wire::exchange::{DATAGRAM_BYTES_MAX, Malformed, TAG_BYTES, Word, read};
use proptest::prelude::*;

fn encoded(datagram: &ServiceDatagram) -> Vec<u8> {
    let mut out = Vec::new();
    encode(datagram, &mut out);
    out
}

/// A gate that has served a day of one tenant and 100 ms of another.
fn usual() -> ServiceDatagram {
    let service = Service {
        host: HostId::named("10.0.0.1:10900"),
        incarnation: 1_795_290_000,
        number: 864_000,
        period: 17_952_900_123,
        totals: vec![
            (TenantName::named("db"), Cost(86_400_000_000_000)),
            (TenantName::named("backup"), Cost(100_000_000)),
        ],
    };
    ServiceDatagram { group: DeviceId::named("site", "array"), service, told: None }
}

fn decoded(bytes: &[u8]) -> Result<ServiceDatagram, Malformed> {
    read(bytes).map(|(word, _)| match word {
        Word::Service(datagram) => datagram,
        other => panic!("{other:?} is of another kind"),
    })
}

#[test]
fn datagrams_are_the_bytes_that_other_gates_know() {
    let hex: Vec<String> = encoded(&usual()).iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = hex.chunks(16).map(|line| line.join(" ")).collect();
    let expected = [
        "45 53 04 02 2d e7 20 98 be 05 64 0f 90 e7 87 d8",
        "06 80 de 34 9b 88 ce f0 42 08 91 4e 07 b5 3b a1",
        "e3 c0 a7 91 a9 ba 02 8f 75 c6 1d fd 19 09 3f f8",
        "fa 05",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_largest_fits_the_bound_and_one_tenant_costs_little() {
    let total = |tenant| (TenantName(tenant), Cost(u64::MAX));
    let totals = (0..TENANTS_MAX as u64).map(total).collect();
    let service = Service {
        incarnation: u64::MAX,
        number: u64::MAX,
        period: u64::MAX,
        totals,
        ..Service::default()
    };
    let bytes = encoded(&ServiceDatagram { service, ..usual() });
    assert!(bytes.len() + TAG_BYTES <= DATAGRAM_BYTES_MAX, "{}", bytes.len());
    let mut one = usual();
    one.service.totals.truncate(1);
    // With the headers of UDP and IPv4, ten times a second.
    assert!(10 * (encoded(&one).len() + TAG_BYTES + 8 + 20) < 1000);
}

#[test]
fn what_is_no_datagram_is_refused_with_the_reason() {
    let good = encoded(&usual());
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        decoded(&bytes).unwrap_err()
    };
    assert_eq!(refusal(&|bytes| bytes[0] = b'e'), Malformed::Magic);
    assert_eq!(refusal(&|bytes| bytes[2] = 1), Malformed::Version { found: 1 });
    assert_eq!(refusal(&|bytes| bytes[3] = 65), Malformed::Flows { found: 65, most: 64 });
    let questions = Malformed::Field { name: "number of questions" };
    assert_eq!(refusal(&|bytes| bytes[3] = 1), questions);
    assert_eq!(refusal(&|bytes| bytes[3] = 3), Malformed::Short);
    for cut in 2..good.len() {
        assert_eq!(decoded(&good[..cut]), Err(Malformed::Short));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_in_units_of_1024(
        group in any::<u32>(),
        host in any::<u32>(),
        numbers in any::<[u64; 3]>(),
        totals in proptest::collection::vec(any::<(u64, u64)>(), 0..=TENANTS_MAX),
    ) {
        let [incarnation, number, period] = numbers;
        let of = |(tenant, cost)| (TenantName(tenant), Cost(cost));
        let totals = totals.into_iter().map(of).collect();
        let service = Service { host: HostId(host), incarnation, number, period, totals };
        let written = ServiceDatagram { group: DeviceId(group), service, told: None };
        let bytes = encoded(&written);
        let read = decoded(&bytes).unwrap();
        let mut expected = written;
        expected.service.totals.iter_mut().for_each(|(_, cost)| cost.0 -= cost.0 % 1024);
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(encoded(&read), bytes);
    }

    /// Whatever comes in, decoding ends with a value or a reason, and a value has one encoding.
    #[test]
    fn hostile_bytes_are_refused_or_mean_what_they_say(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let promises = vec![Promise::new("db", &Share::default())];
        let told = Some(Told { begins: false, promises });
        let mut bytes = encoded(&ServiceDatagram { told, ..usual() });
        for (index, byte) in changes {
            let position = index.index(bytes.len());
            bytes[position] = byte;
        }
        if let Ok((Word::Service(datagram), proof)) = read(&bytes) {
            let mut out = encoded(&datagram);
            push(&proof, &mut out);
            prop_assert_eq!(out, bytes);
        }
    }
}
