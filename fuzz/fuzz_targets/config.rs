//! A configuration file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hawser_config::Config::parse("fuzz", &String::from_utf8_lossy(data));
});
