//! Matching against a naive version: bit strings for addresses, recursion for patterns.

use std::net::IpAddr;

use evenkeel_core::sched::Share;
use evenkeel_engine::policy::matching::{Identity, fits, identify};
use evenkeel_engine::policy::{Match, Tenant};
use proptest::prelude::*;

/// The address as 128 characters, IPv4 in its mapped place.
fn bits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let head = "0".repeat(80) + &"1".repeat(16);
            v4.octets().iter().fold(head, |bits, octet| format!("{bits}{octet:08b}"))
        }
        IpAddr::V6(v6) => {
            v6.octets().iter().fold(String::new(), |bits, octet| format!("{bits}{octet:08b}"))
        }
    }
}

fn fits_naively(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        (['*', rest @ ..], text) => {
            (0..=text.len()).any(|eaten| fits_naively(rest, &text[eaten..]))
        }
        ([first, rest @ ..], [head, tail @ ..]) => first == head && fits_naively(rest, tail),
        (_, []) => false,
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    let near = (any::<bool>(), 0..4_u8, 0..4_u8).prop_map(|(is_high, third, last)| {
        IpAddr::from([10, if is_high { 128 } else { 0 }, third, last])
    });
    prop_oneof![
        near.clone(),
        near.prop_map(|address| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
            v6 @ IpAddr::V6(_) => v6,
        }),
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

fn network() -> impl Strategy<Value = (IpAddr, u8)> {
    (address(), 0..=128_u8).prop_map(|(address, prefix)| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (address, prefix.min(most))
    })
}

proptest! {
    #[test]
    fn the_longest_fitting_prefix_wins_bit_for_bit(
        networks in prop::collection::vec(network(), 0..8),
        peer in address(),
    ) {
        let tenants: Vec<Tenant> = networks
            .iter()
            .map(|&(network, prefix)| Tenant {
                read_only: false,
                name: String::new(),
                matches: vec![Match::Peer { network, prefix }],
                share: Share::default(),
            })
            .collect();
        let length = |&(network, prefix): &(IpAddr, u8)| {
            usize::from(prefix) + if network.is_ipv4() { 96 } else { 0 }
        };
        let fitting = |network: &&(IpAddr, u8)| {
            bits(network.0)[..length(network)] == bits(peer)[..length(network)]
        };
        let longest = networks.iter().filter(fitting).map(length).max();
        let expected = longest.and_then(|longest| {
            networks.iter().position(|one| length(one) == longest && fitting(&one))
        });
        let identity = Identity { peer: Some(peer), ..Identity::default() };
        prop_assert_eq!(identify(&tenants, &identity), expected);
    }

    #[test]
    fn patterns_fit_as_the_naive_version_says(
        pattern in "[ab*]{0,8}",
        text in "[ab]{0,10}",
    ) {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = fits_naively(&chars(&pattern), &chars(&text));
        prop_assert_eq!(fits(&pattern, &text), expected);
    }
}
