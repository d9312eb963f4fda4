//! Lines of the control API, as a daemon and as its caller read them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut decoder = hawser_control::LineDecoder::new();
    if decoder.handle_bytes(data).is_ok() {
        while let Ok(Some(_)) = decoder.poll_message::<hawser_control::Request>() {}
    }
    let mut decoder = hawser_control::LineDecoder::new();
    if decoder.handle_bytes(data).is_ok() {
        while let Ok(Some(response)) = decoder.poll_message() {
            let _ = match response {
                hawser_control::Response::Status(snapshot) => {
                    hawser_text::render_status(&snapshot, 80)
                }
                hawser_control::Response::Why(report) => hawser_text::render_why(&report, 80),
                _ => String::new(),
            };
        }
    }
});
