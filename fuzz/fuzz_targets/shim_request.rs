//! Requests of a shim, as the daemon parses them. A socket delivers its bytes in any pieces; only
//! whole requests are parsed.
#![no_main]

use hawser_capture::shim::{REQUEST_LENGTH, Request};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for request in data.chunks_exact(REQUEST_LENGTH) {
        let Ok(request) = <&[u8; REQUEST_LENGTH]>::try_from(request) else {
            continue;
        };
        if let Ok(read) = Request::read(request) {
            assert_eq!(read.to_bytes(), *request);
        }
    }
});
