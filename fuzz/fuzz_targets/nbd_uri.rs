//! URIs: parsing is total, errors are printable, and what is shown is parsed back.
#![no_main]

use evenkeel_wire::nbd::uri::NbdUri;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|rest: (u8, &str)| {
    let scheme = ["", "nbd://", "nbds://h/", "nbd+unix:///", "nbds+unix:///?socket=/s&"]
        [usize::from(rest.0 % 5)];
    match format!("{scheme}{}", rest.1).parse::<NbdUri>() {
        Ok(uri) => {
            let shown = uri.to_string();
            assert_eq!(shown.parse(), Ok(uri), "{shown}");
        }
        Err(error) => {
            assert!(error.to_string().bytes().all(|byte| (32..127).contains(&byte)));
        }
    }
});
