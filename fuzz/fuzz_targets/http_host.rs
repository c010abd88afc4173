//! `Host` and `Origin` of any request: reading is total, what is read reads the same when it is
//! written down again, and nothing that a name may not hold gets into one.
#![no_main]

use std::net::IpAddr;

use evenkeel_wire::http::{Authority, Host, Origin};
use libfuzzer_sys::fuzz_target;

fn written(authority: Authority<'_>) -> String {
    let host = match authority.host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        Host::Address(IpAddr::V4(address)) => address.to_string(),
        Host::Name(name) => {
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert!(name.bytes().all(is_fine));
            name.to_owned()
        }
    };
    authority.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
}

fuzz_target!(|values: (&[u8], &[u8])| {
    let authority = Authority::parse(values.0);
    if let Some(authority) = authority {
        let text = written(authority);
        assert_eq!(Authority::parse(text.as_bytes()), Some(authority), "{text}");
        let page = format!("http://{text}");
        let page = Origin::parse(page.as_bytes()).expect("a page of that server");
        assert!(page.is_of(authority));
    }
    if let (Some(origin), Some(server)) = (Origin::parse(values.1), authority) {
        assert!(!origin.is_of(server) || origin.authority.host.is(server.host));
    }
});
