//! What a shim asks, as the daemon reads it. A socket gives its bytes in any pieces; only whole
//! requests are read.
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
